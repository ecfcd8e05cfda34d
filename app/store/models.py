"""The tables. Rows never leave the store: its calls return the views of `app.store.views`.

Times are UTC. Words of the vocabulary are stored as they are written everywhere else. Commands are stored redacted,
with a keyed hash of the true words beside them, so that two commands can be told apart without their secrets.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from sqlalchemy import JSON, Column, DateTime, ForeignKey, Index, Integer, String, Text, text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel

from app.core.vocabulary import Action, Category, Engine, IncidentStatus, Mode, Outcome, Phase, Safety, ServerState
from app.store.words import AlertStatus, AttemptKind, AttemptOutcome, Decision, ProposalStatus, Wish

E = TypeVar("E", bound=StrEnum)


def now() -> datetime:
    """The present, in UTC."""
    return datetime.now(UTC)


class Utc(TypeDecorator[datetime]):
    """A point in time. SQLite keeps no zone, so all are stored as UTC and come back with it."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


class Word(TypeDecorator[E], Generic[E]):
    """A word of an enumeration, stored as its text."""

    impl = String
    cache_ok = True

    def __init__(self, words: type[E]) -> None:
        super().__init__(32)
        self.words = words

    def process_bind_param(self, value: E | None, dialect: Dialect) -> str | None:
        return None if value is None else self.words(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> E | None:
        return None if value is None else self.words(value)


def _word(words: type[StrEnum], *, null: bool = False, index: bool = False) -> Any:
    return Field(default=None, sa_column=Column(Word(words), nullable=null, index=index))


def _time(*, null: bool = False) -> Any:
    return Field(default=None if null else ..., sa_column=Column(Utc(), nullable=null))


def _json(*, null: bool = False) -> Any:
    return Field(default=None, sa_column=Column(JSON(none_as_null=True), nullable=null))


def _text(*, null: bool = False) -> Any:
    return Field(default=None if null else "", sa_column=Column(Text(), nullable=null))


def _link(target: str, *, null: bool = False, unique: bool = False) -> Any:
    column = Column(Integer, ForeignKey(target), nullable=null, unique=unique, index=True)
    return Field(default=None, sa_column=column)


def _server() -> Any:
    return Field(sa_column=Column(String, ForeignKey("server.name"), nullable=False, index=True))


class ServerRow(SQLModel, table=True):
    """A named inference server and what is known about it now."""

    __tablename__ = "server"

    name: str = Field(primary_key=True)
    engine: Engine | None = _word(Engine, null=True)
    mode: Mode | None = _word(Mode, null=True)
    state: ServerState = _word(ServerState)
    evidence: str = _text()
    progress: dict[str, Any] | None = _json(null=True)
    since: datetime = _time()
    updated_at: datetime = _time()
    decision: Decision = _word(Decision)
    launch_id: int | None = Field(default=None, sa_column=Column(Integer, nullable=True))  # the newest
    command: list[str] = _json()
    last_good_command: list[str] | None = _json(null=True)
    health_url: str | None = None
    # Who acts for it: pid and start mark, so that a reused pid is not taken for it.
    supervisor_pid: int | None = None
    supervisor_mark: str | None = None
    supervisor_since: datetime | None = _time(null=True)


class IncidentRow(SQLModel, table=True):
    """One failure episode of a server."""

    __tablename__ = "incident"
    __table_args__ = (
        Index("ix_incident_episode", "server", "status", "updated_at"),
        {"sqlite_autoincrement": True},  # an id that people have written down is never given again
    )

    id: int | None = Field(default=None, primary_key=True)
    server: str = _server()
    status: IncidentStatus = _word(IncidentStatus, index=True)
    category: Category = _word(Category)
    title: str = _text()
    fingerprint: str = Field(index=True)
    opened_at: datetime = _time()
    updated_at: datetime = _time()
    resolved_at: datetime | None = _time(null=True)
    regressed: bool = False
    acknowledged: bool = False
    muted_until: datetime | None = _time(null=True)
    note: str | None = _text(null=True)


class AttemptRow(SQLModel, table=True):
    """A relaunch or restart. It is written before a process is touched, so that no death of ours hides it."""

    __tablename__ = "attempt"
    __table_args__ = (
        # Never the same changed command twice in an incident. An interrupted one may be done again: by a person.
        Index(
            "ux_attempt_command",
            "incident_id",
            "command_hash",
            unique=True,
            sqlite_where=text("kind = 'relaunch' AND outcome != 'interrupted'"),
        ),
        Index("ix_attempt_record", "rule", "fingerprint"),
        {"sqlite_autoincrement": True},
    )

    id: int | None = Field(default=None, primary_key=True)
    incident_id: int = _link("incident.id")
    server: str = _server()
    proposal_id: int | None = _link("proposal.id", null=True)
    kind: AttemptKind = _word(AttemptKind)
    rule: str = ""
    fingerprint: str = ""
    fix: dict[str, Any] | None = _json(null=True)
    safety: Safety | None = _word(Safety, null=True)
    loses: list[str] = _json()
    command: list[str] = _json()
    command_hash: str = ""
    approved_by: str | None = None
    outcome: AttemptOutcome = _word(AttemptOutcome)
    started_at: datetime = _time()
    ended_at: datetime | None = _time(null=True)
    supervisor_pid: int = 0
    supervisor_mark: str | None = None


class LaunchRow(SQLModel, table=True):
    """One run of a server's process; `ran` is false where the pre-flight check stopped it."""

    __tablename__ = "launch"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: int | None = Field(default=None, primary_key=True)
    server: str = _server()
    incident_id: int | None = _link("incident.id", null=True)
    attempt_id: int | None = _link("attempt.id", null=True, unique=True)
    engine: Engine | None = _word(Engine, null=True)
    command: list[str] = _json()
    command_hash: str = ""
    ran: bool = True
    pid: int | None = None
    pgid: int | None = None
    pid_mark: str | None = None
    log_path: str | None = None
    started_at: datetime = _time()
    ended_at: datetime | None = _time(null=True)
    phase: Phase = _word(Phase)
    percent: float | None = None
    exit_code: int | None = None
    exit_signal: str | None = None
    asked: bool = False  # a person asked for its end


class DiagnosisRow(SQLModel, table=True):
    """What was found out about a launch: `data` is the whole of it, the columns are for finding."""

    __tablename__ = "diagnosis"

    id: int | None = Field(default=None, primary_key=True)
    launch_id: int = _link("launch.id", unique=True)
    incident_id: int | None = _link("incident.id", null=True)
    at: datetime = _time()
    outcome: Outcome = _word(Outcome)
    category: Category = _word(Category, index=True)
    fingerprint: str | None = None
    data: dict[str, Any] = _json()


class ProposalRow(SQLModel, table=True):
    """A fix that a person may approve."""

    __tablename__ = "proposal"
    __table_args__ = (
        Index("ux_proposal_open", "incident_id", unique=True, sqlite_where=text("status = 'proposed'")),
        {"sqlite_autoincrement": True},
    )

    id: int | None = Field(default=None, primary_key=True)
    incident_id: int = _link("incident.id")
    launch_id: int | None = None  # no foreign key: launch → attempt → proposal, and a circle has no order of creation
    rule: str = ""
    title: str = _text()
    action: Action = _word(Action)
    fix: dict[str, Any] | None = _json(null=True)
    safety: Safety = _word(Safety)
    loses: list[str] = _json()
    guards: list[str] = _json()
    command: list[str] = _json()
    command_hash: str = ""
    status: ProposalStatus = _word(ProposalStatus)
    proposed_at: datetime = _time()


class DecisionRow(SQLModel, table=True):
    """A person's wish on a proposal. `claimed_at` is set by the one process that carries it out."""

    __tablename__ = "decision"

    id: int | None = Field(default=None, primary_key=True)
    proposal_id: int = _link("proposal.id", unique=True)
    incident_id: int = _link("incident.id")
    server: str = _server()
    wish: Wish = _word(Wish)
    by: str = ""
    at: datetime = _time()
    claimed_at: datetime | None = _time(null=True)


class TransitionRow(SQLModel, table=True):
    """One change of a server's or incident's state: the timeline, the acting loop's queue and the live stream."""

    __tablename__ = "transition"
    __table_args__ = (
        Index("ux_transition_death", "launch_id", unique=True, sqlite_where=text("kind = 'died'")),
        Index(
            "ix_transition_queue",
            "server",
            "id",
            sqlite_where=text("claimed_at IS NULL AND kind = 'died'"),
        ),
        {"sqlite_autoincrement": True},
    )

    id: int | None = Field(default=None, primary_key=True)
    at: datetime = _time()
    server: str = _server()
    incident_id: int | None = _link("incident.id", null=True)
    launch_id: int | None = Field(default=None, sa_column=Column(Integer, ForeignKey("launch.id"), nullable=True))
    kind: str = ""
    text: str = _text()
    claimed_at: datetime | None = _time(null=True)


class AuditRow(SQLModel, table=True):
    """Who did what. A trigger refuses to change or delete a row."""

    __tablename__ = "audit"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: int | None = Field(default=None, primary_key=True)
    at: datetime = _time()
    actor: str = ""
    action: str = ""
    server: str | None = None
    incident_id: int | None = None
    text: str = _text()


class PositionRow(SQLModel, table=True):
    """How far a followed file was read, and all that is needed to go on there as if nothing had happened.

    What lies before `offset` was judged and what it led to is stored. From `anchor` (the line that the open context
    began with) the file is read again after a restart, silently, to know again what led up to `offset`.
    `head` is a hash of the file's first `head_length` bytes: an inode or a name alone may be another file by now.
    """

    __tablename__ = "position"
    __table_args__ = (Index("ux_position_file", "server", "path", "device", "inode", unique=True),)

    id: int | None = Field(default=None, primary_key=True)
    server: str = _server()
    path: str = ""
    device: int = 0
    inode: int = 0
    offset: int = 0
    anchor: int = 0
    head_length: int = 0
    head: str = Field(default="", sa_column=Column(String(64), nullable=False))
    launch_id: int | None = Field(default=None, sa_column=Column(Integer, ForeignKey("launch.id"), nullable=True))
    context: dict[str, Any] = _json()
    updated_at: datetime = _time()


class AlertRow(SQLModel, table=True):
    """A message that must reach people. Those of one incident go out in the order of their ids."""

    __tablename__ = "alert"
    __table_args__ = (
        Index("ix_alert_queue", "status", "next_at"),
        Index("ux_alert_transition", "transition_id", "kind", unique=True),  # each change is told once
        {"sqlite_autoincrement": True},
    )

    id: int | None = Field(default=None, primary_key=True)
    incident_id: int = _link("incident.id")
    transition_id: int | None = None  # no foreign key: the history may be pruned before
    kind: str = ""
    facts: dict[str, Any] = _json()
    status: AlertStatus = _word(AlertStatus)
    attempts: int = 0
    next_at: datetime = _time()
    created_at: datetime = _time()
    updated_at: datetime = _time()
    error: str | None = _text(null=True)


class IngestRow(SQLModel, table=True):
    """An answer that was given under an idempotency key."""

    __tablename__ = "ingest"

    key: str = Field(primary_key=True)
    body_hash: str = Field(sa_column=Column(String(64), nullable=False))
    status_code: int = 0
    response: dict[str, Any] = _json()
    at: datetime = Field(sa_column=Column(Utc(), nullable=False, index=True))
