"""Which changes of an incident people are told of, and the facts of each message: a few per incident, never a flood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from app.core.model import Cause
from app.core.redact import redact_text, redact_words
from app.core.vocabulary import IncidentStatus
from app.store.models import now
from app.store.outbox import AlertView
from app.store.store import Store
from app.store.views import IncidentView, LaunchView, TransitionView
from app.store.words import TransitionKind

OPENED, PROPOSED, APPLIED, NEEDS_HUMAN, RESOLVED = "opened", "proposed", "applied", "needs-human", "resolved"

# How many messages of a kind one incident may send. The last one says that it is the last.
MOST: Mapping[str, int] = {OPENED: 3, PROPOSED: 4, APPLIED: 4, NEEDS_HUMAN: 4, RESOLVED: 3}
# A service that was down, or to which Slack is new, tells no old stories.
NEWS = timedelta(hours=24)

_KINDS: Mapping[str, str] = {
    TransitionKind.DIED: OPENED,
    TransitionKind.FAILED: OPENED,
    TransitionKind.REPORTED: OPENED,
    TransitionKind.PROPOSED: PROPOSED,
    TransitionKind.ATTEMPT: APPLIED,
    TransitionKind.NEEDS_HUMAN: NEEDS_HUMAN,
    TransitionKind.RESOLVED: RESOLVED,
}


def collect(store: Store, after: int) -> int:
    """Queues the messages that the history behind `after` is worth, and returns its new end.

    Done again over the same history (Crashcart ended in between), it queues nothing twice.
    """
    while changes := store.transitions_after(after):
        for change in changes:
            kind = _KINDS.get(change.kind)
            if kind is not None and change.incident_id is not None and now() - change.at < NEWS:
                _tell(store, change, change.incident_id, kind)
        after = changes[-1].id
    return after


def _tell(store: Store, change: TransitionView, incident_id: int, kind: str) -> None:
    incident = store.incident(incident_id)
    if change.kind == TransitionKind.REPORTED and incident.status is IncidentStatus.RESOLVED:
        return  # somebody spoke of what is over
    if incident.muted_until is not None and incident.muted_until > change.at:
        return
    told = store.alerts(incident_id)
    if any(alert.transition_id == change.id for alert in told) or not _is_news(kind, told):
        return
    said = sum(alert.kind == kind for alert in told)
    if said >= MOST[kind]:
        return
    facts = facts_of(incident, change, kind)
    if facts is not None:
        store.queue_alert(incident_id, kind, {**facts, "last": said + 1 == MOST[kind]}, transition_id=change.id)


def _is_news(kind: str, told: Sequence[AlertView]) -> bool:
    """Of an episode's deaths only the first is told: of the later ones the next fix, or the giving up, tells."""
    if kind != OPENED:
        return True
    turns = [alert.kind for alert in told if alert.kind in (OPENED, RESOLVED)]
    return not turns or turns[-1] == RESOLVED


def facts_of(incident: IncidentView, change: TransitionView, kind: str) -> dict[str, Any] | None:
    """What the message will say, redacted; None when events have overtaken it."""
    facts: dict[str, Any] = {
        "server": incident.server,
        "title": redact_text(incident.title),
        "text": redact_text(change.text),
        "category": str(incident.category),
        "at": change.at.isoformat(timespec="seconds"),
        "regressed": incident.regressed,
    }
    launch = _launch(incident, change)
    if kind in (OPENED, NEEDS_HUMAN):
        facts |= _why(launch)
    elif kind == PROPOSED:
        proposal = incident.proposal
        if proposal is None or proposal.proposed_at > change.at:
            return None
        facts |= _change(launch, proposal.command)
        facts |= {"fix_id": proposal.id, "safety": str(proposal.safety), "loses": list(proposal.loses)}
    elif kind == APPLIED:
        begun = [attempt for attempt in incident.attempts if attempt.started_at <= change.at]
        if begun:
            attempt = begun[-1]
            facts |= _change(launch, attempt.command)
            facts |= {"by": attempt.approved_by, "attempt": str(attempt.kind), "loses": list(attempt.loses)}
    return facts


def _launch(incident: IncidentView, change: TransitionView) -> LaunchView | None:
    """The launch that a change is about: the one it names, else the newest that had a diagnosis by then."""
    before = [one for one in incident.launches if one.diagnosis is not None and one.started_at <= change.at]
    named = [one for one in before if one.id == change.launch_id]
    chosen = named or before
    return chosen[-1] if chosen else None


def _why(launch: LaunchView | None) -> dict[str, Any]:
    causes: tuple[Cause, ...] = launch.diagnosis.causes if launch is not None and launch.diagnosis else ()
    if launch is None or not causes:
        return {}
    cause = causes[0]
    line = None if cause.line is None else {"number": cause.line.number, "text": redact_text(cause.line.text)}
    command = list(redact_words(launch.command))
    return {"explanation": redact_text(cause.explanation), "line": line, "rule": cause.rule, "command": command}


def _change(launch: LaunchView | None, after: Sequence[str]) -> dict[str, Any]:
    before = () if launch is None else launch.command
    return {"before": list(redact_words(before)), "after": list(redact_words(after))}
