"""Processes that others started: found by their port or by their log, and missed when they are gone.

A log tells of failures, but a process that is killed from outside writes nothing. So the process behind each followed
log is looked for: who listens on the configured port, else who has the log open for writing. When it ends and the log
shows why, the log has told it already; when it ends in silence, that is an incident, too.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from app.core.model import Cause, Diagnosis, Exit
from app.core.vocabulary import Action, Category, Confidence, Outcome, Safety
from app.diagnosis.fingerprint import fingerprint
from app.diagnosis.pipeline import Pipeline, Session
from app.service.config import Config
from app.service.reporting import reading_of
from app.store.processes import alive
from app.store.rows import DOWN
from app.store.store import Store
from app.store.views import LaunchView, ServerView
from app.store.words import Decision
from app.supervise.ports import listener

_EVERY = 1.0  # seconds between looks whether known processes live
_SEARCH = 5.0  # seconds between searches for unknown ones: all of /proc is looked through
_LAST_WORDS = 2.0  # seconds in which the log of a process that ended may still tell why
_WRITING = os.O_WRONLY | os.O_RDWR


class Others:
    """Looks after the processes of all watched servers."""

    def __init__(self, store: Store, config: Callable[[], Config], pipeline: Callable[[], Pipeline]) -> None:
        self._store = store
        self._config = config
        self._pipeline = pipeline
        self._missed: dict[int, float] = {}  # when a launch's process was first missed
        self._searched = 0.0
        self._log = structlog.get_logger("crashcart")

    async def run(self) -> None:
        """Looks again and again. StoreError is for the caller."""
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(_EVERY)

    def look(self) -> None:
        """One look at all watched servers."""
        watched = self._config().watched
        if not watched:
            return
        views = [view for view in self._store.list_servers() if view.name in watched]
        unknown = []
        for view in views:
            if view.launch_id is None or view.state in DOWN:
                continue
            if view.process is None:
                unknown.append(view)
            elif not alive(view.process):
                self._miss(view, view.launch_id)
        if unknown and time.monotonic() - self._searched >= _SEARCH:
            self._searched = time.monotonic()
            self._find(unknown, {name: server.port for name, server in watched.items()})

    def _find(self, views: list[ServerView], ports: Mapping[str, int | None]) -> None:
        writers = writers_of({view.log_path for view in views if view.log_path is not None})
        for view in views:
            port = ports.get(view.name)
            holder = listener(port) if port is not None else None
            pid = holder.pid if holder is not None else writers.get(view.log_path) if view.log_path else None
            if pid is not None and view.launch_id is not None:
                self._store.launch_found(view.launch_id, pid)
                self._log.info("found the process of a watched server", server=view.name, pid=pid)

    def _miss(self, view: ServerView, launch_id: int) -> None:
        """Its process is gone: once its log had time to say why, it is written down."""
        since = self._missed.setdefault(launch_id, time.monotonic())
        if time.monotonic() - since < _LAST_WORDS:
            return
        del self._missed[launch_id]
        launch = self._store.launch(launch_id)
        if launch.ended_at is not None:
            return
        session = reading_of(self._store, view, launch, self._pipeline())
        diagnosis = session.diagnose()
        phase = max(launch.phase, diagnosis.phase, key=lambda one: one.order)
        if diagnosis.outcome is not Outcome.FAILED and _stop_was_asked(session):
            self._store.launch_ended(
                launch_id, Exit(), phase, evidence=f"{_process(launch)} ended after it was asked to stop"
            )
            return
        told = diagnosis if diagnosis.outcome is Outcome.FAILED else _gone(diagnosis, launch)
        self._store.record_death(launch_id, Exit(), phase, told, decision=Decision.NONE)


def writers_of(logs: set[Path]) -> dict[Path, int]:
    """The process that has each log open for writing; of several, the one that started the others."""
    wanted = {(found.st_dev, found.st_ino): log for log in logs if (found := _stat(log)) is not None}
    holders: dict[Path, dict[int, int]] = {}
    for pid in _processes():
        for log in _logs_of(pid, wanted):
            holders.setdefault(log, {})[pid] = _parent(pid)
    return {
        log: min((pid for pid, parent in pids.items() if parent not in pids), default=min(pids))
        for log, pids in holders.items()
    }


def _processes() -> Iterator[int]:
    own = str(os.getpid())
    yield from (int(name) for name in _names(Path("/proc")) if name.isdigit() and name != own)


def _logs_of(pid: int, wanted: Mapping[tuple[int, int], Path]) -> Iterator[Path]:
    """The logs that a process has open for writing; none where it may not be looked at."""
    folder = Path(f"/proc/{pid}/fd")
    seen: set[Path] = set()
    for descriptor in _names(folder):
        found = _stat(folder / descriptor)
        log = wanted.get((found.st_dev, found.st_ino)) if found is not None else None
        if log is not None and log not in seen and _writes(pid, descriptor):
            seen.add(log)
            yield log


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _writes(pid: int, descriptor: str) -> bool:
    try:
        told = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text()
        return any(int(line.split()[1], 8) & _WRITING for line in told.splitlines() if line.startswith("flags:"))
    except (OSError, ValueError, IndexError):
        return False


def _parent(pid: int) -> int:
    try:
        told = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return int(told[told.rindex(")") + 2 :].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _stop_was_asked(session: Session) -> bool:
    """Whether the log shows that somebody asked the server to stop: then even a SIGKILL is no failure."""
    return not session.diagnose(Exit(signal="SIGKILL")).causes


def _process(launch: LaunchView) -> str:
    return f"process {launch.process.pid}" if launch.process is not None else "its process"


def _gone(diagnosis: Diagnosis, launch: LaunchView) -> Diagnosis:
    """The cause of a death of which nothing is known but that it happened."""
    cause = Cause(
        rule="any/process-gone",
        category=Category.KILLED_BY_SIGNAL,
        title="The server's process is gone, and its log does not say why",
        explanation=(
            f"{_process(launch).capitalize()} does not run any more, and its log shows neither a failure nor that it "
            "was asked to stop. Something outside ended it: the kernel's out-of-memory killer, a container's memory "
            "limit or a person. `dmesg` and the container's events tell which."
        ),
        confidence=Confidence.MEDIUM,
        action=Action.RESTART,
        safety=Safety.SAFE,
        trusted=True,
    )
    mark = fingerprint(engine=diagnosis.engine, category=cause.category, rule=cause.rule)
    return replace(diagnosis, outcome=Outcome.FAILED, causes=(cause,), fingerprint=mark)
