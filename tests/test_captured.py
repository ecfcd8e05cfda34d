"""Logs of real servers that failed on purpose (tests/real/capture.py): what `diagnose` must say of each, literally."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from app.cli.commands import build_app

CAPTURED = Path(__file__).resolve().parent.parent / "fixtures" / "captured"
EXPECTATIONS = sorted(CAPTURED.glob("*/*.yaml"))


@pytest.fixture(params=EXPECTATIONS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def captured(request: pytest.FixtureRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is expected of a captured log, and what `diagnose --json` says."""
    path: Path = request.param
    expected = yaml.safe_load(path.read_text())
    code = [] if expected["exit_code"] is None else ["--exit-code", str(expected["exit_code"])]
    launch = [*(f"{name}={value}" for name, value in expected["env"].items()), *expected["argv"]]
    words = ["diagnose", str(path.with_suffix(".log")), *code, "--json", "--", *launch]
    result = CliRunner().invoke(build_app(words), words)
    assert result.exit_code == 1, result.output
    return expected, json.loads(result.output)


def test_the_root_cause_of_a_captured_log_is_named_with_its_line_and_the_corrected_command(
    captured: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    expected, said = captured
    cause = said["causes"][0]
    found = {
        "phase": said["phase"],
        "category": cause["category"],
        "line": cause["line"]["text"] if cause["line"] and expected["line"] else None,
        "command": cause["command"],
    }
    assert found == {name: expected[name] for name in found}


def test_at_least_fifteen_real_failures_of_three_servers_are_kept() -> None:
    assert len(EXPECTATIONS) >= 15
    assert {path.parent.name for path in EXPECTATIONS} == {"sglang-0.5.9", "sglang-0.5.23", "vllm-0.32.0"}
