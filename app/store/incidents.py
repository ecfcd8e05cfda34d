"""Incidents and the history."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from sqlalchemy import or_
from sqlmodel import Session, col, select

from app.core.vocabulary import Category, IncidentStatus, ServerState
from app.store.database import Database
from app.store.episodes import close, withdraw_proposals
from app.store.models import (
    AttemptRow,
    DiagnosisRow,
    IncidentRow,
    LaunchRow,
    ServerRow,
    TransitionRow,
    now,
)
from app.store.rows import (
    DOWN,
    attempt_view,
    audit,
    enter,
    incident_row,
    incident_view,
    launch_view,
    note,
    transition_view,
)
from app.store.views import IncidentView, LaunchView, TransitionView
from app.store.words import AttemptOutcome, Decision, TransitionKind


class Incidents(Database):
    """The calls about incidents and the history."""

    def incident(self, incident_id: int) -> IncidentView:
        """One incident with its launches, attempts and timeline; NotFoundError for an unknown id."""
        with self.read() as session:
            view = incident_view(session, incident_row(session, incident_id))
            return _with_history(session, view)

    def incidents(
        self,
        *,
        status: IncidentStatus | Collection[IncidentStatus] | None = None,
        server: str | None = None,
        category: Category | None = None,
        q: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> tuple[IncidentView, ...]:
        """Incidents, newest first. `category` matches any of an incident's diagnoses; `q` looks in
        title and server; `before` is for paging."""
        query = select(IncidentRow).order_by(col(IncidentRow.id).desc()).limit(limit)
        if status is not None:
            wanted = (status,) if isinstance(status, IncidentStatus) else tuple(status)
            query = query.where(col(IncidentRow.status).in_(wanted))
        if server is not None:
            query = query.where(IncidentRow.server == server)
        if q:
            texts = (col(IncidentRow.title), col(IncidentRow.server))
            query = query.where(or_(*(text.icontains(q, autoescape=True) for text in texts)))
        if before is not None:
            query = query.where(col(IncidentRow.id) < before)
        if category is not None:
            any_of = select(DiagnosisRow.incident_id).where(DiagnosisRow.category == category)
            query = query.where(col(IncidentRow.id).in_(any_of))
        with self.read() as session:
            return tuple(incident_view(session, row) for row in session.exec(query).all())

    def unresolved_incident(self, server: str) -> IncidentView | None:
        """The episode that a server is in."""
        query = (
            select(IncidentRow)
            .where(IncidentRow.server == server, IncidentRow.status != IncidentStatus.RESOLVED)
            .order_by(col(IncidentRow.id).desc())
        )
        with self.read() as session:
            row = session.exec(query).first()
            return None if row is None else _with_history(session, incident_view(session, row))

    def verifying(self, incident_id: int, text: str) -> None:
        """The relaunched server is ready; whether it stays so is being watched."""
        with self.write() as session:
            row = _move(session, incident_id, IncidentStatus.VERIFYING)
            note(session, row.server, TransitionKind.VERIFYING, text, incident_id=row.id)

    def needs_human(self, incident_id: int, text: str) -> None:
        """Crashcart gives up on it: the server stays down until a person acts."""
        with self.write() as session:
            row = _move(session, incident_id, IncidentStatus.NEEDS_HUMAN)
            withdraw_proposals(session, incident_id)
            note(session, row.server, TransitionKind.NEEDS_HUMAN, text, incident_id=row.id)
            audit(session, "crashcart", "needs-human", row, text)
            server = session.get(ServerRow, row.server)
            if server is not None:
                server.decision = Decision.NEEDS_HUMAN
                session.add(server)
                if server.state in DOWN:
                    enter(session, server, ServerState.GAVE_UP, text)

    def recovered(self, incident_id: int, text: str) -> None:
        """A hang has ended by itself. A fix that was still being watched is watched on; else the episode is over."""
        with self.write() as session:
            row = incident_row(session, incident_id)
            server = session.get(ServerRow, row.server)
            if server is not None:
                server.decision = Decision.NONE
                session.add(server)
            if row.status is IncidentStatus.RESOLVED:
                return
            if _watched(session, incident_id):
                _move(session, incident_id, IncidentStatus.VERIFYING)
                note(session, row.server, TransitionKind.VERIFYING, text, incident_id=row.id)
            else:
                close(session, row, text)

    def resolve(self, incident_id: int, text: str, by: str = "crashcart") -> None:
        """Ends the episode. A launch that proved healthy does this through `settled`."""
        with self.write() as session:
            row = incident_row(session, incident_id)
            if row.status is IncidentStatus.RESOLVED:
                return
            withdraw_proposals(session, incident_id)
            close(session, row, text)
            audit(session, by, "resolve", row, text)

    def add_transition(
        self, server: str, kind: str, text: str, *, incident_id: int | None = None, launch_id: int | None = None
    ) -> int:
        """Adds a line to the history; for an incident also to its timeline. Returns its id."""
        with self.write() as session:
            row = note(session, server, kind, text, incident_id=incident_id, launch_id=launch_id)
            session.flush()
            return row.id or 0

    def timeline(self, incident_id: int) -> tuple[TransitionView, ...]:
        """What happened in an incident, oldest first."""
        with self.read() as session:
            return _timeline(session, incident_id)

    def claim_death(self, server: str) -> TransitionView | None:
        """The oldest death of this server that nobody acts on yet. Of several who ask, one gets it."""
        with self.write() as session:
            row = session.exec(
                select(TransitionRow)
                .where(
                    TransitionRow.server == server,
                    TransitionRow.kind == TransitionKind.DIED,
                    col(TransitionRow.claimed_at).is_(None),
                )
                .order_by(col(TransitionRow.id))
            ).first()
            if row is None:
                return None
            row.claimed_at = now()
            session.add(row)
            return transition_view(row)

    def evidence_folder(self, incident_id: int) -> Path:
        """Where an incident's log slices, commands and exits are kept."""
        return self.folder("incidents", str(incident_id))

    def kept_log(self, launch: LaunchView) -> Path | None:
        """The copy of a launch's output, which its diagnosis counts the lines of; None where none was kept."""
        path = self.state / "incidents" / str(launch.incident_id) / f"launch-{launch.id}" / "log"
        return path if launch.incident_id is not None and path.is_file() else None


