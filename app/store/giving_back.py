"""What a server runs without since a fix that cost something held, and the way back from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlmodel import col, select

from app.core.command import Command
from app.core.errors import CommandError
from app.core.model import Fix
from app.store.database import Database
from app.store.encode import fix_out
from app.store.models import AttemptRow, IncidentRow
from app.store.rows import note, server_row
from app.store.words import AttemptKind, AttemptOutcome


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing that a server runs without; `acknowledged`: a person said that they know."""

    what: str
    incident_id: int
    since: datetime
    acknowledged: bool


class GivingBack(Database):
    """The calls about what degrading fixes cost."""

    def missing(self, server: str) -> tuple[Missing, ...]:
        """What the fixes that are in the server's present command have cost, oldest first, each once."""
        with self.read() as session:
            row = server_row(session, server)
            rows = session.exec(
                select(AttemptRow, IncidentRow)
                .join(IncidentRow, col(IncidentRow.id) == col(AttemptRow.incident_id))
                .where(AttemptRow.server == server, AttemptRow.kind == AttemptKind.RELAUNCH)
                .where(col(AttemptRow.outcome).in_((AttemptOutcome.HELD, AttemptOutcome.FAILED)))
                .order_by(col(AttemptRow.id))
            ).all()
            command = tuple(row.last_good_command or ())
            found: dict[str, Missing] = {}
            for attempt, incident in rows:
                fix = fix_out(attempt.fix)
                if attempt.loses and fix is not None and _is_in(fix, command):
                    for what in attempt.loses:
                        at = attempt.started_at
                        found[what] = Missing(what, incident.id or 0, at, incident.acknowledged)
        return tuple(found.values())

    def give_back(self, server: str, by: str) -> None:
        """Forgets which changes made it work the last time: its next start is with the configured command."""
        with self.write() as session:
            row = server_row(session, server)
            row.last_good_command = None
            session.add(row)
            note(session, server, "given-back", f"{by} wants the configured command back")


def _is_in(fix: Fix, command: Sequence[str]) -> bool:
    """Whether a command has a fix in it: applying it once more changes nothing."""
    try:
        return bool(command) and Command.parse(command).apply(fix).words() == tuple(command)
    except CommandError:
        return False
