"""What others tell about servers, and what people write on incidents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlmodel import Session, col, select

from app.core.model import Diagnosis, Exit
from app.core.vocabulary import IncidentStatus, ServerState
from app.store.database import Database
from app.store.encode import text_in, words_in
from app.store.episodes import REGRESSION, join_or_open
from app.store.launches import keep_diagnosis
from app.store.locks import checked_name
from app.store.models import IncidentRow, LaunchRow, ServerRow, TransitionRow, now
from app.store.rows import audit, incident_row, note, transition_view
from app.store.views import TransitionView
from app.store.words import Decision, TransitionKind

# Reported commands are never run: their hash only has to differ from those that are.
_REPORTED = "reported"


@dataclass(frozen=True, slots=True)
class Told:
    """A failure that somebody sent in."""

    server: str
    diagnosis: Diagnosis
    command: Sequence[str] = ()
    exit: Exit = Exit()  # noqa: RUF009 - a frozen value
    by: str = "ingest"
    at: datetime | None = None


class Reports(Database):
    """The calls about what others tell."""

    def tell(self, told: Told) -> tuple[int, bool]:
        """Opens or joins the incident of a failure, in one transaction; returns its id and whether it is new.

        Joined is the server's open episode, else an unresolved one of the same fingerprint that changed just now.
        Its status stays: what is being done about it is not told by a log.
        """
        with self.write() as session:
            server = _server(session, told)
            launch = _launch(session, server, told)
            known = _open(session, told)
            status = known.status if known is not None else None
            launch.incident_id = known.id if known is not None else None
            before = session.exec(select(IncidentRow.id).order_by(col(IncidentRow.id).desc())).first() or 0
            incident = join_or_open(session, launch, told.diagnosis)
            incident.status = status or incident.status
            keep_diagnosis(session, launch, told.diagnosis)
            of = "" if incident.server == told.server else f" of {told.server}"
            text = f"reported by {told.by}{of}: {incident.title}"
            note(session, told.server, TransitionKind.REPORTED, text, incident_id=incident.id, launch_id=launch.id)
            return incident.id or 0, (incident.id or 0) > before

    def amend(
        self,
        incident_id: int,
        by: str,
        *,
        acknowledged: bool | None = None,
        muted_until: datetime | None = None,
        unmute: bool = False,
        text: str | None = None,
    ) -> None:
        """Writes down what a person says of an incident."""
        with self.write() as session:
            row = incident_row(session, incident_id)
            said = []
            if acknowledged is not None:
                row.acknowledged = acknowledged
                said.append("acknowledged" if acknowledged else "no longer acknowledged")
            if muted_until is not None or unmute:
                row.muted_until = muted_until
                said.append("muted" if muted_until else "no longer muted")
            if text:
                row.note = text_in(text)
                said.append(text)
            row.updated_at = now()
            session.add(row)
            for line in said:
                note(session, row.server, TransitionKind.NOTE, f"{by}: {line}", incident_id=row.id)
                audit(session, by, "amend", row, line)

    def transitions(self, after: int, limit: int = 200) -> tuple[TransitionView, ...]:
        """The history from there on, oldest first."""
        with self.read() as session:
            rows = session.exec(
                select(TransitionRow).where(col(TransitionRow.id) > after).order_by(col(TransitionRow.id)).limit(limit)
            ).all()
            return tuple(transition_view(row) for row in rows)


def _server(session: Session, told: Told) -> ServerRow:
    row = session.get(ServerRow, checked_name(told.server))
    if row is None:
        at = told.at or now()
        row = ServerRow(
            name=told.server,
            engine=told.diagnosis.engine,
            state=ServerState.EXITED,
            evidence=text_in(f"reported by {told.by}; nobody here follows it"),
            since=at,
            updated_at=now(),
            decision=Decision.NONE,
            command=words_in(told.command),
        )
        session.add(row)
        session.flush()
    return row


def _launch(session: Session, server: ServerRow, told: Told) -> LaunchRow:
    engine = told.diagnosis.engine or server.engine
    at = told.at or now()
    command = tuple(told.command) or tuple(told.diagnosis.command or ())
    row = LaunchRow(
        server=server.name,
        engine=engine,
        command=words_in(command),
        command_hash=_REPORTED,
        ran=True,
        started_at=at,
        ended_at=at,
        phase=told.diagnosis.phase,
        percent=told.diagnosis.progress.percent,
        exit_code=told.exit.code,
        exit_signal=told.exit.signal,
    )
    session.add(row)
    session.flush()
    return row


def _open(session: Session, told: Told) -> IncidentRow | None:
    unresolved = select(IncidentRow).where(IncidentRow.status != IncidentStatus.RESOLVED)
    newest = col(IncidentRow.id).desc()
    own = session.exec(unresolved.where(IncidentRow.server == told.server).order_by(newest)).first()
    if own is not None or told.diagnosis.fingerprint is None:
        return own
    return session.exec(
        unresolved.where(
            IncidentRow.fingerprint == told.diagnosis.fingerprint,
            col(IncidentRow.updated_at) >= now() - REGRESSION,
        ).order_by(newest)
    ).first()
