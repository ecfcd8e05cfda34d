"""Causes before echoes: which of the causes found is the root, and which only repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.core.model import Cause, Event, Line
from app.core.vocabulary import Confidence, Engine
from app.diagnosis.recognise import Places, Seen

_SURE = (Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cause that was found, with what decides its rank. `covers` are ids of more general rules that it stands for."""

    cause: Cause
    event: Event | None = None
    specificity: int = 0
    covers: frozenset[str] = frozenset()


def rank(candidates: Iterable[Candidate], seen: Seen, engine: Engine | None, place: Places) -> list[Candidate]:
    """The causes, best first; the order in which they come in changes nothing.

    What a better cause stands for, and what happened after a person stopped the server or before it became ready,
    is left out. The first failure in the deepest process comes first; of one failure, the root exception; of
    one exception, the most specific rule.
    """
    alive = [one for one in candidates if not _beside_the_point(one.cause.line, seen, place)]
    covered = frozenset().union(*(one.covers for one in alive))
    alive = [one for one in alive if one.cause.rule not in covered]
    ordered = sorted(alive, key=lambda one: _key(one, engine, place))
    return _without_repeats(ordered)


def _beside_the_point(line: Line | None, seen: Seen, place: Places) -> bool:
    if line is None:
        return False
    if seen.stopped_at is not None and place(line) >= seen.stopped_at:
        return True
    return seen.ready_at is not None and place(line) < seen.ready_at


def _key(one: Candidate, engine: Engine | None, place: Places) -> tuple[int, int, int, int, int, int, str]:
    cause, event = one.cause, one.event
    first = event.first if event is not None else cause.line
    return (
        0 if first is not None else 1,
        depth(event, cause.line, engine),
        place(first) if first is not None else 0,
        _link(one, place),
        -one.specificity,
        _SURE.index(cause.confidence),
        cause.rule,
    )


def _link(one: Candidate, place: Places) -> int:
    """Which exception of the chain the cause explains: Python prints the root first."""
    if one.event is None or one.cause.line is None:
        return 0
    number = one.cause.line.number
    ends = [raised.line.number for raised in one.event.chain]
    return next((at for at, end in enumerate(ends) if number <= end), len(ends))


def depth(event: Event | None, line: Line | None, engine: Engine | None) -> int:
    """0 for the deepest process. vLLM: workers, then the engine core, then the API server, whatever prints first."""
    if engine is not Engine.VLLM:
        return 0
    source = (event.source if event is not None else line.source if line is not None else "").lower()
    if "worker" in source:
        return 0
    return 1 if "enginecore" in source.replace("_", "") else 2


def _without_repeats(ordered: Sequence[Candidate]) -> list[Candidate]:
    """One cause for one exception or line: a second rule of the same category on it says nothing new."""
    kept: list[Candidate] = []
    for one in ordered:
        if not any(_same_failure(one, better) for better in kept):
            kept.append(one)
    return kept


def _same_failure(one: Candidate, better: Candidate) -> bool:
    if one.cause.category is not better.cause.category:
        return False
    same_line = one.cause.line is not None and one.cause.line == better.cause.line
    return same_line or (one.event is not None and one.event is better.event)
