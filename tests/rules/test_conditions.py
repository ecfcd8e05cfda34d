"""What each condition of a rule means."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.model import Event, Exit
from app.core.vocabulary import Engine, Phase
from tests.rules.making import line, matched, raised, rule, traceback

SGLANG = "python3 -m sglang.launch_server --model-path m --port 30000"


def test_a_line_binds_its_captures_and_is_the_proof() -> None:
    found = matched(rule({"line": r"^Port (?P<number>\d+) is taken"}), line(7, "Port 30000 is taken"))

    assert found is not None
    assert found.captures == {"number": "30000"}
    assert found.line is not None
    assert found.line.number == 7


def test_the_earliest_line_is_the_proof_and_all_are_counted() -> None:
    found = matched(rule({"line": "^boom"}), line(3, "boom"), line(9, "boom"), line(12, "boom"))

    assert found is not None
    assert found.line is not None
    assert (found.line.number, found.times) == (3, 3)


def test_in_an_export_with_the_newest_line_first_the_last_line_is_the_earliest() -> None:
    held = rule({"any": [{"line": "^late"}, {"line": "^early"}]})

    found = matched(held, line(1, "late"), line(9, "early"), newest_first=True)

    assert found is not None
    assert found.line is not None
    assert found.line.number == 9


def test_a_rank_is_that_of_the_line() -> None:
    of_rank_1 = rule({"line": {"regex": "^boom", "rank": "TP1"}})

    found = matched(of_rank_1, line(1, "boom", rank="TP0"), line(2, "boom", rank="TP1"))

    assert found is not None
    assert (found.rank, found.line and found.line.number) == ("TP1", 2)


def test_the_same_rank_is_that_of_the_anchor() -> None:
    both = rule({"all": [{"line": "^first"}, {"line": {"regex": "^second", "rank": "same"}}]})

    assert matched(both, line(1, "first", rank="TP0"), line(2, "second", rank="TP1")) is None
    assert matched(both, line(1, "first", rank="TP0"), line(2, "second", rank="TP0")) is not None


def test_a_condition_that_fails_makes_the_one_before_it_try_its_next_line() -> None:
    held = rule({"all": [{"line": r"^start (?P<pid>\d+)"}, {"line": r"^died (?P<pid>\d+)"}]})

    found = matched(held, line(1, "start 10"), line(2, "start 20"), line(3, "died 20"))

    assert found is not None
    assert (found.captures["pid"], found.line and found.line.number) == ("20", 2)


def test_keys_of_one_mapping_must_all_hold() -> None:
    held = rule({"line": "^boom", "exit": {"code": 1}})

    assert matched(held, line(1, "boom"), exit=Exit(code=1)) is not None
    assert matched(held, line(1, "boom"), exit=Exit(code=2)) is None


def test_none_refuses_what_it_names() -> None:
    held = rule({"line": "^boom", "none": [{"line": "^ready"}]})

    assert matched(held, line(1, "boom")) is not None
    assert matched(held, line(1, "boom"), line(2, "ready")) is None


def test_an_event_is_proven_by_the_line_on_which_the_pattern_begins() -> None:
    usage = Event("usage", (line(1, "usage: prog"), line(2, "  --a"), line(3, "prog: error: required: --b")))

    found = matched(rule({"event": r"(?m)^prog: error: required: (?P<flag>\S+)"}), events=(usage,))

    assert found is not None
    assert (found.line and found.line.number, found.captures["flag"]) == (3, "--b")


def test_an_event_may_be_asked_for_by_kind() -> None:
    usage = Event("usage", (line(1, "boom"),))

    assert matched(rule({"event": {"regex": "boom", "kind": "native"}}), events=(usage,)) is None
    assert matched(rule({"event": {"regex": "boom", "kind": "usage"}}), events=(usage,)) is not None


CRASH = traceback(
    raised("KeyError", "'qwen'", ("/v/sglang/models/registry.py", "resolve", "return self.models[name]"), at=4),
    raised(
        "sglang.srt.errors.LoadError",
        "no class for 'qwen'",
        ("/v/sglang/launch_server.py", "<module>", "run_server()"),
        ("/v/sglang/models/registry.py", "load", "raise LoadError(name)"),
        at=11,
        relation="cause",
    ),
    rank="TP0",
)


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        ({"type": "KeyError"}, 4),
        ({"type": "LoadError"}, 11),
        ({"type": r"sglang\.srt\.errors\.LoadError"}, 11),
        ({"type": "Load"}, None),
        ({"type": "KeyError|IndexError", "message": "qwen"}, 4),
        ({"message": "no class for '(?P<what>[^']+)'"}, 11),
        ({"frame": "resolve"}, 4),
        ({"frame": "resol"}, None),
        ({"file": "models/registry.py", "type": "LoadError"}, 11),
        ({"file": "egistry.py"}, None),
        ({"file": "launch_server.py", "frame": "load"}, None),
        ({"code": r"raise LoadError"}, 11),
        ({"type": "LoadError", "chain": "first"}, None),
        ({"type": "LoadError", "chain": "last"}, 11),
        ({"type": "KeyError", "chain": "last"}, None),
    ],
)
def test_a_traceback_is_asked_for_its_parts(asked: dict[str, Any], number: int | None) -> None:
    found = matched(rule({"traceback": asked}), events=(CRASH,))

    assert (found.line.number if found and found.line else None) == number


def test_a_traceback_gives_its_rank_and_event() -> None:
    found = matched(rule({"traceback": {"type": "KeyError"}}), events=(CRASH,))

    assert found is not None
    assert (found.rank, found.event) == ("TP0", CRASH)


@pytest.mark.parametrize(
    ("asked", "ended", "holds"),
    [
        ({"code": 2}, Exit(code=2), True),
        ({"code": [1, 2]}, Exit(code=2), True),
        ({"code": 2}, Exit(), False),
        ({"signal": "SIGKILL"}, Exit(signal="SIGKILL"), True),
        ({"code": 137}, Exit(signal="SIGKILL"), True),
        ({"code": -9}, Exit(signal="SIGKILL"), True),
        ({"signal": ["SIGSEGV", "SIGBUS"]}, Exit(signal="SIGKILL"), False),
    ],
)
def test_the_exit_is_known_by_code_or_signal(asked: dict[str, Any], ended: Exit, holds: bool) -> None:
    assert (matched(rule({"exit": asked}), exit=ended) is not None) is holds


@pytest.mark.parametrize(
    ("asked", "holds"),
    [
        ({"has": "--tp-size"}, True),
        ({"has": "--tensor-parallel-size|--tp-size"}, True),
        ({"has": ["--tp-size", "--dp-size"]}, False),
        ({"lacks": "--dp-size"}, True),
        ({"has": "--tp-size", "lacks": "--trust-remote-code"}, False),
        ({"flag": "--tp-size", "gt": 1}, True),
        ({"flag": "--tp-size", "gt": 8}, False),
        ({"flag": "--tp-size", "ge": 8, "le": 8}, True),
        ({"flag": "--tp-size", "lt": 8}, False),
        ({"flag": "--tp-size", "equals": "8.0"}, True),
        ({"flag": "--tp-size", "in": [2, 4]}, False),
        ({"flag": "--model-path", "matches": "(?i)QWEN"}, True),
        ({"flag": "--model-path", "gt": 3}, False),
        ({"flag": "--trust-remote-code", "equals": True}, True),
        ({"flag": "--dp-size", "absent": True}, True),
        ({"flag": "--tp-size", "absent": True}, False),
    ],
)
def test_arguments_are_compared(asked: dict[str, Any], holds: bool) -> None:
    argv = "python3 -m sglang.launch_server --model-path qwen3 --tp-size 8 --trust-remote-code"

    assert (matched(rule({"line": "^x", "argv": asked}), line(1, "x"), argv=argv) is not None) is holds


def test_without_a_command_nothing_is_said_about_arguments() -> None:
    assert matched(rule({"line": "^x", "argv": {"lacks": "--tp-size"}}), line(1, "x")) is None


def test_an_argument_is_compared_with_what_the_log_says() -> None:
    held = rule({"line": r"^only (?P<gpus>\d+) GPUs", "argv": {"flag": "--tp-size", "gt": "{gpus}"}})

    assert matched(held, line(1, "only 4 GPUs"), argv="python3 -m sglang.launch_server --tp-size 8") is not None
    assert matched(held, line(1, "only 8 GPUs"), argv="python3 -m sglang.launch_server --tp-size 8") is None


@pytest.mark.parametrize(
    ("asked", "holds"),
    [
        ({"has": "SPEC"}, True),
        ({"has": "SPEC", "equals": "True"}, True),
        ({"has": "SPEC", "equals": "False"}, False),
        ({"has": "SPEC", "matches": "^(?i)true|1$"}, True),
        ({"lacks": "SPEC"}, False),
        ({"lacks": "OTHER"}, True),
    ],
)
def test_the_environment_is_that_of_the_command(asked: dict[str, Any], holds: bool) -> None:
    assert (matched(rule({"line": "^x", "env": asked}), line(1, "x"), argv=f"SPEC=True {SGLANG}") is not None) is holds


def test_the_phase_is_one_of_those_named() -> None:
    held = rule({"line": "^x", "phase": ["loading", "warming"]})

    assert matched(held, line(1, "x"), phase=Phase.LOADING) is not None
    assert matched(held, line(1, "x"), phase=Phase.READY) is None


def test_a_count_needs_so_many_lines() -> None:
    held = rule({"count": {"line": "^retry", "at_least": 3}})

    assert matched(held, line(1, "retry"), line(2, "retry")) is None
    assert matched(held, line(1, "retry"), line(2, "retry"), line(3, "retry")) is not None


def test_a_count_within_a_time_needs_lines_that_are_close_together() -> None:
    held = rule({"count": {"line": "^retry", "at_least": 2, "within": "60s"}})
    apart = (line(1, "retry", time=0.0), line(2, "retry", time=100.0))

    assert matched(held, *apart) is None
    found = matched(held, *apart, line(3, "retry", time=130.0))
    assert found is not None
    assert found.line == apart[1]


def test_a_line_follows_another_within_so_many_lines() -> None:
    held = rule({"line": "^died", "follows": {"line": r"^pid (?P<pid>\d+)", "within_lines": 3}})

    assert matched(held, line(1, "pid 4"), line(9, "died")) is None
    found = matched(held, line(1, "pid 4"), line(8, "pid 5"), line(9, "died"))
    assert found is not None
    assert (found.captures["pid"], found.line and found.line.number) == ("5", 9)


def test_a_line_that_comes_before_does_not_follow() -> None:
    assert matched(rule({"line": "^died", "follows": {"line": "^pid"}}), line(1, "died"), line(2, "pid")) is None


def test_relative_conditions_start_from_the_line_found_last() -> None:
    held = rule({"all": [{"line": "^asked"}, {"line": "^died"}, {"follows": {"line": "^asked", "within_lines": 3}}]})

    assert matched(held, line(1, "asked"), line(9, "died")) is None
    found = matched(held, line(1, "asked"), line(8, "asked"), line(9, "died"))
    assert found is not None
    assert found.line is not None
    assert found.line.number == 1


@pytest.mark.parametrize(
    ("without", "holds"),
    [
        ({"line": "^ready"}, False),
        ({"line": "^ready", "after": True}, True),
        ({"line": "^ready", "before": True}, False),
        ({"line": "^late", "after": True}, False),
        ({"line": "^late", "before": True}, True),
        ({"line": "^never"}, True),
    ],
)
def test_a_line_may_be_missing_after_or_before_the_anchor(without: dict[str, Any], holds: bool) -> None:
    held = rule({"line": "^died", "without": without})

    assert (matched(held, line(1, "ready"), line(5, "died"), line(9, "late")) is not None) is holds


@pytest.mark.parametrize(
    ("asked", "found", "holds"),
    [
        ({"port_in_use": "{port}"}, {"port_in_use": [22, 30000]}, True),
        ({"port_in_use": "{port}"}, {"port_in_use": [22]}, False),
        ({"port_in_use": "{port}"}, {}, False),
        ({"gpu_free_gib": {"lt": 10}}, {"gpu_free_gib": [70.5, 3.25]}, True),
        ({"nvidia": False}, {"nvidia": False}, True),
    ],
)
def test_a_probe_that_was_not_made_does_not_hold(asked: dict[str, Any], found: dict[str, object], holds: bool) -> None:
    assert (matched(rule({"probe": asked}), argv=SGLANG, probes=found) is not None) is holds


def test_a_version_condition_needs_a_known_version() -> None:
    held = rule({"line": "^x", "version": ">=0.5.10"})

    assert matched(held, line(1, "x"), version="0.5.23") is not None
    assert matched(held, line(1, "x"), version="0.5.9") is None
    assert matched(held, line(1, "x")) is None


def test_a_capture_may_be_compared() -> None:
    held = rule({"line": r"^need (?P<gib>[\d.]+)", "capture": {"name": "gib", "gt": 80}})

    found = matched(held, line(1, "need 20.5"), line(2, "need 96.0"))

    assert found is not None
    assert found.captures["gib"] == "96.0"


def test_texts_may_use_the_command_and_the_scene() -> None:
    held = rule({"line": "^x"}, title="{model} on {port}: {argv.--tp-size}, {env.SPEC}, {phase}")

    found = matched(held, line(1, "x"), argv=f"SPEC=1 {SGLANG} --tp-size 2", engine=Engine.SGLANG)

    assert found is not None
    assert found.title == "m on 30000: 2, 1, starting"
