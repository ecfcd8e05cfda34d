"""What is to be done about a death: pure decisions from what is known, so that every case can be tested.

Order of the questions:

1. May anything be done at all? (mode, multi-node)
2. Did the last change make it worse, or did it fail? (roll back, next candidate)
3. Which candidate was not tried yet?
4. May the machine do it alone? (trust, safety, opposite moves, interrupted before)
5. Is there budget left? (incident, hour, fingerprint)
6. Does something outside of this server speak against it? (a person's mute, other servers that fail alike)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from app.core.command import Command
from app.core.model import Cause
from app.core.redact import redact_words
from app.core.vocabulary import Action, Category, Mode, Phase, Safety
from app.service.direction import opposes
from app.store.views import AttemptView, FixRecord
from app.store.words import AttemptKind, AttemptOutcome

_NAMED = 5  # servers that are named in a reason
# A restart can't mend what the command itself says wrongly.
_NEVER_RESTARTED = frozenset(
    {
        Category.UNKNOWN_ARGUMENT,
        Category.MISSING_ARGUMENT,
        Category.INVALID_ARGUMENT_VALUE,
        Category.INCOMPATIBLE_ARGUMENTS,
        Category.CONFIG_FILE_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of automatic actions. Numbers of attempts, and seconds."""

    relaunches: int = 5  # changed commands in one incident
    restarts: int = 3  # of the same command in one incident
    restarts_by_request: int = 1  # for a crash that a request triggers: it would be sent again
    per_hour: int = 10  # of both kinds, for one server
    others_alike: int = 2  # other servers that just failed the same way: then it is nothing of this server's own
    failures_of_fix: int = 2  # how often a fix may have failed for this fingerprint, in any incident
    restart_delay: float = 2.0  # doubled with every restart, with jitter
    relaunch_delay: float = 0.5  # from the second changed command on
    longest_delay: float = 120.0


class Do(StrEnum):
    NOTHING = "nothing"
    PROPOSE = "propose"
    RELAUNCH = "relaunch"
    RESTART = "restart"
    NEEDS_HUMAN = "needs-human"


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that a decision rests on. `causes` and `command` are those of the launch that just died."""

    mode: Mode
    causes: tuple[Cause, ...]
    command: Command
    phase: Phase = Phase.STARTING
    fingerprint: str | None = None
    allow: Safety = Safety.SAFE
    limits: Limits = field(default_factory=Limits)
    attempts: tuple[AttemptView, ...] = ()  # of this incident, oldest first
    commands: tuple[tuple[str, ...], ...] = ()  # of this incident's launches, redacted, oldest first
    before: Before | None = None  # the launch before, when a change led from it to this one
    in_last_hour: int = 0  # attempts for this server, all incidents
    record: FixRecord = field(default_factory=FixRecord)  # of the first candidate's fix for this fingerprint
    others_alike: tuple[str, ...] = ()  # other servers that failed with this fingerprint within the last minutes
    muted: bool = False  # a person muted the incident
    hands_off: str | None = None  # the weekly span without automatic actions that it is now
    last_good: Command | None = None  # the last command of this server that became ready and stayed so
    jitter: float = 0.5  # 0 to 1, drawn by the caller


@dataclass(frozen=True, slots=True)
class Before:
    """The launch that the last change started from."""

    command: Command
    phase: Phase
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, why, and for which cause. `command` is the one to start next."""

    do: Do
    reason: str
    cause: Cause | None = None
    command: Command | None = None
    delay: float = 0.0
    rolled_back: bool = False


def plan(now: Situation) -> Plan:
    """Decides about a death."""
    if now.mode is Mode.OFF:
        return Plan(Do.NOTHING, "mode off: nothing is done")
    if nodes := multi_node(now.command):
        return Plan(Do.NEEDS_HUMAN, f"a launch on {nodes} nodes is never started on one side alone")
    if now.before is not None and _made_worse(now, now.before):
        return _held_back(now, _roll_back(now, now.before))
    return _held_back(now, _choose(now, now.causes))


