"""The installed engines are asked for their flags, and the shipped catalogues say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.command import Command
from app.core.shipped import shipped
from app.core.vocabulary import Engine
from app.supervise.flaghelp import catalogue_for
from tests.real.servers import RealServer

pytestmark = pytest.mark.real


def test_the_installed_help_and_the_shipped_catalogue_agree(server: RealServer, tmp_path: Path) -> None:
    command = Command.parse(server.command(tmp_path, 31000))
    asked = catalogue_for(command, cache=tmp_path, may_run=True, timeout=240)
    known = shipped(Engine(server.engine), server.version)

    assert asked is not None
    assert (asked.origin, asked.complete) == ("installed", True)
    assert set(asked.spellings) | {"-h"} == set(known.spellings) | {"-h"}
    assert {(flag.name, flag.takes, flag.type, frozenset(flag.choices)) for flag in asked.flags} == {
        (flag.name, flag.takes, flag.type, frozenset(flag.choices)) for flag in known.flags
    }


def test_what_the_tests_start_is_valid_by_the_installed_engine(server: RealServer, tmp_path: Path) -> None:
    command = Command.parse(server.command(tmp_path, 31000))
    asked = catalogue_for(command, cache=tmp_path, may_run=True, timeout=240)

    assert asked is not None
    assert asked.validate(command) == []
