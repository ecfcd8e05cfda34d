"""What an incident's page shows, put together from the store: plain values, no markup."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from app.core.errors import NotFoundError
from app.core.model import Cause, Diagnosis
from app.core.redact import redact_text
from app.core.text import neutralise, shorten, strip_ansi
from app.core.vocabulary import IncidentStatus, Phase
from app.core.wording import Part, difference
from app.service.asking import look
from app.store.store import Store
from app.store.texts import described_end, fate
from app.store.views import AttemptView, IncidentView, LaunchView, TransitionView
from app.store.words import AttemptOutcome, ProposalStatus

_BEFORE, _AFTER = 20, 8
_LINE_SHOWN = 2_000
_BYTES_READ = 64 * 1024 * 1024
_GUARD = "guard"
_OUTCOMES = {
    AttemptOutcome.STARTED: "under way",
    AttemptOutcome.HELD: "held",
    AttemptOutcome.FAILED: "failed",
    AttemptOutcome.STOPPED: "stopped by a person",
    AttemptOutcome.INTERRUPTED: "interrupted: Crashcart itself ended",
}


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the kept log; `proves` marks the one that shows the cause."""

    number: int
    text: str
    proves: bool


@dataclass(frozen=True, slots=True)
class LaunchCard:
    """A launch with what was different from the one before (None for the first)."""

    number: int
    launch: LaunchView
    fate: str
    tone: str
    parts: tuple[Part, ...] | None
    attempt: AttemptView | None
    outcome: str | None
    title: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the timeline, or several guards that were looked at in a row."""

    first: TransitionView
    guards: tuple[TransitionView, ...] = ()


@dataclass(frozen=True, slots=True)
class Around:
    """What a probe read at the moment of the death."""

    probe: str
    text: str


@dataclass(frozen=True, slots=True)
class IncidentPage:
    incident: IncidentView
    happened: str | None
    diagnosis: Diagnosis | None
    cause: Cause | None
    log: tuple[LogLine, ...]
    launches: tuple[LaunchCard, ...]
    change: tuple[Part, ...]
    timeline: tuple[Entry, ...]
    next_step: str
    decided: str | None
    undelivered: tuple[str, ...]
    surroundings: tuple[Around, ...]
    has_evidence: bool


def incident_page(store: Store, number: int, decided: int | None = None) -> IncidentPage:
    """The page's content; NotFoundError for an unknown incident. `decided`: the fix that was just decided on."""
    incident = store.incident(number)
    failed = next((launch for launch in reversed(incident.launches) if launch.diagnosis is not None), None)
    diagnosis = failed.diagnosis if failed else None
    cause = diagnosis.causes[0] if diagnosis and diagnosis.causes else None
    return IncidentPage(
        incident=incident,
        happened=_happened(failed),
        diagnosis=diagnosis,
        cause=cause,
        log=_around(store.kept_log(failed), cause) if failed else (),
        launches=tuple(_cards(incident)),
        change=_change(incident),
        timeline=tuple(_entries(incident.timeline)),
        next_step=_next_step(incident, cause),
        decided=_decided(store, incident, decided),
        undelivered=store.undelivered(number),
        surroundings=_surroundings(store, incident, failed),
        has_evidence=(store.state / "incidents" / str(number)).is_dir(),
    )


def _surroundings(store: Store, incident: IncidentView, failed: LaunchView | None) -> tuple[Around, ...]:
    if failed is None:
        return ()
    path = store.state / "incidents" / str(incident.id) / f"launch-{failed.id}" / "surroundings.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return tuple(Around(probe, one["text"]) for probe, one in found.items() if one["available"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()


def _happened(failed: LaunchView | None) -> str | None:
    if failed is None:
        return None
    if not failed.ran:
        return fate(failed)
    if failed.ended_at is None and not failed.exit.known:
        return (
            "a failure in its log" if failed.phase is Phase.STARTING else f"a failure in its log while {failed.phase}"
        )
    return described_end(failed.exit, failed.phase, failed.percent)


def _cards(incident: IncidentView) -> list[LaunchCard]:
    attempts = {attempt.id: attempt for attempt in incident.attempts}
    cards: list[LaunchCard] = []
    before: LaunchView | None = None
    for number, launch in enumerate(incident.launches, 1):
        attempt = attempts.get(launch.attempt_id) if launch.attempt_id is not None else None
        causes = launch.diagnosis.causes if launch.diagnosis else ()
        cards.append(
            LaunchCard(
                number=number,
                launch=launch,
                fate=fate(launch),
                tone=_tone(launch, attempt),
                parts=None if before is None else tuple(difference(before.command, launch.command)),
                attempt=attempt,
                outcome=_OUTCOMES[attempt.outcome] if attempt else None,
                title=causes[0].title if causes else None,
            )
        )
        before = launch
    return cards


