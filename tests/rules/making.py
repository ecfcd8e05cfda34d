"""Small rules and hand-built digests for the tests of this floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import regex
import yaml

from app.core.command import Command
from app.core.errors import RuleError
from app.core.model import Event, Exit, Frame, Hit, Hits, Line, LogDigest, Raised
from app.core.vocabulary import Engine, Phase
from app.rules.load import RuleSet
from app.rules.match import match
from app.rules.reading import read_rule
from app.rules.scene import Match, Scene
from app.rules.schema import Rule

CAUSE: dict[str, Any] = {
    "title": "It broke",
    "category": "scheduler-crash",
    "role": "cause",
    "explain": "Because.",
}


def rule(when: dict[str, Any], name: str = "sglang/sample", **fields: Any) -> Rule:
    """A cause rule with these conditions."""
    made = read_rule({"id": name, **CAUSE, "when": when, **fields}, Path(f"{name}.yaml"))
    assert isinstance(made, Rule), made
    return made


def refusals(fields: dict[str, Any], name: str = "sglang/sample") -> list[RuleError]:
    """What is said about a rule with these fields."""
    made = read_rule({"id": name, **CAUSE, "when": {"line": "^x"}, **fields}, Path(f"{name}.yaml"))
    assert isinstance(made, list), made
    return made


def ruleset(*rules: Rule) -> RuleSet:
    """These rules alone."""
    return RuleSet(tuple(sorted(rules, key=lambda one: one.id)))


def write(folder: Path, name: str, **fields: Any) -> Path:
    """A rule file `folder/<engine>/<name>.yaml`."""
    path = folder / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"id": name, **fields}, sort_keys=False))
    return path


def line(number: int, text: str, *, rank: str | None = None, time: float | None = None) -> Line:
    """A log line without prefixes."""
    return Line(number=number, text=text, body=text, rank=rank, time=time)


def raised(
    type_: str, message: str = "", *frames: tuple[str, str, str], at: int = 1, relation: str = "first"
) -> Raised:
    """An exception with frames as (file, function, code)."""
    made = tuple(Frame(file, 1, function, code, line(at, file)) for file, function, code in frames)
    return Raised(type_, message, made, line(at, f"{type_}: {message}"), relation)  # type: ignore[arg-type]


def traceback(*chain: Raised, rank: str | None = None) -> Event:
    """A traceback event of these exceptions."""
    return Event("traceback", tuple(one.line for one in chain), rank=rank, chain=chain)


def seen(rules: RuleSet, *lines: Line, events: tuple[Event, ...] = (), newest_first: bool = False) -> LogDigest:
    """What a pass over these lines finds."""
    hits = {}
    for pattern in {text for one in rules.rules for text in one.when.line_patterns()}:
        found = [(one, regex.search(pattern, one.body)) for one in lines]
        kept = tuple(Hit(pattern, one, _groups(hit)) for one, hit in found if hit)
        if kept:
            hits[pattern] = Hits(len(kept), kept)
    return LogDigest(lines=len(lines), hits=hits, events=events, newest_first=newest_first)


def _groups(found: Any) -> dict[str, str]:
    return {name: value for name, value in found.groupdict().items() if value is not None}


def matched(
    of: Rule,
    *lines: Line,
    events: tuple[Event, ...] = (),
    argv: str | None = None,
    engine: Engine | None = None,
    version: str | None = None,
    exit: Exit | None = None,
    phase: Phase = Phase.STARTING,
    probes: dict[str, object] | None = None,
    newest_first: bool = False,
) -> Match | None:
    """The match of one rule alone, if it holds."""
    rules = ruleset(of)
    scene = Scene(
        digest=seen(rules, *lines, events=events, newest_first=newest_first),
        engine=engine,
        version=version,
        command=None if argv is None else Command.from_string(argv),
        exit=exit or Exit(),
        phase=phase,
        probes=probes or {},
    )
    found = match(rules, scene)
    return found[0] if found else None