def _held_back(now: Situation, decided: Plan) -> Plan:
    """What would be done alone, unless something outside of this server speaks against it."""
    if decided.do not in (Do.RELAUNCH, Do.RESTART):
        return _or_last_good(now, decided)
    why = None
    if now.muted:
        why = "a person muted this incident"
    elif now.hands_off is not None:
        why = f"it is {now.hands_off}"
    elif len(now.others_alike) >= now.limits.others_alike and not (
        decided.cause is not None and decided.cause.category in _NEVER_RESTARTED
    ):
        names = ", ".join(now.others_alike[:_NAMED])
        why = f"{len(now.others_alike)} other servers ({names}) just failed the same way: look for what they share"
    return (
        decided if why is None else replace(decided, do=Do.PROPOSE, reason=f"{decided.reason}: not done alone, {why}")
    )


def _or_last_good(now: Situation, decided: Plan) -> Plan:
    """Where nothing is left to try, a person gets the command that worked last beside the reason."""
    good = now.last_good
    if decided.do is not Do.NEEDS_HUMAN or decided.command is not None or good is None:
        return decided
    if multi_node(good) or tuple(redact_words(good.words())) in _tried(now):
        return decided
    return replace(decided, reason=f"{decided.reason}; an earlier command of this server worked", command=good)


def multi_node(command: Command) -> int:
    """How many nodes a launch spans, when more than one."""
    value = command.get("--nnodes")
    return int(value) if isinstance(value, str) and value.isdigit() and int(value) > 1 else 0


def _last_change(now: Situation) -> AttemptView | None:
    done = [attempt for attempt in now.attempts if attempt.outcome is not AttemptOutcome.INTERRUPTED]
    return done[-1] if done and done[-1].kind is AttemptKind.RELAUNCH else None


def _made_worse(now: Situation, before: Before) -> bool:
    """The last change led to a death in an earlier phase, and not by a cause that any launch may meet."""
    if _last_change(now) is None or now.phase.order >= before.phase.order:
        return False
    return not (now.causes and now.causes[0].action is Action.RESTART)


def _roll_back(now: Situation, before: Before) -> Plan:
    died = f"the change made it die earlier ({now.phase} instead of {before.phase}) and is rolled back"
    again = replace(now, command=before.command, phase=before.phase, before=None)
    chosen = _choose(again, before.causes)
    return replace(chosen, reason=f"{died}; {chosen.reason}", rolled_back=True)


def _choose(now: Situation, causes: Sequence[Cause]) -> Plan:
    if not causes:
        return Plan(Do.NEEDS_HUMAN, "the cause is not known")
    failed = _last_change(now)
    same = failed is not None and failed.fingerprint == now.fingerprint
    base = now.before.command if same and failed and failed.safety is not Safety.SAFE and now.before else now.command
    fresh = [(cause, command) for cause in causes if (command := _next_command(now, base, cause)) is not None]
    if not fresh:
        return Plan(Do.NEEDS_HUMAN, _why_nothing_is_left(causes, failed if same else None), causes[0])
    cause, command = fresh[0]
    prefix = f"the fix of {failed.rule} failed: same failure again; " if same and failed else ""
    decided = _restart(now, cause) if cause.action is Action.RESTART else _change(now, cause, command, causes[0], same)
    return replace(decided, reason=prefix + decided.reason)


def _next_command(now: Situation, base: Command, cause: Cause) -> Command | None:
    """The command that acting on this cause would start; None where there is nothing new to do."""
    if cause.action is Action.RESTART:
        return now.command if cause.category not in _NEVER_RESTARTED else None
    if cause.action is not Action.CHANGE or cause.fix is None or cause.fix.empty or cause.command is None:
        return None
    if cause.fix in [attempt.fix for attempt in now.attempts if attempt.outcome is AttemptOutcome.FAILED]:
        return None
    command = (
        Command.parse(cause.command, now.command.catalogue, now.command.engine)
        if base is now.command
        else base.apply(cause.fix)
    )
    return None if tuple(redact_words(command.words())) in _tried(now) else command


def _tried(now: Situation) -> set[tuple[str, ...]]:
    """Commands that failed in this incident. An interrupted attempt and its launch tell nothing about theirs."""
    done = {a.command for a in now.attempts if a.outcome is not AttemptOutcome.INTERRUPTED}
    return done | (set(now.commands) - _interrupted(now)) | {tuple(redact_words(now.command.words()))}


def _interrupted(now: Situation) -> set[tuple[str, ...]]:
    return {a.command for a in now.attempts if a.outcome is AttemptOutcome.INTERRUPTED}


