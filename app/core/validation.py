"""Judges a whole command by a catalogue: what would the program's own parser refuse?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.problems import ArgumentProblem

if TYPE_CHECKING:
    from app.core.catalogue import FlagCatalogue
    from app.core.command import Command


def problems_of(command: Command, catalogue: FlagCatalogue) -> list[ArgumentProblem]:
    """What the program's parser would refuse, in the order typed; nothing for a command that it takes."""
    return []