def _watched(session: Session, incident_id: int) -> bool:
    """Whether an attempt of this incident is under way, of which nobody knows yet whether it holds."""
    under_way = select(AttemptRow.id).where(
        AttemptRow.incident_id == incident_id, AttemptRow.outcome == AttemptOutcome.STARTED
    )
    return session.exec(under_way).first() is not None


def _move(session: Session, incident_id: int, status: IncidentStatus) -> IncidentRow:
    row = incident_row(session, incident_id)
    row.status, row.updated_at = status, now()
    session.add(row)
    return row


def _with_history(session: Session, view: IncidentView) -> IncidentView:
    launches = session.exec(
        select(LaunchRow, DiagnosisRow)
        .join(DiagnosisRow, col(DiagnosisRow.launch_id) == col(LaunchRow.id), isouter=True)
        .where(LaunchRow.incident_id == view.id)
        .order_by(col(LaunchRow.id))
    ).all()
    attempts = session.exec(
        select(AttemptRow).where(AttemptRow.incident_id == view.id).order_by(col(AttemptRow.id))
    ).all()
    return replace(
        view,
        launches=tuple(launch_view(launch, diagnosis) for launch, diagnosis in launches),
        attempts=tuple(attempt_view(row) for row in attempts),
        timeline=_timeline(session, view.id),
    )


def _timeline(session: Session, incident_id: int) -> tuple[TransitionView, ...]:
    rows: Iterable[TransitionRow] = session.exec(
        select(TransitionRow).where(TransitionRow.incident_id == incident_id).order_by(col(TransitionRow.id))
    ).all()
    return tuple(transition_view(row) for row in rows)
