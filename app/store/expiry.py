"""Forgetting what is old: whole incidents, one short transaction each, and never the last one of its kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

from sqlalchemy import delete, exists, func, update
from sqlmodel import Session, col, select

from app.core.vocabulary import IncidentStatus
from app.store.database import Database, translated
from app.store.models import (
    AlertRow,
    AttemptRow,
    DecisionRow,
    DiagnosisRow,
    IncidentRow,
    LaunchRow,
    PositionRow,
    ProposalRow,
    ServerRow,
    TransitionRow,
)

_BATCH = 500
_WORTH_SHRINKING = 64 * 2**20  # bytes of free pages
_PATIENCE = 30.0  # seconds that shrinking waits for others who write


class Expiry(Database):
    """The calls about what is not kept any longer."""

    def forgettable(self, before: datetime | None = None) -> tuple[int, ...]:
        """Resolved incidents that were last touched before a time (all, without one), oldest first.

        The newest incident of each fingerprint stays, however old: it is the memory of a rare failure. So does one
        that a server's newest launch belongs to.
        """
        newest = select(func.max(IncidentRow.id)).group_by(col(IncidentRow.fingerprint))
        current = select(LaunchRow.incident_id).join(ServerRow, col(ServerRow.launch_id) == col(LaunchRow.id))
        query = (
            select(IncidentRow.id)
            .where(
                IncidentRow.status == IncidentStatus.RESOLVED,
                col(IncidentRow.id).not_in(newest),
                col(IncidentRow.id).not_in(current.where(col(LaunchRow.incident_id).is_not(None))),
            )
            .order_by(col(IncidentRow.updated_at), col(IncidentRow.id))
        )
        if before is not None:
            query = query.where(IncidentRow.updated_at < before)
        with self.read() as session:
            return tuple(one for one in session.exec(query).all() if one is not None)

    def forget(self, incident_id: int) -> bool:
        """Removes a resolved incident with all that belongs to it; False when it was opened again meanwhile.

        The audit trail keeps what people and the machine decided.
        """
        with self.write() as session:
            row = session.get(IncidentRow, incident_id)
            if row is None or row.status is not IncidentStatus.RESOLVED:
                return False
            _forget(session, incident_id)
            return True

    def forget_history(self, before: datetime) -> int:
        """Removes what healthy launches left behind before a time; how many rows that were, 0 at the end."""
        used = [
            exists().where(col(TransitionRow.launch_id) == col(LaunchRow.id)),
            exists().where(col(PositionRow.launch_id) == col(LaunchRow.id)),
            exists().where(col(ServerRow.launch_id) == col(LaunchRow.id)),
        ]
        with self.write() as session:
            old = session.exec(
                select(TransitionRow.id)
                .where(col(TransitionRow.incident_id).is_(None), TransitionRow.at < before)
                .limit(_BATCH)
            ).all()
            told = update(AlertRow).where(col(AlertRow.transition_id).in_(old)).values(transition_id=None)
            session.exec(told)
            session.exec(delete(TransitionRow).where(col(TransitionRow.id).in_(old)))
            launches = session.exec(
                select(LaunchRow.id)
                .where(col(LaunchRow.incident_id).is_(None), LaunchRow.started_at < before, *(~one for one in used))
                .limit(_BATCH)
            ).all()
            session.exec(delete(DiagnosisRow).where(col(DiagnosisRow.launch_id).in_(launches)))
            session.exec(delete(LaunchRow).where(col(LaunchRow.id).in_(launches)))
            return len(old) + len(launches)

    def orphans(self) -> tuple[Path, ...]:
        """Evidence folders whose incident is gone."""
        folder = self.state / "incidents"
        found = [path for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
        with self.read() as session:
            known = set(session.exec(select(IncidentRow.id)).all())
        return tuple(path for path in found if int(path.name) not in known)

    def free(self) -> int:
        """Bytes in the database file that hold nothing: `shrink` gives them back."""
        with self.read() as session:
            pages: int = session.connection().exec_driver_sql("PRAGMA freelist_count").scalar_one()
            size: int = session.connection().exec_driver_sql("PRAGMA page_size").scalar_one()
            return pages * size

    def shrink(self) -> bool:
        """Gives room in the database file back to the disk, where that is worth the work."""
        if self.free() < _WORTH_SHRINKING:
            return False
        path = self.state / "crashcart.db"
        # A connection of its own: on the engine's, a BEGIN goes before everything, and VACUUM can't follow one.
        with translated(path), closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as raw:
            raw.execute("VACUUM")
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return True


def _forget(session: Session, incident_id: int) -> None:
    launches = _ids(session, LaunchRow, incident_id)
    attempts = _ids(session, AttemptRow, incident_id)
    session.exec(delete(AlertRow).where(col(AlertRow.incident_id) == incident_id))
    session.exec(
        delete(TransitionRow).where(
            (col(TransitionRow.incident_id) == incident_id) | col(TransitionRow.launch_id).in_(launches)
        )
    )
    session.exec(
        delete(DiagnosisRow).where(
            (col(DiagnosisRow.incident_id) == incident_id) | col(DiagnosisRow.launch_id).in_(launches)
        )
    )
    session.exec(delete(DecisionRow).where(col(DecisionRow.incident_id) == incident_id))
    session.exec(update(PositionRow).where(col(PositionRow.launch_id).in_(launches)).values(launch_id=None))
    session.exec(delete(LaunchRow).where(col(LaunchRow.id).in_(launches)))
    # The launch that held belongs to no incident: it stays, without the attempt that started it.
    session.exec(update(LaunchRow).where(col(LaunchRow.attempt_id).in_(attempts)).values(attempt_id=None))
    session.exec(delete(AttemptRow).where(col(AttemptRow.id).in_(attempts)))
    session.exec(delete(ProposalRow).where(col(ProposalRow.incident_id) == incident_id))
    session.exec(delete(IncidentRow).where(col(IncidentRow.id) == incident_id))


def _ids(session: Session, table: type[LaunchRow] | type[AttemptRow], incident_id: int) -> Sequence[int | None]:
    return session.exec(select(table.id).where(table.incident_id == incident_id)).all()
