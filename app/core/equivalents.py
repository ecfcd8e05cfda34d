"""Names for the same thing across engines and versions."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.catalogue import FlagCatalogue
from app.core.vocabulary import Engine


@dataclass(frozen=True, slots=True)
class Equivalent:
    """What stands for a flag in another engine or version.

    `flag` is None where nothing does; then `drop` says whether the program does the thing anyway. `same_meaning`:
    value and effect stay the same. `fold`: the value belongs under this key of the JSON flag `flag`.
    """

    flag: str | None
    same_meaning: bool = True
    note: str = ""
    fold: str | None = None
    drop: bool = False


def equivalent(flag: str, to: Engine, catalogue: FlagCatalogue | None = None) -> Equivalent | None:
    """What `flag`, unknown to engine `to`, is called there; checked against `catalogue` when given."""
    raise NotImplementedError
