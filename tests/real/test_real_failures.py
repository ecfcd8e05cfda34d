"""Each failure of `failures.py`, made on the real server and diagnosed from its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.conftest import installed
from tests.real.crashcart import Crashcart
from tests.real.failures import FAILURES, Failure
from tests.real.launching import fail

pytestmark = pytest.mark.real

CASES = [pytest.param(name, failure, id=f"{name}-{failure.name}") for failure in FAILURES for name in failure.servers]


@pytest.mark.parametrize(("name", "failure"), CASES)
def test_a_real_failure_is_diagnosed_with_its_line_and_command(
    name: str, failure: Failure, tmp_path: Path, crashcart: Crashcart
) -> None:
    server = installed(name)
    ended = fail(server, failure, tmp_path)
    code = [] if ended.exit_code is None else ["--exit-code", str(ended.exit_code)]
    diagnosis = crashcart.json("diagnose", str(ended.log), *code, "--", *ended.words)
    assert diagnosis["phase"] == failure.phase
    cause = diagnosis["causes"][0]
    assert cause["category"] == failure.category
    assert failure.category == "killed-by-signal" or failure.proven_by(cause["line"]["text"])
    assert cause["command"] == (failure.corrected(ended.words) if failure.correctable else None)
