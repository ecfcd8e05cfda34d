"""Shared by all tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.store.store import Store


@pytest.fixture
def anyio_backend() -> str:
    """Tests marked `anyio` run on asyncio, as the product does."""
    return "asyncio"


@pytest.fixture(scope="session")
def _fresh_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh") / "state"
    Store.open(folder).close()
    return folder


@pytest.fixture
def state(tmp_path: Path, _fresh_state: Path) -> Path:
    """A state folder with an empty database: a copy, because migrating takes longer than most tests."""
    folder = tmp_path / "state"
    shutil.copytree(_fresh_state, folder)
    return folder


@pytest.fixture
def store(state: Path) -> Iterator[Store]:
    """An open store."""
    with Store.open(state) as opened:
        yield opened