def _why_nothing_is_left(causes: Sequence[Cause], failed: AttemptView | None) -> str:
    if failed is not None:
        return f"the fix of {failed.rule} failed: same failure again, and there is no other to try"
    if causes[0].category is Category.UNKNOWN:
        return "the cause is not known"
    if causes[0].action is Action.CHANGE:
        return "every known fix was tried in this incident"
    return f"{causes[0].title}: no change of the command can mend that"


def _change(now: Situation, cause: Cause, command: Command, root: Cause, same: bool) -> Plan:
    proposal = Plan(Do.PROPOSE, f"fix of {cause.rule} ({cause.safety}{_known(now, cause)})", cause, command)
    against = opposes(command, now.command, now.attempts, now.commands)
    if against is not None:
        return Plan(Do.NEEDS_HUMAN, against, cause, command)
    if now.mode is Mode.PROPOSE:
        return proposal
    if why_not := _why_not_alone(now, cause, command, root, same):
        return replace(proposal, reason=f"{proposal.reason}: not done alone, {why_not}")
    done = _count(now, AttemptKind.RELAUNCH)
    if done >= now.limits.relaunches:
        return Plan(Do.NEEDS_HUMAN, f"{done} relaunches in this incident: that is the limit", cause, command)
    if now.in_last_hour >= now.limits.per_hour:
        return Plan(Do.NEEDS_HUMAN, f"{now.in_last_hour} automatic actions in the last hour: that is the limit", cause)
    delay = now.limits.relaunch_delay * 2.0 ** (done - 1) * (0.5 + now.jitter) if done else 0.0
    return Plan(Do.RELAUNCH, proposal.reason, cause, command, min(delay, now.limits.longest_delay))


def _known(now: Situation, cause: Cause) -> str:
    """How often this fix has held for this failure, in any incident."""
    done = now.record.held + now.record.failed
    first = now.causes[0] if now.causes else None
    return f", held {now.record.held} of {done} times before" if done and cause is first else ""


def _why_not_alone(now: Situation, cause: Cause, command: Command, root: Cause, same: bool) -> str | None:
    safe = cause.safety is Safety.SAFE and not cause.loses
    degrading = cause.safety is not Safety.MANUAL and now.allow is Safety.DEGRADING
    if not (safe or degrading):
        return f"only {now.allow} changes are allowed"
    if not cause.trusted:
        return "its rule is not stable"
    if cause is not root and not same:
        return f"the likeliest cause is another one ({root.rule})"
    if tuple(redact_words(command.words())) in _interrupted(now):
        return "Crashcart was interrupted while doing it before"
    if now.record.failed >= now.limits.failures_of_fix and not now.record.held:
        return f"it failed {now.record.failed} times for this failure before"
    return None


def _restart(now: Situation, cause: Cause) -> Plan:
    proposal = Plan(Do.PROPOSE, f"restart of the same command ({cause.title})", cause, now.command)
    if now.mode is Mode.PROPOSE:
        return proposal
    if not cause.trusted:
        return replace(proposal, reason=f"{proposal.reason}: not done alone, its rule is not stable")
    if any(a.outcome is AttemptOutcome.INTERRUPTED and a.kind is AttemptKind.RESTART for a in now.attempts):
        return replace(proposal, reason=f"{proposal.reason}: Crashcart was interrupted while doing it before")
    by_request = cause.category is Category.REQUEST_TRIGGERED_CRASH
    limit = now.limits.restarts_by_request if by_request else now.limits.restarts
    done = _count(now, AttemptKind.RESTART)
    if done >= limit:
        return Plan(Do.NEEDS_HUMAN, f"{done} restarts in this incident: that is the limit", cause)
    if now.in_last_hour >= now.limits.per_hour:
        return Plan(Do.NEEDS_HUMAN, f"{now.in_last_hour} automatic actions in the last hour: that is the limit", cause)
    delay = now.limits.restart_delay * 2.0**done * (0.5 + now.jitter)
    return Plan(Do.RESTART, proposal.reason, cause, now.command, min(delay, now.limits.longest_delay))


def _count(now: Situation, kind: AttemptKind) -> int:
    return sum(1 for attempt in now.attempts if attempt.kind is kind)
