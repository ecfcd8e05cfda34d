"""What a rule looks at, and what it found there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.core.command import Command
from app.core.model import Event, Exit, Line, LogDigest
from app.core.vocabulary import Engine, Phase
from app.rules.template import expand

if TYPE_CHECKING:
    from app.rules.schema import FixSpec, Rule


@dataclass(frozen=True)
class Scene:
    """Everything that is known about one launch: its log, its command, its end, the machine."""

    digest: LogDigest = field(default_factory=LogDigest)
    engine: Engine | None = None
    version: str | None = None
    command: Command | None = None
    exit: Exit = field(default_factory=Exit)
    phase: Phase = Phase.STARTING
    probes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Match:
    """A rule that held. `line` is the line that proves it; `event` the event that this line belongs to."""

    rule: Rule
    captures: Mapping[str, str] = field(default_factory=dict)
    line: Line | None = None
    event: Event | None = None
    rank: str | None = None
    specificity: int = 0
    times: int = 1  # how many different lines prove it
    fixes: tuple[FixSpec, ...] = ()  # those whose `requires` holds, in the order of the file

    @property
    def title(self) -> str:
        """The rule's title with what was captured."""
        return expand(self.rule.title, self.captures)

    @property
    def explanation(self) -> str:
        """The rule's explanation with what was captured."""
        return expand(self.rule.explain, self.captures)
