"""Why a rule did or did not hold: each question of its conditions, asked alone."""

from __future__ import annotations

from collections.abc import Iterator
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


def steps(condition: Condition, scene: Scene, depth: int = 0) -> Iterator[Step]:
    """A condition and those nested in it, outermost first. Each is asked with nothing found before it."""
    asked = condition.model_dump(mode="json", by_alias=True, exclude_unset=True)
    groups = {"all": condition.all, "any": condition.any, "none": condition.none}
    question = ", ".join(name if name in groups else f"{name}: {value}" for name, value in asked.items())
    try:
        found = next(iter(compile_condition(condition)(Look(scene), State())), None)
    except RuleTroubleError:
        found = None
    yield Step(depth, question, found is not None, found.anchor.number if found and found.anchor else None)
    for children in groups.values():
        for child in children or ():
            yield from steps(child, scene, depth + 1)
