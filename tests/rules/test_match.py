"""Which rules hold, which solution counts, which fix is meant."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.command import Command
from app.core.errors import RuleError
from app.core.model import Hit, Hits, LogDigest
from app.core.vocabulary import Engine, Phase
from app.rules.load import RuleSet, builtin_rules
from app.rules.match import applies, furthest_phase, holds, match, match_preflight
from app.rules.scene import Scene
from app.rules.schema import Rule
from tests.rules.making import line, matched, raised, rule, ruleset, seen, traceback


def before(of: Rule, argv: str, **fields: Any) -> list[str]:
    command = Command.from_string(argv)
    found = match_preflight(ruleset(of), Scene(command=command, engine=command.engine, **fields))
    return [one.rule.id for one in found]


@pytest.mark.parametrize(
    ("engines", "engine", "version", "holds"),
    [
        ({"sglang": ">=0.5"}, Engine.SGLANG, "0.5.9", True),
        ({"sglang": ">=0.5"}, Engine.SGLANG, "0.4.6", False),
        ({"sglang": ">=0.5"}, Engine.SGLANG, None, True),
        ({"sglang": ">=0.5"}, Engine.SGLANG, "dev", True),
        ({"sglang": ">=0.5"}, Engine.VLLM, "0.32.0", False),
        ({"sglang": ">=0.5"}, None, None, True),
        (None, Engine.SGLANG, None, True),
        (None, Engine.VLLM, None, False),
        (None, None, None, True),
    ],
)
def test_a_rule_is_for_its_engines_as_far_as_they_are_known(
    engines: dict[str, str] | None, engine: Engine | None, version: str | None, holds: bool
) -> None:
    of = rule({"line": "^x"}, engines=engines) if engines else rule({"line": "^x"})

    assert (matched(of, line(1, "x"), engine=engine, version=version) is not None) is holds


def test_a_rule_for_any_engine_holds_on_every_one() -> None:
    assert matched(rule({"line": "^x"}, "any/sample"), line(1, "x"), engine=Engine.VLLM) is not None


def test_more_conditions_are_more_specific() -> None:
    wide = matched(rule({"line": "^x"}), line(1, "x"))
    narrow = matched(rule({"line": "^x", "phase": "starting"}), line(1, "x"))

    assert wide is not None
    assert narrow is not None
    assert narrow.specificity > wide.specificity


def test_a_deeper_frame_is_more_specific() -> None:
    frames = (("a.py", "outer", "inner()"), ("a.py", "inner", "assert x"))
    crash = traceback(raised("AssertionError", "", *frames))

    outer = matched(rule({"traceback": {"frame": "outer"}}), events=(crash,))
    inner = matched(rule({"traceback": {"frame": "inner"}}), events=(crash,))

    assert outer is not None
    assert inner is not None
    assert inner.specificity > outer.specificity


def test_a_rule_that_covers_another_is_more_specific_than_one_with_many_conditions() -> None:
    covering = rule({"line": "^x"}, "sglang/covering", covers=["any/bare-assertion"])
    detailed = rule({"line": "^x", "phase": "starting", "exit": {"code": 1}}, "sglang/detailed")

    depth = ruleset(covering, detailed).depth

    assert depth == {"sglang/covering": 1, "sglang/detailed": 0}


def test_the_fixes_whose_requirement_holds_are_meant() -> None:
    fixes = [
        {"safety": "safe", "set": {"--new": "1"}, "requires": {"version": ">=0.5.20"}},
        {"safety": "safe", "set": {"--old": "1"}, "requires": {"argv": {"lacks": "--old"}}},
    ]
    of = rule({"line": "^x"}, fix=fixes)
    argv = "python3 -m sglang.launch_server"

    def offered(argv: str, version: str) -> list[dict[str, Any]]:
        found = matched(of, line(1, "x"), argv=argv, version=version)
        return [dict(spec.set) for spec in found.fixes] if found else []

    assert offered(argv, "0.5.23") == [{"--new": "1"}, {"--old": "1"}]
    assert offered(argv, "0.5.9") == [{"--old": "1"}]
    assert offered(f"{argv} --old 2", "0.5.9") == []


def test_a_condition_alone_is_asked_with_what_was_captured() -> None:
    asked = rule({"capture": {"name": "gpus", "ge": 2}}).when

    assert holds(asked, Scene(), {"gpus": "8"})
    assert not holds(asked, Scene(), {"gpus": "1"})
    assert not holds(asked, Scene(), {})


def test_a_pattern_that_runs_out_of_time_is_reported_and_the_others_go_on() -> None:
    slow = rule({"traceback": {"message": "(a|aa)+$"}}, "any/slow")
    other = rule({"traceback": {"type": "ValueError"}}, "any/other")
    problems: list[RuleError] = []
    digest = LogDigest(events=(traceback(raised("ValueError", "a" * 100 + "!")),))

    found = match(ruleset(slow, other), Scene(digest=digest), problems=problems)

    assert [one.rule.id for one in found] == ["any/other"]
    assert [str(one).startswith("rule any/slow took longer") for one in problems] == [True]


def test_conditions_that_multiply_are_given_up_and_reported() -> None:
    wide = rule({"all": [*({"line": f"^x{n}?"} for n in range(4)), {"line": "^never"}]}, "any/wide")
    kept = {f"^x{n}?": tuple(Hit(f"^x{n}?", line(k, "x"), {}) for k in range(1, 101)) for n in range(4)}
    digest = LogDigest(hits={pattern: Hits(100, hits) for pattern, hits in kept.items()})
    problems: list[RuleError] = []

    assert match(ruleset(wide), Scene(digest=digest), problems=problems) == []
    assert "gave up after 20,000 tries" in str(problems[0])


def test_the_furthest_phase_is_that_of_progress_rules() -> None:
    def progress(name: str, pattern: str, reaches: str) -> Rule:
        plain = {"role": "progress", "category": None, "reaches": reaches}
        return rule({"line": pattern}, name, **plain)

    rules = ruleset(progress("any/load", "^load", "loading"), progress("any/up", "^up", "ready"))

    assert furthest_phase(rules, Scene(seen(rules, line(1, "load")))) is Phase.LOADING
    assert furthest_phase(rules, Scene(seen(rules, line(1, "load"), line(2, "up")))) is Phase.READY
    assert furthest_phase(rules, Scene()) is Phase.STARTING


@given(order=st.permutations(range(6)), lines=st.lists(st.sampled_from("abc"), max_size=8))
def test_the_order_of_rules_changes_nothing(order: list[int], lines: list[str]) -> None:
    rules = [rule({"line": f"^{letter}"}, f"any/{letter}{n}") for n in range(2) for letter in "abc"]
    digest = seen(ruleset(*rules), *(line(n, text) for n, text in enumerate(lines, 1)))

    first = match(RuleSet(tuple(rules)), Scene(digest))
    second = match(RuleSet(tuple(rules[at] for at in order)), Scene(digest))

    def summary(found: list[Any]) -> list[tuple[str, int, int]]:
        return sorted((one.rule.id, one.line.number, one.specificity) for one in found)

    assert summary(first) == summary(second)


def test_the_order_of_branches_does_not_change_the_proof() -> None:
    branches: list[dict[str, Any]] = [{"line": "^a"}, {"line": "^b"}, {"line": "^c"}]
    random.Random(7).shuffle(branches)

    found = matched(rule({"any": branches}), line(2, "c"), line(4, "a"), line(5, "b"))

    assert found is not None
    assert found.line is not None
    assert found.line.number == 2


EAGLE = {
    "all": [
        {"traceback": {"type": "AssertionError"}},
        {"argv": {"has": "--speculative-eagle-topk", "lacks": "--speculative-num-steps"}},
    ]
}


def test_before_a_launch_only_the_command_line_is_asked() -> None:
    of = rule(EAGLE, preflight=True)

    assert before(of, "python3 -m sglang.launch_server --speculative-eagle-topk 4") == ["sglang/sample"]
    assert before(of, "python3 -m sglang.launch_server --speculative-eagle-topk 4 --speculative-num-steps 3") == []


def test_a_rule_without_preflight_says_nothing_before_a_launch() -> None:
    assert before(rule(EAGLE), "python3 -m sglang.launch_server --speculative-eagle-topk 4") == []


def test_a_rule_about_the_log_alone_says_nothing_before_a_launch() -> None:
    assert before(rule({"line": "^x"}, preflight=True), "python3 -m sglang.launch_server") == []


def test_of_alternatives_only_those_on_the_command_line_count_before_a_launch() -> None:
    of = rule({"any": [{"line": "^x"}, {"argv": {"has": "--bad"}}]}, preflight=True)

    assert before(of, "python3 -m sglang.launch_server") == []
    assert before(of, "python3 -m sglang.launch_server --bad") == ["sglang/sample"]


def test_a_negation_that_needs_the_log_is_left_open_before_a_launch() -> None:
    of = rule({"argv": {"has": "--bad"}, "none": [{"line": "^y"}, {"argv": {"has": "--good"}}]}, preflight=True)

    assert before(of, "python3 -m sglang.launch_server --bad") == ["sglang/sample"]
    assert before(of, "python3 -m sglang.launch_server --bad --good") == []


def test_a_capture_of_the_log_does_not_decide_before_a_launch() -> None:
    when = {"line": r"^(?P<gpus>\d+) GPUs", "argv": {"flag": "--tp-size", "gt": "{gpus}"}}

    assert before(rule(when, preflight=True), "python3 -m sglang.launch_server --tp-size 8") == []


def test_a_probe_is_asked_before_a_launch() -> None:
    of = rule({"any": [{"line": "^x"}, {"probe": {"port_in_use": "{port}"}}]}, preflight=True)

    assert before(of, "python3 -m sglang.launch_server --port 31000", probes={"port_in_use": [31000]}) != []
    assert before(of, "python3 -m sglang.launch_server --port 31000", probes={"port_in_use": [22]}) == []


@pytest.mark.parametrize(
    ("engine", "folder", "expected"),
    [
        (Engine.OLLAMA, "llamacpp", True),
        (Engine.OLLAMA, "vllm", False),
        (Engine.LLAMACPP, "ollama", False),
        (Engine.OTHER, "vllm", True),
    ],
)
def test_a_rule_counts_where_its_engine_runs_inside_of_another(engine: Engine, folder: str, expected: bool) -> None:
    rule = next(rule for rule in builtin_rules().rules if rule.folder == folder and rule.engines is None)
    assert applies(rule, engine, None) is expected
