"""A failure that neither a rule nor its words explain is of the kind of the part where it was raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.vocabulary import Engine
from app.diagnosis.pipeline import Pipeline
from app.rules.load import builtin_rules

READY = "[2026-01-12 10:00:00] The server is fired up and ready to roll!\n"


def kind(tmp_path: Path, place: str, error: str, before: str = READY) -> str:
    log = tmp_path / "log"
    log.write_text(
        f"{before}[2026-01-12 10:05:20 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/opt/sglang/srt/managers/scheduler.py", line 2000, in run_scheduler_process\n'
        "    scheduler.event_loop_normal()\n"
        f'  File "/opt/sglang/srt/{place}", line 7, in work\n'
        "    work()\n"
        f"{error}\n\n"
        "[2026-01-12 10:05:21] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
    )
    diagnosis = Pipeline(builtin_rules(), read_source=False).diagnose_file(log, engine=Engine.SGLANG)
    return str(diagnosis.causes[0].category)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("constrained/base_grammar_backend.py", "grammar-backend-crash"),
        ("speculative/worker.py", "speculative-decoding-crash"),
        ("disaggregation/decode.py", "disaggregation-failure"),
        ("managers/mm_utils.py", "multimodal-processing"),
        ("managers/tp_worker.py", "scheduler-crash"),
    ],
)
def test_a_slip_of_the_program_is_of_the_kind_of_its_part(tmp_path: Path, place: str, expected: str) -> None:
    assert kind(tmp_path, place, "AttributeError: 'Thing' object has no attribute 'other'") == expected


def test_words_about_code_are_no_words_about_the_cause(tmp_path: Path) -> None:
    assert kind(tmp_path, "managers/tp_worker.py", "IndexError: list index out of range") == "scheduler-crash"


def test_a_server_that_was_ready_does_not_fail_by_its_weights(tmp_path: Path) -> None:
    error = "RuntimeError: shape mismatch: value tensor of shape [729, 3584]"
    assert kind(tmp_path, "managers/mm_utils.py", error) == "multimodal-processing"


def test_while_it_loads_the_loader_tells_of_weights(tmp_path: Path) -> None:
    assert kind(tmp_path, "model_loader/loader.py", "AttributeError: no such thing", before="") == "weights-mismatch"
