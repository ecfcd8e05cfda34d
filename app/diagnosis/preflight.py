"""What would fail before anything is started: rules on the command line and the machine, and the flag catalogue."""

from __future__ import annotations

from collections.abc import Mapping

from app.core.catalogue import FlagCatalogue
from app.core.command import Command
from app.core.model import Cause, LogDigest
from app.diagnosis.arguments import causes_of
from app.diagnosis.matched import cause_of
from app.diagnosis.ranking import Candidate, rank
from app.diagnosis.recognise import Places, Seen
from app.diagnosis.remedy import Bench
from app.rules.load import RuleSet
from app.rules.match import match_preflight
from app.rules.scene import Scene


def check(
    ruleset: RuleSet, command: Command, catalogue: FlagCatalogue | None, exact: bool, probes: Mapping[str, object]
) -> list[Cause]:
    """The findings for a command, best first: what the parser would refuse comes before what would fail later."""
    bench = Bench(command, catalogue, exact, command.engine)
    version = catalogue.version if catalogue is not None and exact else None
    problems = bench.problems(command)
    refused = causes_of(problems, bench, engine=command.engine, version=version, line=None)
    scene = Scene(engine=command.engine, version=version, command=command, probes=probes)
    matched = [
        Candidate(cause_of(one, scene, bench), None, one.specificity, ruleset.covered.get(one.rule.id, frozenset()))
        for one in match_preflight(ruleset, scene)
    ]
    ranked = rank(matched, Seen(), command.engine, Places(LogDigest()))
    return [*refused, *(one.cause for one in ranked)]
