"""The outbox: messages wait here until they have reached people, across restarts, in order for each incident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import aliased
from sqlmodel import Session, col, select

from app.core.errors import NotFoundError
from app.store.database import Database
from app.store.encode import text_in
from app.store.models import AlertRow, TransitionRow, now
from app.store.rows import transition_view
from app.store.views import TransitionView
from app.store.words import AlertStatus

_UNDER_WAY = (AlertStatus.PENDING, AlertStatus.SENDING)


@dataclass(frozen=True, slots=True)
class AlertView:
    """A message; `attempts` counts the posts that were begun, the present one included."""

    id: int
    incident_id: int
    transition_id: int | None
    kind: str
    facts: Mapping[str, Any]
    status: AlertStatus
    attempts: int
    next_at: datetime
    created_at: datetime
    updated_at: datetime
    error: str | None


class Outbox(Database):
    """The calls about messages."""

    def queue_alert(
        self,
        incident_id: int,
        kind: str,
        facts: Mapping[str, Any],
        *,
        transition_id: int | None = None,
        delay: float = 0.0,
    ) -> int | None:
        """Puts a message into the outbox. `facts` must be redacted. None when that change was told before."""
        with self.write() as session:
            if transition_id is not None:
                told = select(AlertRow.id).where(AlertRow.transition_id == transition_id, AlertRow.kind == kind)
                if session.exec(told).first() is not None:
                    return None
            at = now()
            row = AlertRow(incident_id=incident_id, transition_id=transition_id, kind=kind, facts=dict(facts))
            row.status, row.created_at, row.updated_at = AlertStatus.PENDING, at, at
            row.next_at = at + timedelta(seconds=delay)
            session.add(row)
            session.flush()
            return row.id

    def claim_alert(self) -> AlertView | None:
        """The next message that is due, marked as being sent. One waits while an earlier one of its incident does."""
        with self.write() as session:
            earlier = aliased(AlertRow)
            blocked = (
                select(earlier.id)
                .where(
                    earlier.incident_id == AlertRow.incident_id,
                    col(earlier.id) < col(AlertRow.id),
                    col(earlier.status).in_(_UNDER_WAY),
                )
                .exists()
            )
            row = session.exec(
                select(AlertRow)
                .where(AlertRow.status == AlertStatus.PENDING, col(AlertRow.next_at) <= now(), ~blocked)
                .order_by(col(AlertRow.id))
            ).first()
            if row is None:
                return None
            row.status, row.attempts, row.updated_at = AlertStatus.SENDING, row.attempts + 1, now()
            session.add(row)
            return _view(row)

    def alert_begun(self, alert_id: int, mark: str) -> None:
        """Its post begins now: from here on nobody knows, after a crash, whether it arrived."""
        self._set(alert_id, AlertStatus.SENDING, mark, None)

    def alert_sent(self, alert_id: int) -> None:
        """It has arrived."""
        self._set(alert_id, AlertStatus.SENT, None, None)

    def alert_failed(self, alert_id: int, error: str, retry_after: float | None) -> None:
        """It did not arrive: it goes out again after that many seconds, or, with None, never."""
        again = retry_after is not None
        self._set(alert_id, AlertStatus.PENDING if again else AlertStatus.FAILED, error, retry_after)

    def alerts_in_doubt(self) -> tuple[AlertView, ...]:
        """Messages whose sending was begun and never ended. To be asked at the start, by the only sender."""
        with self.read() as session:
            rows = session.exec(
                select(AlertRow).where(AlertRow.status == AlertStatus.SENDING).order_by(col(AlertRow.id))
            ).all()
            return tuple(map(_view, rows))

    def alerts(self, incident_id: int | None = None, limit: int = 200) -> tuple[AlertView, ...]:
        """Messages, oldest first: those of an incident, or the newest of all."""
        query = select(AlertRow).order_by(col(AlertRow.id).desc()).limit(limit)
        if incident_id is not None:
            query = query.where(AlertRow.incident_id == incident_id)
        with self.read() as session:
            return tuple(_view(row) for row in reversed(session.exec(query).all()))

    def undelivered(self, incident_id: int) -> tuple[str, ...]:
        """Why messages about an incident reached nobody, or may not have."""
        failed = (alert for alert in self.alerts(incident_id) if alert.status is AlertStatus.FAILED)
        return tuple(alert.error or "refused" for alert in failed)

    def last_alerted(self) -> int:
        """The id of the newest change that a message was made of; 0 for none."""
        with self.read() as session:
            newest = session.exec(
                select(AlertRow.transition_id)
                .where(col(AlertRow.transition_id).is_not(None))
                .order_by(col(AlertRow.transition_id).desc())
            ).first()
            return newest or 0

    def transitions_after(self, transition_id: int, limit: int = 500) -> tuple[TransitionView, ...]:
        """The history behind a place, oldest first: what streams and messages are made of."""
        with self.read() as session:
            rows = session.exec(
                select(TransitionRow)
                .where(col(TransitionRow.id) > transition_id)
                .order_by(col(TransitionRow.id))
                .limit(limit)
            ).all()
            return tuple(map(transition_view, rows))

    def _set(self, alert_id: int, status: AlertStatus, error: str | None, delay: float | None) -> None:
        with self.write() as session:
            row = _row(session, alert_id)
            row.status, row.updated_at = status, now()
            row.error = None if error is None else text_in(error)
            row.next_at = now() + timedelta(seconds=delay or 0.0)
            session.add(row)


def _row(session: Session, alert_id: int) -> AlertRow:
    row = session.get(AlertRow, alert_id)
    if row is None:
        raise NotFoundError(f"There is no alert {alert_id}.")
    return row


def _view(row: AlertRow) -> AlertView:
    return AlertView(
        id=row.id or 0,
        incident_id=row.incident_id,
        transition_id=row.transition_id,
        kind=row.kind,
        facts=row.facts,
        status=row.status,
        attempts=row.attempts,
        next_at=row.next_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        error=row.error,
    )
