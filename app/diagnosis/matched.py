"""From a rule that held to a cause."""

from __future__ import annotations

from dataclasses import replace

from app.core.command import Command
from app.core.model import Cause
from app.core.vocabulary import Category, Confidence, RuleStatus
from app.diagnosis.arguments import complete
from app.diagnosis.remedy import Bench, Remedy, choose
from app.rules.match import holds
from app.rules.scene import Match, Scene


def cause_of(one: Match, scene: Scene, bench: Bench) -> Cause:
    """A rule that held, as a cause, with its fix worked out on the command."""
    stable = one.rule.status is RuleStatus.STABLE
    remedy = Remedy()
    if one.rule.fix:
        specs, captures = one.rule.fix, one.captures
        # Of a command that is not known, nothing is known to be given: fixes are chosen as for a bare one.
        asked = scene if scene.command is not None else replace(scene, command=Command.parse(()))
        remedy = choose(specs, captures, bench, lambda condition: holds(condition, asked, captures))
        remedy = complete(remedy, bench)
    return Cause(
        rule=one.rule.id,
        category=one.rule.category or Category.UNKNOWN,
        title=one.title,
        explanation=one.explanation,
        confidence=one.rule.sureness if stable or one.rule.confidence else Confidence.MEDIUM,
        line=one.line,
        rank=one.rank or (one.event.rank if one.event is not None else None),
        action=remedy.action,
        fix=remedy.fix,
        safety=remedy.safety,
        loses=remedy.loses,
        command=remedy.command.words() if remedy.command is not None else None,
        trusted=stable,
        references=one.rule.references,
    )
