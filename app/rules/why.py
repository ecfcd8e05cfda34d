"""Why a rule did or did not hold: each question of its conditions, asked alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from app.rules.evaluate import compile_condition
from app.rules.look import Look, RuleTroubleError, State
from app.rules.scene import Scene

if TYPE_CHECKING:
    from app.rules.conditions import Condition


class Step(NamedTuple):
    """One condition asked alone; `line` is the number of the first line that proves it."""

    depth: int
    question: str
    holds: bool
    line: int | None
    captures: Mapping[str, str] = {}
    near: int | None = None  # of a line pattern that holds nowhere: the line that has most of its words


def steps(condition: Condition, scene: Scene, depth: int = 0) -> Iterator[Step]:
    """A condition and those nested in it, outermost first. Each is asked with nothing found before it."""
    asked = condition.model_dump(mode="json", by_alias=True, exclude_unset=True)
    groups = {"all": condition.all, "any": condition.any, "none": condition.none}
    question = ", ".join(name if name in groups else f"{name}: {_plain(value)}" for name, value in asked.items())
    try:
        found = next(iter(compile_condition(condition)(Look(scene), State())), None)
    except RuleTroubleError:
        found = None
    line = found.anchor.number if found and found.anchor else None
    near = _nearest(condition.line.regex, scene) if found is None and condition.line is not None else None
    yield Step(depth, question, found is not None, line, found.captures if found else {}, near)
    for children in groups.values():
        for child in children or ():
            yield from steps(child, scene, depth + 1)


def _plain(value: object) -> str:
    """A question's value as it is written in a rule file, without doubled backslashes."""
    if isinstance(value, dict):
        if list(value) == ["regex"]:
            return str(value["regex"])
        return ", ".join(f"{name}: {_plain(one)}" for name, one in value.items())
    return ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else str(value)


def _nearest(pattern: str, scene: Scene) -> int | None:
    """The line with most of the words that a pattern spells out; None where none has half of them."""
    plain = re.sub(r"\\[a-zA-Z]|\(\?P?<\w+>|\[[^\]]*\]", " ", pattern)
    words = {word.lower() for word in re.findall(r"[A-Za-z]{3,}", plain)}
    digest = scene.digest
    kept = {line.number: line for hits in digest.hits.values() for line in (hit.line for hit in hits.kept)}
    kept |= {line.number: line for line in (*digest.head, *digest.tail)}
    kept |= {line.number: line for event in digest.events for line in event.lines}
    shared = {number: sum(word in line.body.lower() for word in words) for number, line in kept.items()}
    best = max(shared, key=lambda number: (shared[number], -number), default=None)
    return best if best is not None and shared[best] * 2 >= len(words) > 0 else None
