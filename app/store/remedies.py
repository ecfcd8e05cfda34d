"""Proposals, people's decisions on them, and attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from sqlmodel import Session, col, select

from app.core.errors import AlreadyTriedError, NotFoundError, StaleError
from app.core.model import Fix
from app.core.vocabulary import Action, IncidentStatus, Safety
from app.store.database import Database
from app.store.encode import fix_in, text_in, words_in
from app.store.episodes import close_attempt, withdraw_proposals
from app.store.models import (
    AttemptRow,
    DecisionRow,
    IncidentRow,
    LaunchRow,
    ProposalRow,
    ServerRow,
    now,
)
from app.store.processes import alive, this_process
from app.store.rows import attempt_view, audit, incident_row, note, open_proposal, proposal_view
from app.store.views import AttemptView, DecisionView, FixRecord, ProcessRef, ProposalView
from app.store.words import AttemptKind, AttemptOutcome, Decision, ProposalStatus, TransitionKind, Wish


class Remedies(Database):
    """The calls about proposals, decisions and attempts."""

    def propose(
        self,
        incident_id: int,
        fix: Fix | None,
        command: Sequence[str],
        safety: Safety,
        guards: Sequence[str] = (),
        *,
        rule: str = "",
        title: str = "",
        loses: Sequence[str] = (),
        launch_id: int | None = None,
    ) -> int:
        """Asks a person for this fix (None: a restart of the same command) and returns its id.

        It takes the place of an earlier proposal; proposing the same after the same launch again changes nothing.
        """
        action = Action.RESTART if fix is None else Action.CHANGE
        with self.write() as session:
            incident = incident_row(session, incident_id)
            mark = self.key.hash(command)
            row = _same_proposal(session, incident_id, launch_id, mark, action)
            if row is not None:
                return row.id or 0
            withdraw_proposals(session, incident_id)
            row = ProposalRow(incident_id=incident_id, launch_id=launch_id, action=action, command_hash=mark)
            row.fix, row.safety = (None if fix is None else fix_in(fix)), safety
            row.command, row.rule, row.title = words_in(command), rule, text_in(title)
            row.guards, row.loses = [text_in(guard) for guard in guards], list(loses)
            row.status, row.proposed_at = ProposalStatus.PROPOSED, now()
            session.add(row)
            _enter(session, incident, IncidentStatus.PROPOSED, Decision.PROPOSAL)
            session.flush()
            text = f"proposed fix {row.id}: {row.title or action}"
            note(session, incident.server, TransitionKind.PROPOSED, text, incident_id=incident_id)
            return row.id or 0

    def decide(self, incident_id: int, fix_id: int | None, wish: Wish, by: str) -> ProposalView:
        """Writes down what a person wants done with the proposal; who acts for the server picks it up.

        `fix_id` None stands for the one that is proposed now. StaleError when nothing, or something else, is.
        """
        with self.write() as session:
            incident = incident_row(session, incident_id)
            row = open_proposal(session, incident_id)
            if row is None or fix_id not in (None, row.id):
                raise _stale(session, incident, fix_id, row)
            row.status = ProposalStatus.APPROVED if wish is Wish.APPROVE else ProposalStatus.REJECTED
            session.add(row)
            proposal_id = row.id or 0
            session.add(
                DecisionRow(
                    proposal_id=proposal_id, incident_id=incident_id, server=incident.server, wish=wish, by=by, at=now()
                )
            )
            text = f"fix {row.id} {row.status} by {by}"
            note(session, incident.server, TransitionKind.DECIDED, text, incident_id=incident_id)
            audit(session, by, wish, incident, text)
            if wish is Wish.REJECT:
                _enter(session, incident, IncidentStatus.OPEN, Decision.NONE)
            elif _somebody_acts(session, incident.server):
                _enter(session, incident, IncidentStatus.PROPOSED, Decision.PENDING)
            return proposal_view(row)

    def claim_decision(self, server: str) -> DecisionView | None:
        """The oldest wish for this server that nobody carries out yet. Of several who ask, one gets it."""
        with self.write() as session:
            found = session.exec(
                select(DecisionRow, ProposalRow)
                .join(ProposalRow, col(ProposalRow.id) == col(DecisionRow.proposal_id))
                .where(
                    DecisionRow.server == server,
                    col(DecisionRow.claimed_at).is_(None),
                    col(ProposalRow.status).in_((ProposalStatus.APPROVED, ProposalStatus.REJECTED)),
                )
                .order_by(col(DecisionRow.id))
            ).first()
            if found is None:
                return None
            row, proposal = found
            row.claimed_at = now()
            session.add(row)
            return DecisionView(row.id or 0, row.wish, row.by, row.at, proposal_view(proposal))

    def proposal(self, fix_id: int) -> ProposalView:
        """One proposal, whatever became of it."""
        with self.read() as session:
            row = session.get(ProposalRow, fix_id)
            if row is None:
                raise NotFoundError(f"There is no fix {fix_id}.")
            return proposal_view(row)

    def begin_attempt(
        self,
        incident_id: int,
        kind: AttemptKind,
        command: Sequence[str],
        *,
        fix: Fix | None = None,
        rule: str = "",
        safety: Safety | None = None,
        loses: Sequence[str] = (),
        proposal_id: int | None = None,
        approved_by: str | None = None,
        text: str | None = None,
    ) -> int:
        """Writes that a relaunch or restart begins; to be called before a process is touched. Returns its id.

        A changed command that this incident has seen is refused (AlreadyTriedError). One whose attempt Crashcart
        itself did not survive may be done again, but only when a person approved it.
        """
        me = this_process()
        with self.write() as session:
            incident = incident_row(session, incident_id)
            mark = self.key.hash(command)
            if kind is AttemptKind.RELAUNCH:
                _refuse_repeated(session, incident_id, mark, approved_by)
            row = AttemptRow(
                incident_id=incident_id,
                server=incident.server,
                proposal_id=proposal_id,
                kind=kind,
                rule=rule,
                fingerprint=incident.fingerprint,
                fix=None if fix is None else fix_in(fix),
                safety=safety,
                loses=list(loses),
                command=words_in(command),
                command_hash=mark,
                approved_by=approved_by,
                outcome=AttemptOutcome.STARTED,
                started_at=now(),
                supervisor_pid=me.pid,
                supervisor_mark=me.mark,
            )
            session.add(row)
            _enter(session, incident, IncidentStatus.RELAUNCHING, Decision.ACTING)
            said = text or f"{kind} begins ({rule or 'the same command again'})"
            note(session, incident.server, TransitionKind.ATTEMPT, said, incident_id=incident_id)
            audit(session, approved_by or "crashcart", kind, incident, said)
            session.flush()
            return row.id or 0

    def end_attempt(self, attempt_id: int, outcome: AttemptOutcome, text: str | None = None) -> None:
        """How an attempt ended that did not come to a launch. A launch's death or success ends its attempt itself."""
        with self.write() as session:
            if close_attempt(session, attempt_id, outcome) and text:
                row = session.get_one(AttemptRow, attempt_id)
                note(session, row.server, TransitionKind.NOTE, text, incident_id=row.incident_id)

    def attempts(
        self, *, incident_id: int | None = None, server: str | None = None, since: datetime | None = None
    ) -> tuple[AttemptView, ...]:
        """Attempts, oldest first: what budgets count."""
        query = select(AttemptRow).order_by(col(AttemptRow.id))
        if incident_id is not None:
            query = query.where(AttemptRow.incident_id == incident_id)
        if server is not None:
            query = query.where(AttemptRow.server == server)
        if since is not None:
            query = query.where(col(AttemptRow.started_at) >= since)
        with self.read() as session:
            return tuple(attempt_view(row) for row in session.exec(query).all())

    def tried(self, incident_id: int, command: Sequence[str]) -> bool:
        """Whether this incident has seen this very command, as a launch or as an attempt."""
        with self.read() as session:
            return _seen(session, incident_id, self.key.hash(command)) is not None

    def fix_record(self, rule: str, fingerprint: str) -> FixRecord:
        """How often this rule's fix held and failed for this failure."""
        with self.read() as session:
            outcomes = session.exec(
                select(AttemptRow.outcome).where(
                    AttemptRow.rule == rule,
                    AttemptRow.fingerprint == fingerprint,
                    AttemptRow.kind == AttemptKind.RELAUNCH,
                )
            ).all()
        return FixRecord(held=outcomes.count(AttemptOutcome.HELD), failed=outcomes.count(AttemptOutcome.FAILED))

    def fix_records(self) -> dict[str, FixRecord]:
        """How often the fix of each rule held and failed, for whatever failure."""
        with self.read() as session:
            rows = session.exec(
                select(AttemptRow.rule, AttemptRow.outcome).where(AttemptRow.kind == AttemptKind.RELAUNCH)
            ).all()
        counted = Counter(rows)
        held, failed = AttemptOutcome.HELD, AttemptOutcome.FAILED
        known = {rule for rule, outcome in rows if outcome in (held, failed)}
        return {rule: FixRecord(counted[rule, held], counted[rule, failed]) for rule in sorted(known)}


