"""How many of what the store holds: for metrics and the head of the pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlmodel import col, func, select

from app.store.database import Database
from app.store.models import AlertRow, AttemptRow, IncidentRow, TransitionRow


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers by status; `transitions` counts all ever written."""

    incidents: Mapping[str, int]
    attempts: Mapping[tuple[str, str], int]
    alerts: Mapping[str, int]
    transitions: int


class Counting(Database):
    """The call about numbers."""

    def counts(self) -> Counts:
        """All of them, at one moment."""
        with self.read() as session:
            incidents = session.exec(select(IncidentRow.status, func.count()).group_by(col(IncidentRow.status))).all()
            attempts = session.exec(
                select(AttemptRow.kind, AttemptRow.outcome, func.count()).group_by(
                    col(AttemptRow.kind), col(AttemptRow.outcome)
                )
            ).all()
            alerts = session.exec(select(AlertRow.status, func.count()).group_by(col(AlertRow.status))).all()
            newest = session.exec(select(func.max(TransitionRow.id))).one()
            return Counts(
                {str(status): number for status, number in incidents},
                {(str(kind), str(outcome)): number for kind, outcome, number in attempts},
                {str(status): number for status, number in alerts},
                newest or 0,
            )
