"""Fixtures for the tests on real servers: each test gets what is installed, or skips and says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.crashcart import Crashcart
from tests.real.servers import SERVERS, RealServer, free_port, real_root
from tests.real.tiny_model import write_model


@pytest.fixture(params=[server.name for server in SERVERS])
def server(request: pytest.FixtureRequest) -> RealServer:
    """Each real server in turn."""
    return installed(request.param)


def installed(name: str) -> RealServer:
    found = next(server for server in SERVERS if server.name == name)
    if not found.installed:
        pytest.skip(f"{name} is not installed in {real_root()}; tests/real/install-all.sh does it")
    return found


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


@pytest.fixture
def crashcart(tmp_path: Path) -> Iterator[Crashcart]:
    """Our own program with a state folder for this test; what it started is ended afterwards."""
    program = Crashcart(tmp_path / "state")
    yield program
    program.close()
