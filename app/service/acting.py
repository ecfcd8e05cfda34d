"""The acting side of `run`: from a stored death to the next launch, or to a clear stop.

1. claim the death, 2. plan (policy), 3. ask a person where that is due, 4. back off, 5. guards, each with its verdict
in the history, 6. write that the attempt begins, and only then hand back what to start.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from app.core.command import Command
from app.core.errors import AlreadyTriedError
from app.core.model import Cause, Diagnosis, Exit
from app.core.redact import redact_words
from app.core.vocabulary import Action, Category, Confidence, Outcome, Phase
from app.diagnosis.pipeline import Pipeline
from app.service.following import Stop
from app.service.intake import Death, with_hang
from app.service.options import RunOptions, Terminal
from app.service.policy import Before, Do, Limits, Plan, Situation, plan
from app.store.store import Store
from app.store.views import DecisionView, FixRecord
from app.store.words import AttemptKind, AttemptOutcome, Decision, Wish
from app.supervise import guards
from app.supervise.group import Group
from app.supervise.guards import Verdict

_POLL = 0.1  # seconds between looks for a person's decision
_AT_ONCE = timedelta(minutes=10)  # servers that fail alike within it have something in common


@dataclass(frozen=True, slots=True)
class Next:
    """What to start now; the attempt is written down already."""

    command: Command
    kind: AttemptKind
    attempt_id: int


@dataclass
class Actor:
    """Acts for one server. What it knows about earlier launches of this run makes roll-back possible."""

    options: RunOptions
    store: Store
    checker: Pipeline  # may take seconds: it asks the installed program for its flags
    terminal: Terminal
    stop: Stop
    limits: Limits
    port_wait: float = 5.0
    group: Group | None = None  # processes of the launch before
    died_before: Death | None = None
    suggestion: Command | None = None  # a corrected command that was not started

    async def act(self, death: Death) -> Next | None:
        """Decides about a death and prepares the next launch; None when nothing is started."""
        self.store.claim_death(self.options.name)
        self.suggestion = None
        plan = self._plan(death)
        before, self.died_before = self.died_before, death
        chosen = await self._carry_out(death, plan)
        if chosen is None and self.stop.asked.is_set() and not self.stop.leaving:
            self._called_off()
        if chosen is not None and plan.rolled_back and before is not None:
            # The worse launch counts no more: the next one is compared with the one that it goes back to.
            self.died_before = before
        return chosen

    def _called_off(self) -> None:
        """A person stopped it while it was about to be brought back: what was decided must not be taken up later."""
        view = self.store.get_server(self.options.name)
        if view is not None and not view.decision.final:
            text = "a person stopped it: it is not brought back"
            self.store.set_decision(self.options.name, Decision.NONE, text)

    async def take_up(self, command: Command) -> Next | None:
        """An approval that was given while no Crashcart acted for this server: carried out at the start."""
        decision = self.store.claim_decision(self.options.name)
        if decision is None or decision.wish is not Wish.APPROVE or decision.proposal.fix is None:
            return None
        changed = command.apply(decision.proposal.fix)
        if tuple(redact_words(changed.words())) != decision.proposal.command:
            self.terminal.say(f"fix {decision.proposal.id} was approved for another command: it is not applied")
            return None
        self.terminal.say(f"fix {decision.proposal.id}, approved by {decision.by}, is applied")
        return self._begin(decision.proposal.incident_id, AttemptKind.RELAUNCH, changed, _as_cause(decision), decision)

    # -- planning

    def would_restart(self, incident_id: int, command: Command) -> bool:
        """Whether a restart could be done alone now. What can't be started again is not ended because it hangs."""
        hung = with_hang(Diagnosis(outcome=Outcome.FAILED, phase=Phase.READY), "it hangs")
        return self._plan(Death(0, incident_id, command, hung, Phase.READY, Exit())).do is Do.RESTART

    def _plan(self, death: Death) -> Plan:
        incident = self.store.incident(death.incident_id)
        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        recent = self.store.attempts(server=self.options.name, since=hour_ago)
        causes = death.diagnosis.causes
        earlier = self.died_before
        return plan(
            Situation(
                mode=self.options.mode,
                causes=causes,
                command=death.command,
                phase=death.phase,
                fingerprint=death.diagnosis.fingerprint,
                allow=self.options.allow,
                limits=replace(self.limits, relaunches=self.options.max_relaunches),
                attempts=incident.attempts,
                commands=tuple(launch.command for launch in incident.launches),
                before=Before(earlier.command, earlier.phase, earlier.diagnosis.causes) if earlier else None,
                in_last_hour=sum(1 for attempt in recent if attempt.approved_by is None),
                record=self._record(causes[0], incident.fingerprint) if causes else FixRecord(),
                others_alike=self._others_alike(death),
                muted=incident.muted_until is not None and incident.muted_until > datetime.now(UTC),
                hands_off=next((one.text for one in self.options.hands_off if one.covers(datetime.now())), None),
                last_good=self._last_good(),
                jitter=random.random(),  # noqa: S311 - spreads retries, no secret
            )
        )

    def _others_alike(self, death: Death) -> tuple[str, ...]:
        fingerprint = death.diagnosis.fingerprint
        if fingerprint is None:
            return ()
        since = datetime.now(UTC) - _AT_ONCE
        return tuple(name for name in self.store.failed_alike(fingerprint, since) if name != self.options.name)

    def _last_good(self) -> Command | None:
        server = self.store.get_server(self.options.name)
        words = server.last_good_command if server is not None else None
        return None if words is None else Command.parse(words, engine=self.options.command.engine)

    def _record(self, cause: Cause, fingerprint: str) -> FixRecord:
        return self.store.fix_record(cause.rule, fingerprint)

    async def _carry_out(self, death: Death, plan: Plan) -> Next | None:
        self._show(death, plan)
        if plan.do is Do.NOTHING:
            self.store.set_decision(self.options.name, Decision.NONE)
            self.suggestion = _corrected(death)
            return None
        if plan.do is Do.NEEDS_HUMAN or plan.cause is None or plan.command is None:
            self._give_up(death, plan.reason, plan.command)
            return None
        if plan.do is Do.PROPOSE:
            return await self._propose(death, plan.reason, plan.cause, plan.command)
        if await self._paused(plan.delay):
            return None
        return await self._attempt(death, plan.cause, plan.command, None)

    def _show(self, death: Death, plan: Plan) -> None:
        steps = {
            Do.NOTHING: plan.reason,
            Do.NEEDS_HUMAN: f"a person is needed: {plan.reason}",
            Do.PROPOSE: f"proposed: {plan.reason}",
            Do.RELAUNCH: f"relaunch with the change: {plan.reason}",
            Do.RESTART: plan.reason,
        }
        wait = f" in {plan.delay:.1f} s" if plan.delay >= 0.1 else ""
        self.terminal.show(death.diagnosis, log=self.options.log, next_step=steps[plan.do] + wait)

    def _give_up(self, death: Death, reason: str, command: Command | None = None) -> None:
        self.store.needs_human(death.incident_id, reason)
        self.suggestion = command or _corrected(death)

    async def _paused(self, seconds: float) -> bool:
        """Waits before the next try; True when a person stopped it meanwhile."""
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop.asked.wait(), seconds)
        return self.stop.asked.is_set()

    # -- asking

    async def _propose(self, death: Death, reason: str, cause: Cause, command: Command) -> Next | None:
        restart = cause.action is Action.RESTART
        self.suggestion = None if restart else command
        verdicts = [] if restart else await self._judge_change(death, command)
        fix_id = self.store.propose(
            death.incident_id,
            None if restart else cause.fix,
            command.words(),
            cause.safety,
            [f"{verdict.guard}: {verdict.text}" for verdict in verdicts],
            rule=cause.rule,
            title=reason,
            loses=cause.loses,
            launch_id=death.launch_id,
        )
        decision = await self._decision(death.incident_id, fix_id, restart)
        if decision is None:
            self.terminal.say(f"incident {death.incident_id} waits: crashcart incidents approve {death.incident_id}")
            return None
        if decision.wish is Wish.REJECT:
            self.terminal.say(f"fix {fix_id} was rejected by {decision.by}")
            return None
        return await self._attempt(death, cause, command, decision)

    async def _decision(self, incident_id: int, fix_id: int, restart: bool) -> DecisionView | None:
        """A person's decision on a proposal: from the terminal, or from the store while it is waited for."""
        question = "Restart the same command?" if restart else f"Relaunch with fix {fix_id}?"
        asking = asyncio.ensure_future(self._ask(question, incident_id, fix_id)) if self.terminal.interactive else None
        loop = asyncio.get_running_loop()
        deadline = None if asking else loop.time() + self.options.wait_decision
        try:
            while not self.stop.asked.is_set():
                found = self.store.claim_decision(self.options.name)
                if found is not None and found.proposal.id == fix_id:
                    return found
                if (asking is not None and asking.done()) or (deadline is not None and loop.time() >= deadline):
                    return None
                await self._paused(_POLL)
            return None
        finally:
            if asking is not None:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

    async def _ask(self, question: str, incident_id: int, fix_id: int) -> None:
        answer = await self.terminal.ask(f"{question} [y]es / [n]o / [q]uit, leave it open", "ynq")
        if answer in "yn":
            self.store.decide(incident_id, fix_id, Wish.APPROVE if answer == "y" else Wish.REJECT, "terminal")
            # The store hands it back as any other decision: wait for that instead of ending here.
            await asyncio.sleep(60)

    # -- acting

    async def _attempt(
        self, death: Death, cause: Cause, command: Command, decision: DecisionView | None
    ) -> Next | None:
        kind = AttemptKind.RESTART if cause.action is Action.RESTART else AttemptKind.RELAUNCH
        verdicts = await self._ground_clear(death)
        if kind is AttemptKind.RELAUNCH:
            verdicts += await self._judge_change(death, command)
        for verdict in verdicts:
            self.store.add_transition(
                self.options.name,
                "guard",
                f"{verdict.guard} {'holds' if verdict.ok else 'FAILS'}: {verdict.text}",
                incident_id=death.incident_id,
            )
        if failed := [verdict for verdict in verdicts if not verdict.ok]:
            reason = "; ".join(f"{verdict.guard}: {verdict.text}" for verdict in failed)
            self.terminal.say(f"not started: {reason}")
            self._give_up(death, f"not started, a guard failed: {reason}", command)
            return None
        if self.stop.asked.is_set():
            return None
        return self._begin(death.incident_id, kind, command, cause, decision)

    def _begin(
        self, incident_id: int, kind: AttemptKind, command: Command, cause: Cause, decision: DecisionView | None
    ) -> Next | None:
        said = f"{kind}: {'the same command again' if kind is AttemptKind.RESTART else cause.title}"
        try:
            attempt = self.store.begin_attempt(
                incident_id,
                kind,
                command.words(),
                fix=cause.fix if kind is AttemptKind.RELAUNCH else None,
                rule=cause.rule,
                safety=cause.safety,
                loses=cause.loses,
                proposal_id=decision.proposal.id if decision else None,
                approved_by=decision.by if decision else None,
                text=said,
            )
        except AlreadyTriedError as error:
            self.terminal.say(str(error))
            self.store.needs_human(incident_id, str(error))
            self.suggestion = command
            return None
        self.suggestion = None
        self.terminal.say(said)
        return Next(command, kind, attempt)

    async def _ground_clear(self, death: Death) -> list[Verdict]:
        """What must hold before anything is started, changed or not."""
        command = death.command
        pids = [member.pid for member in self.group.members()] if self.group else []
        return [
            await guards.old_group_gone(self.group, wait=2.0),
            await guards.port_free(command.port, command.host, self.port_wait),
            await guards.gpu_released(pids),
            guards.disk_room(self.store.state),
        ]

    async def _judge_change(self, death: Death, command: Command) -> list[Verdict]:
        """What must hold for a changed command."""
        source = self.checker.catalogue_for
        catalogue = await asyncio.to_thread(source, command) if source else None
        verdicts = [guards.command_valid(command, death.command, catalogue)]
        if self.options.preflight:
            engine = self.options.engine
            after = await asyncio.to_thread(self.checker.check, command, engine)
            before = await asyncio.to_thread(self.checker.check, death.command, engine)
            verdicts.append(guards.preflight_passed(after, before))
        tried = self.store.tried(death.incident_id, command.words())
        interrupted = tried and self._was_interrupted(death.incident_id, command)
        text = "tried before in this incident" if tried else "never tried in this incident"
        verdicts.append(Verdict("not-tried-before", not tried or interrupted, text))
        return verdicts

    def _was_interrupted(self, incident_id: int, command: Command) -> bool:
        words = tuple(redact_words(command.words()))
        attempts = [a for a in self.store.incident(incident_id).attempts if a.command == words]
        return bool(attempts) and attempts[-1].outcome is AttemptOutcome.INTERRUPTED


def _corrected(death: Death) -> Command | None:
    """The corrected command of the likeliest cause, for a person to use."""
    top = death.diagnosis.causes[0] if death.diagnosis.causes else None
    if top is None or top.command is None or top.command == death.command.words():
        return None
    return Command.parse(top.command, death.command.catalogue, death.command.engine)


def _as_cause(decision: DecisionView) -> Cause:
    """A stored proposal in the shape in which attempts are described."""
    proposal = decision.proposal
    return Cause(
        rule=proposal.rule,
        category=Category.UNKNOWN,
        title=proposal.title,
        explanation="",
        confidence=Confidence.HIGH,
        action=proposal.action,
        fix=proposal.fix,
        safety=proposal.safety,
        loses=proposal.loses,
    )