def _same_proposal(
    session: Session, incident_id: int, launch_id: int | None, mark: str, action: Action
) -> ProposalRow | None:
    return session.exec(
        select(ProposalRow).where(
            ProposalRow.incident_id == incident_id,
            ProposalRow.launch_id == launch_id,
            ProposalRow.command_hash == mark,
            ProposalRow.action == action,
            ProposalRow.status != ProposalStatus.WITHDRAWN,
        )
    ).first()


def _enter(session: Session, incident: IncidentRow, status: IncidentStatus, decision: Decision) -> None:
    incident.status, incident.updated_at = status, now()
    session.add(incident)
    server = session.get(ServerRow, incident.server)
    if server is not None:
        server.decision = decision
        session.add(server)


def _stale(session: Session, incident: IncidentRow, fix_id: int | None, now_open: ProposalRow | None) -> StaleError:
    if now_open is not None:
        return StaleError(
            f"Fix {fix_id} is not what incident {incident.id} proposes now: that is fix {now_open.id}.",
            mend=f"See `crashcart incidents show {incident.id}`.",
        )
    last = session.exec(
        select(ProposalRow).where(ProposalRow.incident_id == incident.id).order_by(col(ProposalRow.id).desc())
    ).first()
    told = f"; its last proposal, fix {last.id}, is {last.status}" if last else ""
    return StaleError(
        f"Incident {incident.id} ({incident.status}) proposes nothing to decide on{told}.",
        mend=f"See `crashcart incidents show {incident.id}`.",
    )


