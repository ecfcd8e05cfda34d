"""Launches: their beginning, their end, and the one transaction that a death is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from sqlmodel import Session, col, select

from app.core.model import Diagnosis, Exit
from app.core.vocabulary import Category, Engine, IncidentStatus, Mode, Phase, ServerState
from app.store.database import Database
from app.store.encode import diagnosis_in, path_in, text_in, words_in
from app.store.episodes import close_attempt, join_or_open, put_right
from app.store.locks import checked_name
from app.store.models import AttemptRow, DiagnosisRow, IncidentRow, LaunchRow, ServerRow, now
from app.store.processes import ref
from app.store.rows import enter, launch_row, launch_view, note
from app.store.texts import described_end
from app.store.views import LaunchView
from app.store.words import AttemptOutcome, Decision, TransitionKind


class Launches(Database):
    """The calls about launches."""

    def begin_launch(
        self,
        server: str,
        command: Sequence[str],
        engine: Engine | None,
        mode: Mode | None = None,
        *,
        attempt_id: int | None = None,
        log_path: Path | None = None,
        health_url: str | None = None,
        ran: bool = True,
    ) -> int:
        """Writes that a process is about to be started, and makes the server known.

        `command` holds the true words, env assignments first; what is stored is redacted. `ran=False` stands for a
        launch that the pre-flight check stopped. A launch of an attempt belongs to the attempt's incident at once.
        """
        with self.write() as session:
            at = now()
            attempt = session.get(AttemptRow, attempt_id) if attempt_id is not None else None
            row = session.get(ServerRow, checked_name(server)) or ServerRow(
                name=server, state=ServerState.STARTING, since=at, updated_at=at, decision=Decision.NONE
            )
            row.engine, row.mode, row.command = engine or row.engine, mode or row.mode, words_in(command)
            row.health_url, row.decision, row.progress = health_url or row.health_url, Decision.NONE, None
            session.add(row)
            session.flush()
            launch = LaunchRow(
                server=server,
                engine=row.engine,
                incident_id=attempt.incident_id if attempt else None,
                attempt_id=attempt_id,
                command=words_in(command),
                command_hash=self.key.hash(command),
                log_path=path_in(log_path),
                ran=ran,
                started_at=at,
                phase=Phase.STARTING,
            )
            session.add(launch)
            session.flush()
            row.launch_id = launch.id
            if ran:
                enter(session, row, ServerState.STARTING, "the process is being started")
            return launch.id or 0

    def launch_started(self, launch_id: int, pid: int, pgid: int | None = None, log_path: Path | None = None) -> None:
        """The process runs: its pid is kept with a mark that tells it from a later process of the same number."""
        process = ref(pid)
        with self.write() as session:
            row = launch_row(session, launch_id)
            row.pid, row.pid_mark, row.pgid = pid, process.mark, pgid
            if log_path is not None:
                row.log_path = path_in(log_path)
            server = session.get(ServerRow, row.server)
            if server is not None and server.launch_id == launch_id:
                enter(session, server, server.state, f"process {pid} started")
            session.add(row)

    def launch_found(self, launch_id: int, pid: int) -> None:
        """The process behind a launch that others started; what is known of its state stays."""
        process = ref(pid)
        with self.write() as session:
            row = launch_row(session, launch_id)
            row.pid, row.pid_mark = pid, process.mark
            session.add(row)

    def launch_ended(
        self,
        launch_id: int,
        exit: Exit,
        phase: Phase,
        diagnosis: Diagnosis | None = None,
        *,
        asked: bool = True,
        evidence: str | None = None,
    ) -> None:
        """An end that is no failure: a person asked for it. For a death see `record_death`."""
        with self.write() as session:
            row = launch_row(session, launch_id)
            if row.ended_at is not None:
                return
            _end(row, exit, phase, diagnosis)
            row.asked = asked
            session.add(row)
            if diagnosis is not None:
                keep_diagnosis(session, row, diagnosis)
            close_attempt(session, row.attempt_id, AttemptOutcome.STOPPED)
            server = session.get(ServerRow, row.server)
            if server is not None and server.launch_id == launch_id:
                server.decision = Decision.NONE
                end = evidence or f"stopped by a person ({described_end(exit, row.phase, row.percent)})"
                enter(session, server, ServerState.STOPPED, end)

    def record_death(
        self,
        launch_id: int,
        exit: Exit,
        phase: Phase,
        diagnosis: Diagnosis,
        *,
        decision: Decision = Decision.PENDING,
    ) -> int:
        """Everything that a death changes, in one transaction; returns the incident's id.

        1. the launch ends, 2. its diagnosis is kept, 3. an incident is opened or joined, 4. the attempt that led to
        this launch has failed and open proposals are withdrawn, 5. the server is down and what is done about it is
        `decision`, 6. the history gets its line, which an acting loop can claim.
        Told a second time, it changes nothing: not after a kill −9 either.
        """
        with self.write() as session:
            row = launch_row(session, launch_id)
            if row.ended_at is not None and row.incident_id is not None:
                return row.incident_id
            _end(row, exit, phase, diagnosis)
            incident = join_or_open(session, row, diagnosis)
            keep_diagnosis(session, row, diagnosis)
            put_right(session, row)
            end = described_end(exit, row.phase, row.percent) if row.ran else "stopped by the pre-flight check"
            server = session.get(ServerRow, row.server)
            if server is not None and server.launch_id == launch_id:
                server.decision = decision
                enter(session, server, ServerState.EXITED, end)
            note(
                session,
                row.server,
                TransitionKind.DIED,
                f"{end}: {incident.title}",
                incident_id=incident.id,
                launch_id=launch_id,
            )
            return incident.id or 0

    def failed_alike(self, fingerprint: str, since: datetime) -> tuple[str, ...]:
        """The servers of which a launch failed with this fingerprint since then, by name."""
        with self.read() as session:
            names = session.exec(
                select(LaunchRow.server)
                .join(DiagnosisRow, col(DiagnosisRow.launch_id) == col(LaunchRow.id))
                .where(DiagnosisRow.fingerprint == fingerprint, col(DiagnosisRow.at) >= since)
                .distinct()
            ).all()
        return tuple(sorted(names))

    def open_or_join_incident(self, server: str, fingerprint: str, diagnosis: Diagnosis, launch_id: int) -> int:
        """An incident for a launch that still runs (it hangs, say). Its later death joins the same one."""
        with self.write() as session:
            row = launch_row(session, launch_id)
            known = session.get(IncidentRow, row.incident_id) if row.incident_id is not None else None
            lasts = known is not None and known.status is not IncidentStatus.RESOLVED
            if known is not None and lasts and _diagnosis_of(session, launch_id) is not None:
                return known.id or 0
            incident = join_or_open(session, row, diagnosis, fingerprint)
            keep_diagnosis(session, row, diagnosis)
            note(session, server, TransitionKind.NOTE, incident.title, incident_id=incident.id, launch_id=launch_id)
            return incident.id or 0

    def diagnosed_again(self, launch_id: int, diagnosis: Diagnosis, text: str) -> bool:
        """A better diagnosis of an old launch: kept with a line of the timeline; what was done stays as it is.

        False when its incident was resolved meanwhile: then nothing changes.
        """
        top = diagnosis.causes[0]
        with self.write() as session:
            row = launch_row(session, launch_id)
            incident = session.get(IncidentRow, row.incident_id) if row.incident_id is not None else None
            if incident is None or incident.status is IncidentStatus.RESOLVED:
                return False
            keep_diagnosis(session, row, diagnosis)
            incident.category, incident.title = top.category, text_in(top.title)
            incident.fingerprint = diagnosis.fingerprint or incident.fingerprint
            session.add(incident)
            note(session, row.server, TransitionKind.NOTE, text, incident_id=row.incident_id, launch_id=launch_id)
            return True

    def settled(self, launch_id: int, text: str) -> int | None:
        """Ready, and stayed so for the settle time: its command is good, its attempt held, the episode is over.

        Returns the incident that this resolves, if there is one.
        """
        with self.write() as session:
            row = launch_row(session, launch_id)
            server = session.get(ServerRow, row.server)
            if server is not None:
                server.last_good_command, server.decision = row.command, Decision.NONE
                session.add(server)
            return put_right(session, row, held=text)

    def launch(self, launch_id: int) -> LaunchView:
        """One launch with its diagnosis."""
        with self.read() as session:
            return launch_view(launch_row(session, launch_id), _diagnosis_of(session, launch_id))

    def launches(self, server: str, limit: int = 20) -> tuple[LaunchView, ...]:
        """A server's launches, newest first."""
        with self.read() as session:
            rows = session.exec(
                select(LaunchRow).where(LaunchRow.server == server).order_by(col(LaunchRow.id).desc()).limit(limit)
            ).all()
            return tuple(launch_view(row, _diagnosis_of(session, row.id or 0)) for row in rows)


def _end(row: LaunchRow, exit: Exit, phase: Phase, diagnosis: Diagnosis | None) -> None:
    row.ended_at, row.exit_code, row.exit_signal = now(), exit.code, exit.signal
    percent = diagnosis.progress.percent if diagnosis else None
    if phase != row.phase or percent is not None:
        row.percent = percent
    row.phase = phase


def _diagnosis_of(session: Session, launch_id: int) -> DiagnosisRow | None:
    return session.exec(select(DiagnosisRow).where(DiagnosisRow.launch_id == launch_id)).first()


def keep_diagnosis(session: Session, launch: LaunchRow, diagnosis: Diagnosis) -> None:
    """Keeps what was found out about a launch; the newest counts."""
    row = _diagnosis_of(session, launch.id or 0) or DiagnosisRow(launch_id=launch.id or 0, at=now(), data={})
    row.incident_id, row.outcome, row.fingerprint = launch.incident_id, diagnosis.outcome, diagnosis.fingerprint
    row.category = diagnosis.causes[0].category if diagnosis.causes else Category.UNKNOWN
    row.at, row.data = now(), diagnosis_in(diagnosis)
    session.add(row)
