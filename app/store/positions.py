"""Followed files: how far they were read, stored together with what that led to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from app.core.model import Diagnosis, Progress
from app.core.vocabulary import Engine, Mode, Phase, ServerState
from app.store.database import Database
from app.store.encode import path_in, progress_in, words_in
from app.store.episodes import join_or_open, put_right
from app.store.launches import keep_diagnosis
from app.store.locks import checked_name
from app.store.models import IncidentRow, LaunchRow, PositionRow, ServerRow, now
from app.store.rows import enter, note, server_row
from app.store.secrets import CommandKey
from app.store.words import Decision, TransitionKind


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file was read. What lies before `offset` was judged; the open context began at `anchor`."""

    path: Path
    device: int
    inode: int
    offset: int = 0
    anchor: int = 0
    head_length: int = 0
    head: str = ""
    launch_id: int | None = None
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Began:
    """A new launch shows in a file. `command` may hold secrets: it is stored redacted."""

    engine: Engine | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reached:
    """A launch came somewhere. A launch that is ready again ends the episode of the one before."""

    state: ServerState
    evidence: str
    progress: Progress
    engine: Engine | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """A launch failed; `text` is the line of the timeline. An `aftershock` leaves the incident's title alone."""

    diagnosis: Diagnosis
    text: str
    aftershock: bool = False


Seen = Began | Reached | Failed


class Positions(Database):
    """The calls about followed files."""

    def watch_server(self, name: str, engine: Engine | None = None, mode: Mode | None = None) -> None:
        """Makes a server known that others start."""
        with self.write() as session:
            at = now()
            row = session.get(ServerRow, checked_name(name)) or ServerRow(
                name=name,
                state=ServerState.STARTING,
                evidence="nothing was seen of it yet",
                since=at,
                updated_at=at,
                decision=Decision.NONE,
                command=[],
            )
            row.engine, row.mode = engine or row.engine, mode or row.mode
            session.add(row)

    def positions(self, server: str) -> tuple[Position, ...]:
        """All files of a server that were read, the one read last at the end."""
        return self.all_positions().get(server, ())

    def all_positions(self) -> Mapping[str, tuple[Position, ...]]:
        """The same for all servers, by their names."""
        found: dict[str, tuple[Position, ...]] = {}
        with self.read() as session:
            for row in session.exec(
                select(PositionRow).order_by(col(PositionRow.updated_at), col(PositionRow.id))
            ).all():
                found[row.server] = (*found.get(row.server, ()), _position(row))
        return found

    def take_in(self, server: str, seen: Sequence[Seen], position: Position) -> tuple[int | None, tuple[int, ...]]:
        """One transaction: what was seen, and how far was read to see it.

        Returns the launch that the file is in now, and the incidents of the failures.
        """
        incidents: list[int] = []
        # Flushed behind each thing seen, not before each look: no look is for what the same thing has just changed.
        with self.write() as session, session.no_autoflush:
            launch_id = position.launch_id
            for one in seen:
                launch = session.get(LaunchRow, launch_id) if launch_id is not None else None
                if launch is None or isinstance(one, Began):
                    launch = _begin(session, server, position, one, self.key)
                    launch_id = launch.id
                if isinstance(one, Reached):
                    _reached(session, launch, one)
                elif isinstance(one, Failed):
                    incidents.append(_failed(session, launch, one))
                session.flush()
            _keep_position(session, server, position, launch_id)
        return launch_id, tuple(incidents)

    def drop_position(self, server: str, position: Position) -> None:
        """The file is gone and was read to its end."""
        with self.write() as session:
            row = _find(session, server, position)
            if row is not None:
                session.delete(row)

    def launch_settled(self, launch_id: int, text: str) -> int | None:
        """A followed launch stayed ready: the episode of the ones before is over. Returns the incident resolved."""
        with self.write() as session:
            launch = session.get(LaunchRow, launch_id)
            server = session.get(ServerRow, launch.server) if launch else None
            if launch is None or server is None or server.launch_id != launch_id or launch.incident_id is not None:
                return None
            server.last_good_command = launch.command or server.last_good_command
            session.add(server)
            return put_right(session, launch, held=text)


