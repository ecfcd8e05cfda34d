"""What a person wants done with a whole server: written here by the web, carried out by who supervises it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlmodel import col, select
from sqlmodel.sql.expression import SelectOfScalar

from app.core.errors import StaleError
from app.store.database import Database
from app.store.encode import text_in
from app.store.models import AuditRow, TransitionRow, now
from app.store.processes import alive, this_process
from app.store.rows import note, server_row
from app.store.views import ProcessRef


class ServerWish(StrEnum):
    """What may be wished."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"
    RESTORE = "restore"  # the configured command again, without what fixes have changed


@dataclass(frozen=True, slots=True)
class WishView:
    """One wish; `id` orders them."""

    id: int
    wish: ServerWish


_KIND = "wish-"
_KINDS = {f"{_KIND}{wish}": wish for wish in ServerWish}


class Wishes(Database):
    """The calls about wishes."""

    def wish(self, server: str, wish: ServerWish, by: str) -> int:
        """Writes down a wish, and who had it. StaleError when this service does not supervise the server."""
        with self.write() as session:
            row = server_row(session, server)
            acting = ProcessRef(row.supervisor_pid, row.supervisor_mark) if row.supervisor_pid else None
            if not alive(acting):
                raise StaleError(
                    f"No Crashcart supervises {server}: nobody would {wish} it.",
                    mend="Give it a `command` in crashcart.yaml, and run `crashcart serve`.",
                )
            if acting != this_process():
                pid = row.supervisor_pid
                raise StaleError(
                    f"{server} is supervised by `crashcart run` (pid {pid}), which takes no such wishes.",
                    mend=f"Press Ctrl-C there (or: kill -INT {pid}) to stop it, and start it again there.",
                )
            text = f"{by} wishes: {wish}"
            session.add(AuditRow(at=now(), actor=by, action=wish, server=server, text=text_in(text)))
            entry = note(session, server, f"{_KIND}{wish}", text, launch_id=row.launch_id)
            session.flush()
            return entry.id or 0

    def claim_wish(self, server: str, after: int = 0) -> WishView | None:
        """The newest wish that was not carried out; older ones are overtaken by it, and count as claimed too."""
        with self.read() as session:
            waiting = session.exec(_open(server, after)).first() is not None
        if not waiting:
            return None
        with self.write() as session:
            rows = session.exec(_open(server, after)).all()
            for row in rows:
                row.claimed_at = now()
                session.add(row)
            return WishView(rows[-1].id or 0, _KINDS[rows[-1].kind]) if rows else None

    def last_wish(self, server: str) -> ServerWish | None:
        """What was wished last, carried out or not."""
        with self.read() as session:
            kind = session.exec(
                select(TransitionRow.kind)
                .where(TransitionRow.server == server, col(TransitionRow.kind).in_(_KINDS))
                .order_by(col(TransitionRow.id).desc())
            ).first()
            return None if kind is None else _KINDS[kind]

    def newest_transition(self) -> int:
        """The id of the newest line of the history; 0 when there is none."""
        with self.read() as session:
            return session.exec(select(TransitionRow.id).order_by(col(TransitionRow.id).desc())).first() or 0


def _open(server: str, after: int) -> SelectOfScalar[TransitionRow]:
    return (
        select(TransitionRow)
        .where(
            col(TransitionRow.id) > after,
            TransitionRow.server == server,
            col(TransitionRow.kind).in_(_KINDS),
            col(TransitionRow.claimed_at).is_(None),
        )
        .order_by(col(TransitionRow.id))
    )
