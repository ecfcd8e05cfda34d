"""Failures that others send in: log text is diagnosed, a bare word makes Crashcart look itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.core.command import Command
from app.core.model import Diagnosis, Exit
from app.core.vocabulary import Outcome
from app.diagnosis.pipeline import Pipeline
from app.service.reporting import is_complaint, report
from app.store.reports import Told
from app.store.store import Store
from app.store.views import IncidentView

_NO_EXIT = Exit()


@dataclass(frozen=True, slots=True)
class Sent:
    """What came in."""

    server: str
    text: str
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    exit: Exit = _NO_EXIT
    by: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of it; no incident where nothing failed. `said` is what Crashcart found when it looked itself."""

    incident: IncidentView | None
    diagnosis: Diagnosis | None
    new: bool = False
    said: str | None = None


def take_in(store: Store, sent: Sent, pipeline: Callable[[], Pipeline]) -> Taken:
    """Diagnoses what was sent and opens or joins its incident. NotFoundError: a bare word on an unknown server."""
    if is_complaint(sent.text) and not sent.command and not sent.exit.known:
        return _looked(store, sent, pipeline)
    server = store.get_server(sent.server)
    command = Command.parse((*(f"{name}={value}" for name, value in sent.env.items()), *sent.command))
    session = pipeline().session(
        engine=server.engine if server is not None else None, command=command if sent.command else None
    )
    session.feed(sent.text.encode("utf-8", "replace"))
    session.close()
    diagnosis = session.diagnose(sent.exit)
    if diagnosis.outcome is not Outcome.FAILED:
        return Taken(None, diagnosis)
    words = command.words() if sent.command else ()
    told = Told(sent.server, diagnosis, words, sent.exit, sent.by or "ingest", sent.at)
    incident_id, new = store.tell(told)
    return Taken(store.incident(incident_id), diagnosis, new)


def _looked(store: Store, sent: Sent, pipeline: Callable[[], Pipeline]) -> Taken:
    before = max((incident.id for incident in store.incidents(server=sent.server, limit=1)), default=0)
    found = report(store, sent.text, sent.server, pipeline)
    incident = store.incident(found.incident_id) if found.incident_id is not None else None
    new = incident is not None and incident.id > before
    return Taken(incident, found.diagnosis, new, found.text)
