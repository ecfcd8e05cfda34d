"""Answers that were given under an idempotency key: the same question twice leads to one incident."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete
from sqlmodel import col

from app.store.database import Database
from app.store.models import IngestRow, now


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What was answered, and the hash of the body that it answered."""

    body_hash: str
    status_code: int
    response: Mapping[str, Any]


class Answers(Database):
    """The calls about idempotency keys."""

    def kept_answer(self, key: str) -> KeptAnswer | None:
        """What was answered under this key."""
        with self.read() as session:
            row = session.get(IngestRow, key)
            return None if row is None else KeptAnswer(row.body_hash, row.status_code, row.response)

    def keep_answer(self, key: str, body_hash: str, status_code: int, response: Mapping[str, Any]) -> KeptAnswer:
        """Keeps an answer; the first one stays. Returns the one that counts."""
        with self.write() as session:
            row = session.get(IngestRow, key)
            if row is None:
                row = IngestRow(
                    key=key, body_hash=body_hash, status_code=status_code, response=dict(response), at=now()
                )
                session.add(row)
            return KeptAnswer(row.body_hash, row.status_code, row.response)

    def forget_answers(self, before: datetime) -> int:
        """Drops keys that nobody will use again."""
        with self.write() as session:
            return session.execute(delete(IngestRow).where(col(IngestRow.at) < before)).rowcount  # type: ignore[attr-defined,no-any-return]
