"""Servers: who acts for them, their state, and what a killed Crashcart left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlmodel import Session, col, select

from app.core.model import Progress
from app.core.vocabulary import Engine, Mode, ServerState
from app.store.database import Database
from app.store.encode import progress_in, words_in
from app.store.locks import checked_name, locked
from app.store.models import AttemptRow, LaunchRow, PositionRow, ServerRow, now
from app.store.processes import this_process
from app.store.rows import attempt_view, enter, launch_view, note, server_row, server_view
from app.store.views import AttemptView, Recovery, ServerView
from app.store.words import AttemptOutcome, Decision, TransitionKind


class Servers(Database):
    """The calls about servers."""

    @contextmanager
    def lock_server(
        self, name: str, *, engine: Engine | None = None, mode: Mode | None = None, command: Sequence[str] = ()
    ) -> Iterator[None]:
        """Acts for a server as the only process; a StoreError names the pid of another that does.

        From here on `wait` and `status` know the server and that somebody cares for it.
        """
        path = self.folder("locks") / f"{checked_name(name)}.lock"
        with locked(path, name):
            self._supervise(name, engine, mode, command)
            try:
                yield
            finally:
                self._release(name)

    def get_server(self, name: str) -> ServerView | None:
        """The server as last written, None for an unknown name."""
        with self.read() as session:
            row = session.get(ServerRow, name)
            return None if row is None else _view(session, row)

    def list_servers(self) -> tuple[ServerView, ...]:
        """All servers by name, in a few queries however many there are."""
        with self.read() as session:
            rows = session.exec(select(ServerRow).order_by(ServerRow.name)).all()
            newest = select(LaunchRow).join(ServerRow, col(ServerRow.launch_id) == col(LaunchRow.id))
            launches = {launch.id: launch for launch in session.exec(newest).all()}
            watched = set(session.exec(select(PositionRow.server).distinct()).all())
            return tuple(server_view(row, launches.get(row.launch_id), watched=row.name in watched) for row in rows)

    def set_state(self, name: str, state: ServerState, evidence: str, progress: Progress | None = None) -> None:
        """Writes what the server does now, and what says so. Only a new state becomes a line of the history."""
        with self.write() as session:
            row = server_row(session, name)
            enter(session, row, state, evidence)
            if progress is not None:
                row.progress = progress_in(progress)
                _reach(session, row.launch_id, progress)

    def set_decision(self, name: str, decision: Decision, text: str | None = None) -> None:
        """Says what will be done about a dead server; `text` becomes a line of the history."""
        with self.write() as session:
            row = server_row(session, name)
            row.decision, row.updated_at = decision, now()
            session.add(row)
            if text:
                note(session, name, TransitionKind.NOTE, text, launch_id=row.launch_id)

    def recover(self, name: str) -> Recovery:
        """What a Crashcart that was killed left behind; to be called while holding the server's lock.

        Attempts that had begun are marked as interrupted and told in the incident's timeline. Doing it twice tells
        nothing new.
        """
        with self.write() as session:
            interrupted = [_interrupt(session, row) for row in _started_attempts(session, name)]
            unfinished = session.exec(
                select(LaunchRow)
                .where(LaunchRow.server == name, col(LaunchRow.ended_at).is_(None))
                .order_by(col(LaunchRow.id).desc())
            ).all()
            server = session.get(ServerRow, name)
            if server is not None and not server.decision.final:
                server.decision = Decision.NONE
                session.add(server)
            return Recovery(tuple(interrupted), tuple(launch_view(row, None) for row in unfinished))

    def interrupted_attempts(self, name: str) -> tuple[AttemptView, ...]:
        """Attempts of this server that a Crashcart began and did not live to end, newest first."""
        with self.read() as session:
            rows = session.exec(
                select(AttemptRow)
                .where(
                    AttemptRow.server == name,
                    col(AttemptRow.outcome).in_((AttemptOutcome.STARTED, AttemptOutcome.INTERRUPTED)),
                )
                .order_by(col(AttemptRow.id).desc())
            ).all()
            me = this_process()
            return tuple(
                attempt_view(row)
                for row in rows
                if row.outcome == AttemptOutcome.INTERRUPTED
                or (row.supervisor_pid, row.supervisor_mark) != (me.pid, me.mark)
            )

    def not_wanted(self, name: str) -> None:
        """It is not started before somebody wishes it; what is known of an earlier end stays."""
        with self.write() as session:
            row = server_row(session, name)
            if row.launch_id is None and row.state is ServerState.STARTING:
                enter(session, row, ServerState.STOPPED, "it is started when somebody wishes it: `start: false`")

    def server_folder(self, name: str) -> Path:
        """Where a server's kept output lies."""
        return self.folder("servers", checked_name(name))

    def _supervise(self, name: str, engine: Engine | None, mode: Mode | None, command: Sequence[str]) -> None:
        me = this_process()
        with self.write() as session:
            at = now()
            row = session.get(ServerRow, name) or ServerRow(
                name=name,
                state=ServerState.STARTING,
                evidence="Crashcart prepares the launch",
                since=at,
                updated_at=at,
                decision=Decision.NONE,
                command=words_in(command),
            )
            row.engine, row.mode = engine or row.engine, mode or row.mode
            row.supervisor_pid, row.supervisor_mark, row.supervisor_since = me.pid, me.mark, at
            session.add(row)

    def _release(self, name: str) -> None:
        me = this_process()
        with self.write() as session:
            row = session.get(ServerRow, name)
            if row is None or (row.supervisor_pid, row.supervisor_mark) != (me.pid, me.mark):
                return
            if row.launch_id is None and row.state == ServerState.STARTING:
                enter(session, row, ServerState.STOPPED, "it never came to a launch")
            row.supervisor_pid = row.supervisor_mark = row.supervisor_since = None
            session.add(row)


def _view(session: Session, row: ServerRow) -> ServerView:
    launch = session.get(LaunchRow, row.launch_id) if row.launch_id else None
    watched = session.exec(select(PositionRow.id).where(PositionRow.server == row.name)).first() is not None
    return server_view(row, launch, watched=watched)


def _reach(session: Session, launch_id: int | None, progress: Progress) -> None:
    """Keeps the furthest point on the launch itself: it must survive us."""
    launch = session.get(LaunchRow, launch_id) if launch_id else None
    if launch is not None and launch.ended_at is None and progress.phase.order >= launch.phase.order:
        launch.phase, launch.percent = progress.phase, progress.percent
        session.add(launch)


def _started_attempts(session: Session, name: str) -> Sequence[AttemptRow]:
    return session.exec(
        select(AttemptRow).where(AttemptRow.server == name, AttemptRow.outcome == AttemptOutcome.STARTED)
    ).all()


def _interrupt(session: Session, row: AttemptRow) -> AttemptView:
    row.outcome, row.ended_at = AttemptOutcome.INTERRUPTED, now()
    session.add(row)
    text = f"Crashcart (pid {row.supervisor_pid}) ended in the middle of this {row.kind}; a person decides about it now"
    note(session, row.server, TransitionKind.INTERRUPTED, text, incident_id=row.incident_id)
    return attempt_view(row)
