"""Which incident a failure belongs to, and how one ends. All work inside the caller's transaction."""

from __future__ import annotations

from datetime import timedelta

from sqlmodel import Session, col, select

from app.core.model import Diagnosis
from app.core.vocabulary import Category, IncidentStatus
from app.store.encode import text_in
from app.store.models import AttemptRow, IncidentRow, LaunchRow, ProposalRow, now
from app.store.rows import note
from app.store.words import AttemptOutcome, ProposalStatus, TransitionKind

# The same failure within this time after its incident was resolved is the same episode: the fix did not hold.
REGRESSION = timedelta(minutes=30)


def join_or_open(
    session: Session, launch: LaunchRow, diagnosis: Diagnosis, fingerprint: str | None = None
) -> IncidentRow:
    """The launch's incident: the server's unresolved one, one of the same fingerprint that was resolved just now
    (it is open again, as regressed), else a new one. It takes the newest title and category."""
    top = diagnosis.causes[0] if diagnosis.causes else None
    category = top.category if top else Category.UNKNOWN
    mark = fingerprint or diagnosis.fingerprint or f"{category}:{top.rule if top else 'none'}"
    at = now()
    row = _of_launch(session, launch)
    if row is not None and row.status is IncidentStatus.RESOLVED and row.fingerprint != mark:
        row = None  # the launch that ended one episode may begin another one: of a failure of its own
    row = row or _unresolved(session, launch.server) or _regressed(session, launch.server, mark)
    if row is None:
        row = IncidentRow(server=launch.server, opened_at=at, fingerprint=mark)
    elif row.status is IncidentStatus.RESOLVED:
        row.regressed, row.resolved_at = True, None
    row.status, row.category, row.fingerprint, row.updated_at = IncidentStatus.OPEN, category, mark, at
    row.title = text_in(top.title) if top else "Failed without a known cause"
    session.add(row)
    session.flush()
    launch.incident_id = row.id
    session.add(launch)
    return row


def put_right(session: Session, launch: LaunchRow, held: str | None = None) -> int | None:
    """Brings an incident's attempt and proposals in line with what its launch just showed.

    With `held` (the launch is ready and stays so) the attempt held and the incident is resolved with that text;
    without it (the launch died) the attempt failed. Either way events have overtaken open proposals.
    """
    close_attempt(session, launch.attempt_id, AttemptOutcome.FAILED if held is None else AttemptOutcome.HELD)
    row = _of_launch(session, launch) or (_unresolved(session, launch.server) if held is not None else None)
    if row is None:
        return None
    withdraw_proposals(session, row.id or 0)
    if held is not None and row.status is not IncidentStatus.RESOLVED:
        launch.incident_id = row.id  # the healthy launch ends the episode that it did not begin
        session.add(launch)
        close(session, row, held)
        return row.id
    return None


def close(session: Session, row: IncidentRow, text: str) -> None:
    """The episode is over."""
    row.status, row.resolved_at = IncidentStatus.RESOLVED, now()
    row.updated_at = row.resolved_at
    session.add(row)
    note(session, row.server, TransitionKind.RESOLVED, text, incident_id=row.id)


def close_attempt(session: Session, attempt_id: int | None, outcome: AttemptOutcome) -> bool:
    """Ends an attempt that is still under way; what was written about its end before stays."""
    row = session.get(AttemptRow, attempt_id) if attempt_id is not None else None
    if row is None or row.outcome is not AttemptOutcome.STARTED:
        return False
    row.outcome, row.ended_at = outcome, now()
    session.add(row)
    return True


def withdraw_proposals(session: Session, incident_id: int) -> None:
    """Events have overtaken what was proposed, and what was approved but not begun."""
    rows = session.exec(
        select(ProposalRow).where(
            ProposalRow.incident_id == incident_id,
            col(ProposalRow.status).in_((ProposalStatus.PROPOSED, ProposalStatus.APPROVED)),
        )
    ).all()
    for row in rows:
        row.status = ProposalStatus.WITHDRAWN
        session.add(row)
    session.flush()


def _of_launch(session: Session, launch: LaunchRow) -> IncidentRow | None:
    return session.get(IncidentRow, launch.incident_id) if launch.incident_id is not None else None


def _unresolved(session: Session, server: str) -> IncidentRow | None:
    return session.exec(
        select(IncidentRow)
        .where(IncidentRow.server == server, IncidentRow.status != IncidentStatus.RESOLVED)
        .order_by(col(IncidentRow.id).desc())
    ).first()


def _regressed(session: Session, server: str, fingerprint: str) -> IncidentRow | None:
    return session.exec(
        select(IncidentRow)
        .where(
            IncidentRow.server == server,
            IncidentRow.fingerprint == fingerprint,
            col(IncidentRow.updated_at) >= now() - REGRESSION,
        )
        .order_by(col(IncidentRow.id).desc())
    ).first()
