"""Diagnoses unresolved incidents again when the rules are newer: from their kept evidence, and without acting.

Only what is known changes: the launch's diagnosis, the incident's title and category, and a line of the timeline that
says so. No fix is proposed, nothing is started and nobody is told again: a person who looks finds the better answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.core.errors import CrashcartError
from app.core.model import Diagnosis
from app.core.vocabulary import IncidentStatus, Outcome
from app.diagnosis.pipeline import Pipeline
from app.service.reporting import reading
from app.store.store import Store
from app.store.views import LaunchView

_OPEN = tuple(status for status in IncidentStatus if status is not IncidentStatus.RESOLVED)
_MOST = 500  # incidents, the newest first

# What Crashcart saw for itself, beside the log, is not overruled by reading the log again.
_UNKNOWN = "any/unknown-failure"  # knowing less than before is no news: a rule was removed
_SEEN = frozenset(
    (
        "any/half-dead",
        "any/process-gone",
        "any/clean-exit",
        "any/killed-by-signal",
        "any/killed-for-memory",
        "any/not-started",
    )
)


@dataclass(frozen=True, slots=True)
class Corrected:
    """An incident that the present rules explain otherwise."""

    incident_id: int
    before: str
    after: str


def retriage(store: Store, pipeline: Pipeline) -> tuple[Corrected, ...]:
    """Looks at every unresolved incident whose evidence is kept; done again, it changes nothing more."""
    found: list[Corrected] = []
    for incident in store.incidents(status=_OPEN, limit=_MOST):
        launches = [one for one in store.incident(incident.id).launches if one.ran and one.diagnosis is not None]
        try:
            corrected = _look(store, pipeline, incident.id, launches[-1]) if launches else None
        except (CrashcartError, OSError):
            continue  # its evidence can't be read now: the others are looked at all the same
        if corrected is not None:
            found.append(corrected)
    return tuple(found)


def _look(store: Store, pipeline: Pipeline, incident_id: int, launch: LaunchView) -> Corrected | None:
    log = store.kept_log(launch)
    before = _rule(launch.diagnosis)
    if log is None or before in _SEEN:
        return None
    session = reading(log, launch, pipeline)
    diagnosis = session.diagnose(launch.exit, expected_running=True)
    after = _rule(diagnosis)
    if diagnosis.outcome is not Outcome.FAILED or after in (None, before) or after in _SEEN or after == _UNKNOWN:
        return None
    text = f"diagnosed again with newer rules: {after} instead of {before or 'nothing'}"
    if not store.diagnosed_again(launch.id, diagnosis, text):
        return None
    return Corrected(incident_id, before or "", after)


def _rule(diagnosis: Diagnosis | None) -> str | None:
    return diagnosis.causes[0].rule if diagnosis is not None and diagnosis.causes else None
