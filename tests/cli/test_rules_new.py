"""`rules new` drafts a rule that is sound at once: it can be read, it matches its log, and lint minds nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.rules.draft import pattern_of
from app.rules.load import load_rules
from tests.conftest import Said

Asked = Callable[..., Said]

LOG = """\
[2026-01-12 10:00:00 TP0] Init torch distributed begin.
[2026-01-12 10:00:16 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/managers/scheduler.py", line 2000, in run_scheduler_process
    scheduler.event_loop_overlap()
sgl_flux.errors.FluxError: flux capacitor 3 needs 1.21 GW at /dev/flux0, found 0x7f (hf_abcdefghijklmnopqrstuvwxyz)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(LOG)
    return path


def test_a_draft_is_found_in_its_own_log_and_lint_minds_nothing(asked: Asked, log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    written = asked("rules", "new", "sglang/flux", "--from-log", str(log), "--folder", str(folder))
    rule = folder / "sglang" / "flux.yaml"
    assert written.code == 0
    assert asked("rules", "test", str(rule)).code == 0
    assert asked("rules", "lint", str(rule)).code == 0
    assert load_rules([folder]).problems == ()


def test_a_draft_fits_the_same_failure_of_another_run(log: Path, asked: Asked, tmp_path: Path) -> None:
    asked("rules", "new", "sglang/flux", "--from-log", str(log), "--folder", str(tmp_path / "ours"))
    other = tmp_path / "other.log"
    other.write_text(LOG.replace("capacitor 3", "capacitor 12").replace("/dev/flux0", "/dev/flux7"))
    explained = asked("rules", "explain", "sglang/flux", str(other), "--rules", str(tmp_path / "ours"))
    assert "yes" in explained.out


def test_a_draft_holds_no_secret(asked: Asked, log: Path, tmp_path: Path) -> None:
    asked("rules", "new", "sglang/flux", "--from-log", str(log), "--folder", str(tmp_path))
    assert "hf_abcdefghijklmnop" not in (tmp_path / "sglang" / "flux.yaml").read_text()


def test_a_rule_that_is_there_is_not_overwritten(asked: Asked, log: Path, tmp_path: Path) -> None:
    rule = tmp_path / "sglang" / "flux.yaml"
    rule.parent.mkdir()
    rule.write_text("mine")
    said = asked("rules", "new", "sglang/flux", "--from-log", str(log), "--folder", str(tmp_path))
    assert (said.code, rule.read_text()) == (2, "mine")
    assert "is there already" in said.err


def test_a_log_without_a_failure_asks_for_the_line(asked: Asked, tmp_path: Path) -> None:
    log = tmp_path / "healthy.log"
    log.write_text("INFO:     Application startup complete.\n")
    said = asked("rules", "new", "vllm/x", "--from-log", str(log), "--folder", str(tmp_path))
    assert said.code == 2
    assert "--line N" in said.err


def test_what_differs_from_run_to_run_is_a_class_and_the_words_stay() -> None:
    assert pattern_of("Device 3 at /dev/x (0x7f) failed.") == (
        r"^Device -?\d[\d.,]{0,20} at [^\s'\x22,;:()\[\]]{1,300} \(0x[0-9a-fA-F]{1,16}\) failed\."
    )