def _somebody_acts(session: Session, server: str) -> bool:
    row = session.get(ServerRow, server)
    return (
        row is not None
        and row.supervisor_pid is not None
        and alive(ProcessRef(row.supervisor_pid, row.supervisor_mark))
    )


def _seen(session: Session, incident_id: int, mark: str) -> str | None:
    """What became of this command in this incident."""
    attempt = session.exec(
        select(AttemptRow)
        .where(AttemptRow.incident_id == incident_id, AttemptRow.command_hash == mark)
        .order_by(col(AttemptRow.id).desc())
    ).first()
    if attempt is not None:
        return attempt.outcome
    launch = session.exec(
        select(LaunchRow.id).where(LaunchRow.incident_id == incident_id, LaunchRow.command_hash == mark)
    ).first()
    return None if launch is None else AttemptOutcome.FAILED


def _refuse_repeated(session: Session, incident_id: int, mark: str, approved_by: str | None) -> None:
    seen = _seen(session, incident_id, mark)
    if seen is None or (seen == AttemptOutcome.INTERRUPTED and approved_by is not None):
        return
    raise AlreadyTriedError(
        f"This command was tried before in incident {incident_id} ({seen}); it is not run again by itself.",
        mend=f"See `crashcart incidents show {incident_id}`, or start it yourself.",
    )
