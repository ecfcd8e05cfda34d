"""Which rules hold in a scene. The order of rules and files changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.core.errors import RuleError
from app.core.model import Event, Line
from app.core.vocabulary import Engine, Phase, Role
from app.rules.evaluate import Solver, compile_condition
from app.rules.load import RuleSet
from app.rules.look import Look, RuleTroubleError, State
from app.rules.preflight import before_launch
from app.rules.scene import Match, Scene
from app.rules.version import in_range, read_version

if TYPE_CHECKING:
    from app.rules.conditions import Condition
    from app.rules.schema import Rule

__all__ = ["Match", "RuleSet", "Scene", "furthest_phase", "holds", "match", "match_preflight"]

_MOST_SOLUTIONS = 500
# Programs that run another engine inside of them, whose words stand in their logs. What `other` runs is not known.
_RUNS = {Engine.OLLAMA: (Engine.LLAMACPP.value,)}


def match(ruleset: RuleSet, scene: Scene, *, problems: list[RuleError] | None = None) -> list[Match]:
    """Every rule that holds, each once, with its earliest solution.

    A rule that runs out of its bounds doesn't hold; why is appended to `problems`.
    """
    found = (_match_one(ruleset, rule, scene, "log", problems) for rule in ruleset.rules)
    return [one for one in found if one is not None]


def match_preflight(ruleset: RuleSet, scene: Scene, *, problems: list[RuleError] | None = None) -> list[Match]:
    """The rules with `preflight: true` whose questions to the command line and the machine hold."""
    rules = (rule for rule in ruleset.rules if rule.preflight)
    found = (_match_one(ruleset, rule, scene, "preflight", problems) for rule in rules)
    return [one for one in found if one is not None]


def furthest_phase(ruleset: RuleSet, scene: Scene) -> Phase:
    """The furthest phase that a progress rule proves."""
    rules = (rule for rule in ruleset.rules if rule.role is Role.PROGRESS and rule.reaches is not None)
    found = (_match_one(ruleset, rule, scene, "log", None) for rule in rules)
    reached = [one.rule.reaches for one in found if one is not None and one.rule.reaches is not None]
    return max(reached, key=lambda phase: phase.order, default=Phase.STARTING)


def holds(condition: Condition, scene: Scene, captures: Mapping[str, str]) -> bool:
    """Whether a condition holds in a scene for what was captured; False when it runs out of its bounds."""
    try:
        return _holds(condition, Look(scene), State(captures))
    except RuleTroubleError:
        return False


def applies(rule: Rule, engine: Engine | None, version: str | None) -> bool:
    """Whether a rule is meant for this engine and version; what is not known excludes nothing."""
    if engine is None:
        return True
    if rule.engines is None:
        return engine is Engine.OTHER or rule.folder in ("any", engine.value, *_RUNS.get(engine, ()))
    if engine not in rule.engines:
        return False
    known = read_version(version or "")
    return known is None or in_range(known, rule.engines[engine])


def _match_one(ruleset: RuleSet, rule: Rule, scene: Scene, mode: str, problems: list[RuleError] | None) -> Match | None:
    if not applies(rule, scene.engine, scene.version):
        return None
    solver = _solver(ruleset, rule, mode)
    if solver is None:
        return None
    look = Look(scene)
    try:
        solutions = list(itertools.islice(solver(look, State()), _MOST_SOLUTIONS))
        if not solutions:
            return None
        best = min(solutions, key=lambda one: (one.anchor is None, look.position(one.anchor) if one.anchor else 0))
        fixes = tuple(spec for spec in rule.fix if _holds(spec.requires, look, best))
    except RuleTroubleError as error:
        if problems is not None:
            problems.append(RuleError(f"rule {rule.id} {error}", path=ruleset.paths.get(rule.id), field="when"))
        return None
    return Match(
        rule=rule,
        captures=_captures(rule, look, best),
        line=best.anchor,
        event=best.event or _event_of(scene, best.anchor),
        rank=best.rank,
        specificity=ruleset.depth[rule.id] * 10_000 + min(best.weight, 99) * 100 + min(best.depth, 99),
        times=max(1, len({one.anchor.number for one in solutions if one.anchor})),
        fixes=fixes,
    )


def _solver(ruleset: RuleSet, rule: Rule, mode: str) -> Solver | None:
    """The compiled conditions of a rule: all of them, or those that can be asked before a launch."""
    key = (rule.id, mode)
    if key not in ruleset.solvers:
        condition: Condition | None = rule.when if mode == "log" else before_launch(rule.when)
        if condition is None:
            return None
        ruleset.solvers[key] = compile_condition(condition)
    return ruleset.solvers[key]


def _captures(rule: Rule, look: Look, state: State) -> Mapping[str, str]:
    """The named groups, and what the rule's texts use of the command and the scene."""
    wanted = {name: look.value(name, state) for name in sorted(rule.capture_names())}
    return {**{name: value for name, value in wanted.items() if value is not None}, **state.captures}


def _holds(condition: Condition | None, look: Look, state: State) -> bool:
    return condition is None or next(compile_condition(condition)(look, state), None) is not None


def _event_of(scene: Scene, anchor: Line | None) -> Event | None:
    """The event that a line belongs to."""
    if anchor is None:
        return None
    return next((event for event in scene.digest.events if anchor in event.lines), None)
