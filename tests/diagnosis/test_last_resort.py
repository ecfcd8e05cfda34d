"""What is said of failures that no rule knows: the signal, the nearest line, the kind that its words tell."""

from __future__ import annotations

from typing import Any

from app.core.model import Cause, Diagnosis, Exit
from app.core.vocabulary import Category
from app.diagnosis.pipeline import Pipeline
from app.rules.load import RuleSet
from app.rules.schema import Rule


def _rule(name: str, role: str, **fields: Any) -> Rule:
    return Rule.model_validate({"id": name, "title": name, "status": "stable", "role": role} | fields)


RULES = (
    _rule("any/gave-up", "symptom", when={"line": r"^main: exiting due to"}),
    _rule("any/ended", "symptom", when={"line": r"^(?:server-1 exited with code|Killed)"}),
    _rule("any/pipe", "symptom", when={"traceback": {"type": "EOFError"}}),
    _rule("sglang/child-failed", "symptom", when={"line": r"^SIGQUIT received"}),
    _rule("any/advice", "noise", when={"line": r"^Advice: "}),
    _rule("any/ready", "progress", reaches="ready", when={"line": r"^ready$"}),
)


def diagnosed(log: str, exit: int | None = None) -> Diagnosis:
    session = Pipeline(RuleSet(tuple(sorted(RULES, key=lambda one: one.id)))).session()
    session.feed(log.encode())
    session.close()
    return session.diagnose(Exit.from_code(exit))


def first(log: str, exit: int | None = None) -> Cause:
    return diagnosed(log, exit).causes[0]


def line_of(cause: Cause) -> str | None:
    return cause.line.text if cause.line is not None else None


def test_a_signal_that_a_launcher_reports_is_the_cause() -> None:
    cause = first("loading\nserver-1 exited with code 137\n")
    assert cause.category is Category.KILLED_BY_SIGNAL
    assert line_of(cause) == "server-1 exited with code 137"


def test_a_signal_after_another_echo_is_only_the_end_of_the_cascade() -> None:
    assert first("main: exiting due to an error\nKilled\n").category is Category.UNKNOWN


def test_what_the_others_saw_of_a_killed_server_is_not_taken_for_its_cause() -> None:
    log = 'Traceback (most recent call last):\n  File "/a/pipe.py", line 1, in recv\n    raise EOFError\nEOFError\n'
    assert first(log, exit=-9).rule == "any/killed-by-signal"


def test_a_launcher_that_kills_its_own_tree_was_not_killed_from_outside() -> None:
    log = "SIGQUIT received: a child failed\n"
    assert first(log, exit=-9).rule == "any/unknown-failure"


def test_a_native_crash_that_names_its_signal_is_killed_by_it() -> None:
    cause = first("loading\nIllegal instruction (core dumped)\n", exit=132)
    assert cause.category is Category.KILLED_BY_SIGNAL


def test_the_complaint_before_a_program_gives_up_is_shown_instead_of_its_giving_up() -> None:
    cause = first("widget: cannot open the frobnicator\nmain: exiting due to an error\n")
    assert line_of(cause) == "widget: cannot open the frobnicator"


def test_the_complaint_before_an_abort_is_shown_instead_of_the_abort() -> None:
    cause = first("ROCm error: invalid device function\n  current device: 0\nAborted (core dumped)\n", exit=134)
    assert line_of(cause) == "ROCm error: invalid device function"
    assert cause.category is Category.UNSUPPORTED_GPU


def test_a_program_that_ends_without_a_known_form_of_error_shows_its_last_complaint() -> None:
    cause = first("hello\nno space left on device while writing\nbye\n", exit=1)
    assert (cause.rule, cause.category) == ("any/by-its-words", Category.DISK_FULL)


def test_reasons_below_an_error_tell_its_kind() -> None:
    log = "Error: Could not create backend\n\nCaused by:\n    Runtime compute cap 75 is not compatible\n"
    assert first(log, exit=1).category is Category.UNSUPPORTED_GPU


def test_a_known_advice_inside_a_traceback_does_not_hush_it() -> None:
    log = 'Traceback (most recent call last):\n  File "/a.py", line 1, in f\nRuntimeError: no luck\nAdvice: retry\n'
    assert line_of(first(log, exit=1)) == "RuntimeError: no luck"


def test_an_echo_before_the_server_became_ready_is_none() -> None:
    assert diagnosed("main: exiting due to a first try\nready\n").causes == ()
