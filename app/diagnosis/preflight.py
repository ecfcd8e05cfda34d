"""What would fail before anything is started: rules on the command line and the machine, and the flag catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app.core.catalogue import FlagCatalogue
from app.core.command import Command
from app.core.model import Cause, LogDigest
from app.core.problems import ArgumentProblem
from app.core.shipped import shipped, shipped_catalogues
from app.core.vocabulary import Confidence, Engine
from app.diagnosis.arguments import causes_of, known_mend
from app.diagnosis.matched import cause_of
from app.diagnosis.ranking import Candidate, rank
from app.diagnosis.recognise import Places, Seen
from app.diagnosis.remedy import Bench
from app.diagnosis.wording import program_name
from app.rules.load import RuleSet
from app.rules.match import match_preflight
from app.rules.scene import Scene


def check(
    ruleset: RuleSet, command: Command, catalogue: FlagCatalogue | None, exact: bool, probes: Mapping[str, object]
) -> list[Cause]:
    """The findings for a command, best first: what the parser would refuse comes before what would fail later.

    Where the flags are not those of the very version that would start (`exact` is false: it is in a container, or not
    on this machine), only what is wrong in every version known is told, and nobody may act on it alone.
    """
    bench = Bench(command, catalogue, exact, command.engine)
    version = catalogue.version if catalogue is not None and exact else None
    problems = [one for one in bench.problems(command) if exact or _wrong_in_any_version(one, bench)]
    refused = causes_of(problems, bench, engine=command.engine, version=version, line=None)
    if not exact:
        refused = [_from_hearsay(cause, catalogue) for cause in refused]
    scene = Scene(engine=command.engine, version=version, command=command, probes=probes)
    matched = [
        Candidate(cause_of(one, scene, bench), None, one.specificity, ruleset.covered.get(one.rule.id, frozenset()))
        for one in match_preflight(ruleset, scene)
    ]
    ranked = rank(matched, Seen(), command.engine, Places(LogDigest()))
    return [*refused, *(one.cause for one in ranked)]


def _wrong_in_any_version(problem: ArgumentProblem, bench: Bench) -> bool:
    """Whether the problem is one without knowing the version: flags and choices come and go between versions."""
    if problem.kind in ("missing-value", "unexpected-value", "bad-type", "required", "conflict"):
        return True
    if problem.kind == "bad-choice":
        return known_mend(problem, bench)
    return known_mend(problem, bench) and not _known_to_some(problem.flag, bench.engine)


def _known_to_some(flag: str, engine: Engine | None) -> bool:
    """Whether a shipped catalogue of any version has the flag under this very name."""
    if engine is None:
        return False
    return any(
        shipped(engine, version).resolve(flag).kind == "exact" for version in shipped_catalogues().get(engine, ())
    )


def _from_hearsay(cause: Cause, catalogue: FlagCatalogue | None) -> Cause:
    """The finding with its doubt: the flags of another version than the one that would start were asked."""
    name = program_name(catalogue.engine if catalogue is not None else None, None)
    doubt = f"The installed version could not be asked: this is judged by the flags of {name} that Crashcart knows."
    return replace(cause, confidence=Confidence.MEDIUM, trusted=False, explanation=f"{cause.explanation} {doubt}")