def _tone(launch: LaunchView, attempt: AttemptView | None) -> str:
    if attempt is not None and attempt.outcome is AttemptOutcome.HELD:
        return "ok"
    if launch.diagnosis is not None or not launch.ran:
        return "error"
    if launch.ended_at is not None:
        return "muted"
    return "ok" if launch.phase is Phase.READY else "info"


def _change(incident: IncidentView) -> tuple[Part, ...]:
    """What the proposal would change in the newest command."""
    if incident.proposal is None or not incident.launches:
        return ()
    return tuple(difference(incident.launches[-1].command, incident.proposal.command))


def _entries(timeline: Sequence[TransitionView]) -> list[Entry]:
    """Guards that hold come in rows of six: one line says so, and opens."""
    entries: list[Entry] = []
    for line in timeline:
        quiet = line.kind == _GUARD and " holds" in line.text
        if quiet and entries and entries[-1].guards:
            entries[-1] = Entry(entries[-1].first, (*entries[-1].guards, line))
        else:
            entries.append(Entry(line, (line,) if quiet else ()))
    return entries


def _next_step(incident: IncidentView, cause: Cause | None) -> str:
    if incident.status is IncidentStatus.RESOLVED:
        return "Nothing: this is resolved."
    if incident.status in (IncidentStatus.RELAUNCHING, IncidentStatus.VERIFYING):
        return "Nothing: it is being brought back."
    if incident.proposal is not None:
        return "Approve or reject the proposed fix."
    if incident.status is IncidentStatus.PROPOSED:
        return "Nothing: the approved fix is waiting to be carried out."
    if cause is not None and cause.command is not None:
        return "Start the server with the corrected command."
    if cause is not None and cause.action == "restart":
        return "Start the same command again."
    return "A person has to look: Crashcart knows no change that would help."


def _decided(store: Store, incident: IncidentView, fix_id: int | None) -> str | None:
    """What became of the decision that the page's reader has just sent."""
    try:
        proposal = store.proposal(fix_id) if fix_id is not None else None
    except NotFoundError:
        return None
    if proposal is None or proposal.incident_id != incident.id:
        return None
    if proposal.status is ProposalStatus.REJECTED:
        return f"Fix {proposal.id} is rejected. The server stays as it is."
    if proposal.status is not ProposalStatus.APPROVED:
        return None
    server = store.get_server(incident.server)
    if server is not None and server.supervisor is not None and look(server).supervised:
        return f"Fix {proposal.id} is approved. Crashcart (pid {server.supervisor.pid}) carries it out."
    return f"Fix {proposal.id} is approved, but no Crashcart acts for {incident.server} now: nobody carries it out yet."


def _around(path: Path | None, cause: Cause | None) -> tuple[LogLine, ...]:
    """The lines before and after the one that proves the cause, without secrets; the log's end where none does."""
    if path is None or cause is None:
        return ()
    wanted = cause.line.number if cause.line else None
    try:
        lines = _read(path, wanted)
    except OSError:
        return ()
    # Together, for what is to be taken out may reach over several lines.
    texts = redact_text("\n".join(text for _, text in lines)).split("\n")
    if len(texts) != len(lines):
        texts = [redact_text(text) for _, text in lines]
    return tuple(
        LogLine(number, shorten(neutralise(text), _LINE_SHOWN), number == wanted)
        for (number, _), text in zip(lines, texts, strict=True)
    )


def _read(path: Path, wanted: int | None) -> list[tuple[int, str]]:
    if path.stat().st_size > _BYTES_READ:  # numbers are counted from the start: a page must not take seconds
        return []
    kept: deque[tuple[int, str]] = deque(maxlen=_BEFORE + 1 if wanted is None else _BEFORE + 1 + _AFTER)
    with path.open("rb") as log:
        for number, raw in enumerate(islice(log, None if wanted is None else wanted + _AFTER), 1):
            kept.append((number, strip_ansi(raw.decode("utf-8", "replace").rstrip("\r\n"))))
    return [(number, text) for number, text in kept if wanted is None or number >= wanted - _BEFORE]
