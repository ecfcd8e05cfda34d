"""Logs of real servers, with all built-in rules: failures are told with their line and command, health stays quiet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from app.core.command import Command
from app.core.model import Diagnosis, Exit
from app.core.vocabulary import Outcome
from app.diagnosis.pipeline import Pipeline
from app.rules.load import builtin_rules

FIXTURES = Path(__file__).parents[2] / "fixtures"
CAPTURED = sorted(FIXTURES.glob("captured/*/*.yaml"))
HEALTHY = sorted(FIXTURES.glob("healthy/*/*.log"))


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return Pipeline(builtin_rules())


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", CAPTURED, ids=name_of)
def test_a_real_failure_is_told_with_its_line_and_its_command(pipeline: Pipeline, path: Path) -> None:
    case: dict[str, Any] = yaml.safe_load(path.read_text())
    words = [*(f"{name}={value}" for name, value in case["env"].items()), *case["argv"]]
    found = pipeline.diagnose_file(
        path.with_suffix(".log"), command=Command.parse(words), exit=Exit.from_code(case["exit_code"])
    )
    cause = found.causes[0]
    line = cause.line.text if cause.line is not None else None
    command = list(cause.command) if cause.command is not None else None
    assert (found.phase, cause.category, line, command) == tuple(
        case[key] for key in ("phase", "category", "line", "command")
    )


@pytest.mark.parametrize("path", HEALTHY, ids=name_of)
def test_a_healthy_log_stays_quiet_wherever_it_is_cut(pipeline: Pipeline, path: Path) -> None:
    log = path.read_bytes()
    for part in (0.2, 0.5, 0.8, 1.0):
        found = diagnosed(pipeline, log[: int(len(log) * part)])
        assert found.causes == ()
        assert found.outcome in (Outcome.HEALTHY, Outcome.STARTING)


def diagnosed(pipeline: Pipeline, log: bytes) -> Diagnosis:
    session = pipeline.session()
    session.feed(log)
    session.close()
    return session.diagnose()
