"""The built-in rules as a whole: valid, proven both ways, and blind to what wraps a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.core.vocabulary import Role
from app.rules.examples import Workbench
from app.rules.lint import lint
from app.rules.load import RuleSet, builtin_rules
from app.rules.match import match
from app.rules.schema import Rule

Wrapper = Callable[[str], str]

WRAPPERS: dict[str, Wrapper] = {
    "compose": lambda line: f"server-1  | {line}",
    "kubectl": lambda line: f"2026-01-12T10:00:00.000000000Z stderr F {line}",
    "journald": lambda line: f"Jan 12 10:00:00 node1 server[4711]: {line}",
    "windows line ends": lambda line: f"{line}\r",
    "colours": lambda line: f"\x1b[31m{line}\x1b[0m",
}


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return Workbench(builtin_rules())


def test_every_built_in_rule_file_is_valid() -> None:
    assert builtin_rules().problems == ()


def test_every_built_in_rule_passes_lint() -> None:
    assert [str(problem) for problem in lint(builtin_rules())] == []


def test_there_are_rules_for_every_role() -> None:
    assert {rule.role for rule in builtin_rules().rules} == set(Role)


def test_rules_that_are_covered_exist_or_are_built_in_readers() -> None:
    readers = {
        "any/bare-assertion",
        "any/killed-by-signal",
        "any/argument-bad-choice",
        "any/argument-bad-type",
        "any/argument-value-missing",
    }
    rules = builtin_rules()
    named = {covered for rule in rules.rules for covered in rule.covers or ()}
    assert named - set(rules.by_id) <= readers


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_a_cause_is_found_whatever_wraps_its_log(bench: Workbench, wrapper: Wrapper) -> None:
    lost = [rule.id for rule in causes(bench.ruleset) if not survives(bench, rule, wrapper)]
    assert lost == []


def causes(ruleset: RuleSet) -> list[Rule]:
    return [rule for rule in ruleset.rules if rule.role is Role.CAUSE]


def survives(bench: Workbench, rule: Rule, wrapper: Wrapper) -> bool:
    """Whether a rule still holds on its examples when every line is wrapped."""
    for example in rule.examples:
        scene, data = bench.scene(rule, example)
        if not example.match or data is None:
            continue
        lines = data.decode().splitlines()
        wrapped = bench.with_log(replace(scene), "\n".join(map(wrapper, lines)).encode() + b"\n")
        if not any(one.rule.id == rule.id for one in match(bench.ruleset, wrapped)):
            return False
    return True
