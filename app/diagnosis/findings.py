"""What is found in a log that never ends, and what must be known to go on reading it from a place in its middle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.core.model import Diagnosis, Line, Progress
from app.core.vocabulary import Engine, Phase


@dataclass(frozen=True, slots=True)
class Last:
    """The failure before, for telling its aftershocks."""

    rule: str
    rank: str | None
    line: int
    time: float | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What is known at `anchor` of what lies before it.

    `mid`: the launch began before; `failed`: it has failed. In both cases a line that begins a launch begins a new
    one. `seed` is the beginning of an event that the end of the file before cut in two.
    """

    engine: Engine | None = None
    command: tuple[str, ...] = ()
    mid: bool = False
    failed: bool = False
    lines: int = 0
    seed: str = ""
    phase: Phase = Phase.STARTING
    percent: float | None = None
    last: Last | None = None

    def to_json(self) -> dict[str, Any]:
        last = self.last
        return {
            "engine": self.engine,
            "command": list(self.command),
            "mid": self.mid,
            "failed": self.failed,
            "lines": self.lines,
            "seed": self.seed,
            "phase": self.phase,
            "percent": self.percent,
            "last": None if last is None else [last.rule, last.rank, last.line, last.time],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Context:
        return cls(
            engine=Engine(data["engine"]) if data.get("engine") else None,
            command=tuple(data.get("command", ())),
            mid=bool(data.get("mid")),
            failed=bool(data.get("failed")),
            lines=int(data.get("lines", 0)),
            seed=str(data.get("seed", "")),
            phase=Phase(data.get("phase", Phase.STARTING)),
            percent=data.get("percent"),
            last=Last(*data["last"]) if data.get("last") else None,
        )


@dataclass(frozen=True, slots=True)
class LaunchSeen:
    """A new launch begins with this line."""

    line: Line


@dataclass(frozen=True, slots=True)
class ProgressSeen:
    """The launch came further than before."""

    progress: Progress
    engine: Engine | None
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailureSeen:
    """A failure, told by the line that proves it; `aftershock`: it came right after another one."""

    diagnosis: Diagnosis
    line: Line
    aftershock: bool


Finding = LaunchSeen | ProgressSeen | FailureSeen