def _position(row: PositionRow) -> Position:
    return Position(
        Path(row.path),
        row.device,
        row.inode,
        row.offset,
        row.anchor,
        row.head_length,
        row.head,
        row.launch_id,
        row.context,
    )


def _begin(session: Session, server: str, position: Position, seen: Seen, key: CommandKey) -> LaunchRow:
    row = server_row(session, server)
    told = seen if isinstance(seen, (Began, Reached)) else None
    diagnosis = seen.diagnosis if isinstance(seen, Failed) else None
    command = (told.command if told else diagnosis.command if diagnosis else None) or ()
    engine = (told.engine if told else diagnosis.engine if diagnosis else None) or row.engine
    launch = LaunchRow(
        server=server,
        engine=engine,
        command=words_in(command),
        command_hash=key.hash(command),
        log_path=path_in(position.path),
        started_at=now(),
        phase=Phase.STARTING,
    )
    session.add(launch)
    session.flush()
    row.launch_id, row.engine = launch.id, engine
    row.progress = None
    if command:
        row.command = words_in(command)
    enter(session, row, ServerState.STARTING, f"a launch shows in {path_in(position.path)}")
    session.flush()
    return launch


def _reached(session: Session, launch: LaunchRow, seen: Reached) -> None:
    phase = seen.progress.phase
    if phase.order >= launch.phase.order:
        launch.phase, launch.percent = phase, seen.progress.percent
    launch.engine = launch.engine or seen.engine
    if seen.command and not launch.command:
        launch.command = words_in(seen.command)
    session.add(launch)
    server = session.get(ServerRow, launch.server)
    if server is not None and server.launch_id == launch.id:
        server.engine = server.engine or launch.engine
        if launch.command:
            server.command = launch.command
        server.progress = progress_in(seen.progress)
        enter(session, server, seen.state, seen.evidence)


def _failed(session: Session, launch: LaunchRow, seen: Failed) -> int:
    """A failure that a log shows. A server that was ready may have survived it; one that was not has not."""
    incident = session.get(IncidentRow, launch.incident_id) if launch.incident_id is not None else None
    if incident is None or not seen.aftershock or incident.resolved_at is not None:
        incident = join_or_open(session, launch, seen.diagnosis)
        keep_diagnosis(session, launch, seen.diagnosis)
        put_right(session, launch)
    was_ready = launch.phase is Phase.READY
    launch.phase = max(launch.phase, seen.diagnosis.phase, key=lambda phase: phase.order)
    if not was_ready and launch.ended_at is None:
        launch.ended_at = now()
    session.add(launch)
    server = session.get(ServerRow, launch.server)
    if server is not None:
        # A server with several logs is what the newest of them says; one that serves by another log still does.
        serves = was_ready or (server.launch_id != launch.id and server.state is ServerState.READY)
        server.launch_id = launch.id
        state = ServerState.DEGRADED if serves else ServerState.EXITED
        enter(session, server, state, f"its log shows a failure: {seen.text}")
    note(
        session,
        launch.server,
        TransitionKind.FAILED,
        seen.text,
        incident_id=incident.id,
        launch_id=launch.id,
    )
    return incident.id or 0


def _find(session: Session, server: str, position: Position) -> PositionRow | None:
    return session.exec(
        select(PositionRow).where(
            PositionRow.server == server,
            PositionRow.path == path_in(position.path),
        )
    ).first()


def _keep_position(session: Session, server: str, position: Position, launch_id: int | None) -> None:
    row = _find(session, server, position) or PositionRow(
        server=server,
        path=path_in(position.path) or "",
        context={},
        updated_at=now(),
    )
    row.device, row.inode = position.device, position.inode
    row.offset, row.anchor = position.offset, position.anchor
    row.head, row.head_length = position.head, position.head_length
    row.launch_id, row.context, row.updated_at = launch_id, dict(position.context), now()
    session.add(row)
