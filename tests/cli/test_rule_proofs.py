"""The built-in rules under the whole diagnosis, as `crashcart rules lint` tries them."""

from __future__ import annotations

from app.cli.rules import ExampleJudge
from app.rules.examples import Workbench
from app.rules.load import builtin_rules


def test_every_cause_comes_out_first_on_its_examples_with_the_command_that_they_assert() -> None:
    rules = builtin_rules()
    bench = Workbench(rules, ExampleJudge(rules))

    tried = [one for rule in rules.rules for one in bench.try_all(rule)]

    assert len(tried) > 100
    assert [(one.rule.id, one.number, one.problems) for one in tried if one.problems] == []
