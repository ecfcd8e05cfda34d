"""Shared by the tests that follow a log with a real service."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An empty log in a folder of its own."""
    path = tmp_path / "logs" / "server.log"
    path.parent.mkdir()
    path.touch()
    return path
