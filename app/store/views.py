"""What the store's calls return: plain values, the objects of the HTTP and CLI contracts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from app.core.model import Diagnosis, Exit, Fix, Progress
from app.core.vocabulary import Action, Category, Engine, IncidentStatus, Mode, Phase, Safety, ServerState
from app.store.words import AttemptKind, AttemptOutcome, Decision, ProposalStatus, Wish


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """A process, told apart from a later one with the same pid by its start mark."""

    pid: int
    mark: str | None = None


@dataclass(frozen=True, slots=True)
class ServerView:
    """A server as last written; `process` is set while its newest launch has not ended."""

    name: str
    engine: Engine | None
    mode: Mode | None
    state: ServerState
    evidence: str
    progress: Progress | None
    since: datetime
    decision: Decision
    launch_id: int | None
    process: ProcessRef | None
    command: tuple[str, ...]
    last_good_command: tuple[str, ...] | None
    health_url: str | None
    log_path: Path | None
    supervisor: ProcessRef | None
    supervisor_since: datetime | None
    watched: bool = False  # others start it, and its log is followed

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None


@dataclass(frozen=True, slots=True)
class LaunchView:
    id: int
    server: str
    incident_id: int | None
    attempt_id: int | None
    engine: Engine | None
    command: tuple[str, ...]
    command_hash: str
    ran: bool
    process: ProcessRef | None
    pgid: int | None
    log_path: Path | None
    started_at: datetime
    ended_at: datetime | None
    phase: Phase
    percent: float | None
    exit: Exit
    asked: bool
    diagnosis: Diagnosis | None


@dataclass(frozen=True, slots=True)
class ProposalView:
    """A proposed fix; `fix` is None for a restart of the same command."""

    id: int
    incident_id: int
    launch_id: int | None
    rule: str
    title: str
    action: Action
    fix: Fix | None
    safety: Safety
    loses: tuple[str, ...]
    guards: tuple[str, ...]
    command: tuple[str, ...]
    command_hash: str
    status: ProposalStatus
    proposed_at: datetime


@dataclass(frozen=True, slots=True)
class DecisionView:
    """A person's wish with the proposal that it is about."""

    id: int
    wish: Wish
    by: str
    at: datetime
    proposal: ProposalView


@dataclass(frozen=True, slots=True)
class AttemptView:
    id: int
    incident_id: int
    server: str
    proposal_id: int | None
    kind: AttemptKind
    rule: str
    fingerprint: str
    fix: Fix | None
    safety: Safety | None
    loses: tuple[str, ...]
    command: tuple[str, ...]
    command_hash: str
    approved_by: str | None
    outcome: AttemptOutcome
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class TransitionView:
    id: int
    at: datetime
    server: str
    incident_id: int | None
    launch_id: int | None
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class IncidentView:
    """An incident; `launches`, `attempts` and `timeline` are empty in lists."""

    id: int
    server: str
    status: IncidentStatus
    category: Category
    title: str
    fingerprint: str
    opened_at: datetime
    updated_at: datetime
    resolved_at: datetime | None
    regressed: bool
    acknowledged: bool
    muted_until: datetime | None
    proposal: ProposalView | None = None
    launches: tuple[LaunchView, ...] = ()
    attempts: tuple[AttemptView, ...] = ()
    timeline: tuple[TransitionView, ...] = ()


@dataclass(frozen=True, slots=True)
class FixRecord:
    """How often a rule's fix held and failed for one fingerprint."""

    held: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a Crashcart that ended in the middle left behind for a server.

    `interrupted`: attempts that had begun; they are marked so now and must not be done again without a person.
    `unfinished`: launches whose end nobody wrote down, the newest first.
    """

    interrupted: tuple[AttemptView, ...] = ()
    unfinished: tuple[LaunchView, ...] = ()
