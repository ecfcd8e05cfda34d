"""From rows to views, and the few look-ups that several nouns share. All work inside the caller's transaction."""

from __future__ import annotations

from pathlib import Path

from sqlmodel import Session, select

from app.core.errors import NotFoundError
from app.core.model import Exit
from app.core.vocabulary import ServerState
from app.store.encode import diagnosis_out, fix_out, progress_out, text_in
from app.store.models import (
    AttemptRow,
    AuditRow,
    DiagnosisRow,
    IncidentRow,
    LaunchRow,
    ProposalRow,
    ServerRow,
    TransitionRow,
    now,
)
from app.store.views import AttemptView, IncidentView, LaunchView, ProcessRef, ProposalView, ServerView, TransitionView
from app.store.words import ProposalStatus

DOWN = frozenset({ServerState.EXITED, ServerState.STOPPED, ServerState.GAVE_UP})


def server_row(session: Session, name: str) -> ServerRow:
    """The server, or an error that lists those there are."""
    row = session.get(ServerRow, name)
    if row is None:
        raise NotFoundError(f"There is no server {name!r}.", mend=known_servers(session))
    return row


def known_servers(session: Session) -> str:
    """One line for people who mistyped a name."""
    names = session.exec(select(ServerRow.name).order_by(ServerRow.name)).all()
    return f"Known servers: {', '.join(names)}." if names else "No server was ever run with this state folder."


def launch_row(session: Session, launch_id: int) -> LaunchRow:
    row = session.get(LaunchRow, launch_id)
    if row is None:
        raise NotFoundError(f"There is no launch {launch_id}.")
    return row


def incident_row(session: Session, incident_id: int) -> IncidentRow:
    row = session.get(IncidentRow, incident_id)
    if row is None:
        raise NotFoundError(f"There is no incident {incident_id}.", mend="See `crashcart incidents list`.")
    return row


def note(
    session: Session,
    server: str,
    kind: str,
    text: str,
    *,
    incident_id: int | None = None,
    launch_id: int | None = None,
) -> TransitionRow:
    """Appends to the history."""
    row = TransitionRow(
        at=now(), server=server, kind=kind, text=text_in(text), incident_id=incident_id, launch_id=launch_id
    )
    session.add(row)
    return row


def audit(session: Session, actor: str, action: str, incident: IncidentRow, text: str) -> None:
    """Writes who did what to an incident."""
    row = AuditRow(at=now(), actor=actor, action=action, server=incident.server, text=text_in(text))
    row.incident_id = incident.id
    session.add(row)


def enter(session: Session, server: ServerRow, state: ServerState, evidence: str) -> None:
    """Puts a server into a state; the history gets a line only when it is another one."""
    server.evidence, server.updated_at = text_in(evidence), now()
    if server.state != state:
        server.state, server.since = state, server.updated_at
        note(session, server.name, "state", f"{state}: {evidence}", launch_id=server.launch_id)
    session.add(server)


def exit_of(row: LaunchRow) -> Exit:
    return Exit(code=row.exit_code, signal=row.exit_signal)


def process_of(row: LaunchRow) -> ProcessRef | None:
    """The launch's process as long as nobody wrote down its end."""
    return ProcessRef(row.pid, row.pid_mark) if row.pid is not None and row.ended_at is None else None


def server_view(row: ServerRow, launch: LaunchRow | None, *, watched: bool = False) -> ServerView:
    return ServerView(
        name=row.name,
        engine=row.engine,
        mode=row.mode,
        state=row.state,
        evidence=row.evidence,
        progress=progress_out(row.progress),
        since=row.since,
        decision=row.decision,
        launch_id=row.launch_id,
        process=process_of(launch) if launch else None,
        command=tuple(row.command),
        last_good_command=None if row.last_good_command is None else tuple(row.last_good_command),
        health_url=row.health_url,
        log_path=Path(launch.log_path) if launch and launch.log_path else None,
        supervisor=None if row.supervisor_pid is None else ProcessRef(row.supervisor_pid, row.supervisor_mark),
        supervisor_since=row.supervisor_since,
        watched=watched,
    )


def launch_view(row: LaunchRow, diagnosis: DiagnosisRow | None) -> LaunchView:
    return LaunchView(
        id=row.id or 0,
        server=row.server,
        incident_id=row.incident_id,
        attempt_id=row.attempt_id,
        engine=row.engine,
        command=tuple(row.command),
        command_hash=row.command_hash,
        ran=row.ran,
        process=None if row.pid is None else ProcessRef(row.pid, row.pid_mark),
        pgid=row.pgid,
        log_path=Path(row.log_path) if row.log_path else None,
        started_at=row.started_at,
        ended_at=row.ended_at,
        phase=row.phase,
        percent=row.percent,
        exit=exit_of(row),
        asked=row.asked,
        diagnosis=diagnosis_out(diagnosis.data) if diagnosis else None,
    )


def proposal_view(row: ProposalRow) -> ProposalView:
    return ProposalView(
        id=row.id or 0,
        incident_id=row.incident_id,
        launch_id=row.launch_id,
        rule=row.rule,
        title=row.title,
        action=row.action,
        fix=fix_out(row.fix),
        safety=row.safety,
        loses=tuple(row.loses),
        guards=tuple(row.guards),
        command=tuple(row.command),
        command_hash=row.command_hash,
        status=row.status,
        proposed_at=row.proposed_at,
    )


def attempt_view(row: AttemptRow) -> AttemptView:
    return AttemptView(
        id=row.id or 0,
        incident_id=row.incident_id,
        server=row.server,
        proposal_id=row.proposal_id,
        kind=row.kind,
        rule=row.rule,
        fingerprint=row.fingerprint,
        fix=fix_out(row.fix),
        safety=row.safety,
        loses=tuple(row.loses),
        command=tuple(row.command),
        command_hash=row.command_hash,
        approved_by=row.approved_by,
        outcome=row.outcome,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def transition_view(row: TransitionRow) -> TransitionView:
    return TransitionView(
        id=row.id or 0,
        at=row.at,
        server=row.server,
        incident_id=row.incident_id,
        launch_id=row.launch_id,
        kind=row.kind,
        text=row.text,
    )


def open_proposal(session: Session, incident_id: int) -> ProposalRow | None:
    """What a person may decide on now."""
    return session.exec(
        select(ProposalRow).where(ProposalRow.incident_id == incident_id, ProposalRow.status == ProposalStatus.PROPOSED)
    ).first()


def incident_view(session: Session, row: IncidentRow) -> IncidentView:
    """The incident without its launches, attempts and timeline."""
    proposal = open_proposal(session, row.id or 0)
    return IncidentView(
        id=row.id or 0,
        server=row.server,
        status=row.status,
        category=row.category,
        title=row.title,
        fingerprint=row.fingerprint,
        opened_at=row.opened_at,
        updated_at=row.updated_at,
        resolved_at=row.resolved_at,
        regressed=row.regressed,
        acknowledged=row.acknowledged,
        muted_until=row.muted_until,
        proposal=proposal_view(proposal) if proposal else None,
    )
