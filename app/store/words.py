"""The store's own vocabulary, beside `app.core.vocabulary`."""

from __future__ import annotations

from enum import StrEnum


class Decision(StrEnum):
    """What will be done about a server that died; `wait` goes on waiting while it is pending or acting."""

    NONE = "none"  # nothing: mode off, or nothing died
    PENDING = "pending"  # the death is stored, the acting side has not planned yet
    PROPOSAL = "proposal"  # a person is asked
    ACTING = "acting"  # a restart or relaunch is under way
    NEEDS_HUMAN = "needs-human"  # given up

    @property
    def final(self) -> bool:
        """Nothing will happen without a person."""
        return self not in (Decision.PENDING, Decision.ACTING)


class Wish(StrEnum):
    """What a person decides on a proposal."""

    APPROVE = "approve"
    REJECT = "reject"


class ProposalStatus(StrEnum):
    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"  # events overtook it: another death, or the server came back


class AttemptKind(StrEnum):
    RELAUNCH = "relaunch"  # a changed command
    RESTART = "restart"  # the same one again


class AttemptOutcome(StrEnum):
    STARTED = "started"  # written before a process is touched
    HELD = "held"  # ready, and stayed so for the settle time
    FAILED = "failed"  # the server died again, or could not be started
    STOPPED = "stopped"  # a person stopped it before it was known
    INTERRUPTED = "interrupted"  # Crashcart itself ended in between


class AlertStatus(StrEnum):
    """Where a message stands on its way out."""

    PENDING = "pending"
    SENDING = "sending"  # written before the post: after a crash nobody knows whether it arrived
    SENT = "sent"
    FAILED = "failed"  # for good; shown on the incident


class TransitionKind(StrEnum):
    """Kinds that the store itself writes; an acting loop claims those that died."""

    STATE = "state"
    DIED = "died"
    FAILED = "failed"  # a failure seen in a followed log: whether its process died is not known
    PROPOSED = "proposed"
    DECIDED = "decided"
    ATTEMPT = "attempt"
    INTERRUPTED = "interrupted"
    VERIFYING = "verifying"
    RESOLVED = "resolved"
    NEEDS_HUMAN = "needs-human"
    REPORTED = "reported"
    NOTE = "note"
