"""A followed log of a watched server, and what its findings are in the store's words."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.core.model import Progress
from app.core.vocabulary import Engine, Mode, ServerState
from app.diagnosis.findings import FailureSeen, Finding, LaunchSeen
from app.diagnosis.live import LiveLog
from app.service.config import ServerConfig
from app.store.positions import Began, Failed, Reached, Seen
from app.store.texts import reached
from app.supervise.follow import FileFollower

_SHOWN = 300
_COUNTED = 256 << 20


@dataclass(frozen=True, slots=True)
class Watched:
    """A server that others start, and the globs of its logs."""

    name: str
    patterns: tuple[str, ...]
    engine: Engine | None = None
    mode: Mode | None = None
    settle: float = 60.0


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What one transaction stored."""

    server: str
    path: Path
    incidents: tuple[int, ...]
    launch_id: int | None


@dataclass
class FollowedFile:
    """One followed log of one server."""

    server: Watched
    follower: FileFollower
    log: LiveLog
    launch_id: int | None = None
    last_data: float = 0.0
    unwritten: float | None = None  # since when the position is ahead of the stored one
    store_again: float = 0.0  # not before then
    ready_since: float | None = None
    waiting: list[Seen] = field(default_factory=list)  # not stored, because the store could not be written

    @property
    def path(self) -> Path:
        return self.follower.path

    def due(self, now: float, lazy: float) -> bool:
        """Whether something waits to be stored, and it is time to."""
        late = self.unwritten is not None and now - self.unwritten > lazy
        return (bool(self.waiting) or late) and now >= self.store_again


def seen_of(found: Finding, path: Path) -> Seen:
    """A finding in the store's words."""
    if isinstance(found, LaunchSeen):
        return Began()
    if isinstance(found, FailureSeen):
        line = found.line
        title = found.diagnosis.causes[0].title
        text = line.text if len(line.text) <= _SHOWN else f"{line.text[:_SHOWN]}…"
        return Failed(found.diagnosis, f"{title} ({path.name}, line {line.number}: {text})", found.aftershock)
    progress = found.progress
    return Reached(_state(progress), _evidence(progress, path), progress, found.engine, found.command)


def _state(progress: Progress) -> ServerState:
    return ServerState(progress.phase.value)


def _evidence(progress: Progress, path: Path) -> str:
    said = f": {progress.text[:_SHOWN]}" if progress.text else ""
    return f"{reached(progress.phase, progress.percent)} by {path.name}{said}"


def age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def lines_before(path: Path, offset: int) -> int:
    """How many lines lie before an offset; 0 where counting would take too long."""
    if not 0 < offset <= _COUNTED:
        return 0
    lines = 0
    try:
        with path.open("rb") as file:
            while offset > 0 and (data := file.read(min(1 << 20, offset))):
                lines += data.count(b"\n")
                offset -= len(data)
    except OSError:
        return 0
    return lines


def watched_servers(servers: Mapping[str, ServerConfig]) -> tuple[Watched, ...]:
    """The watched servers of a configuration (`Config.watched`)."""
    return tuple(
        Watched(name, server.watch, server.engine, server.mode, server.settle) for name, server in servers.items()
    )
