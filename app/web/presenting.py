"""What templates need to show values: words with icons, times, commands and texts that strangers wrote."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app import __version__
from app.core.redact import redact_text
from app.core.text import neutralise
from app.core.vocabulary import IncidentStatus, ServerState
from app.core.wording import ago, difference, shell

TEMPLATES = Path(__file__).parent / "templates"
STATIC = Path(__file__).parent / "static"


class Badge(NamedTuple):
    """A state as it is shown: never by its colour alone."""

    tone: str
    icon: str
    word: str


INCIDENTS: Mapping[IncidentStatus, Badge] = {
    IncidentStatus.OPEN: Badge("error", "●", "Open"),
    IncidentStatus.PROPOSED: Badge("warn", "▲", "Needs your decision"),
    IncidentStatus.RELAUNCHING: Badge("info", "↻", "Relaunching"),
    IncidentStatus.VERIFYING: Badge("info", "↻", "Verifying"),
    IncidentStatus.RESOLVED: Badge("ok", "✓", "Resolved"),
    IncidentStatus.NEEDS_HUMAN: Badge("fatal", "✖", "Needs a person"),
}
SERVERS: Mapping[ServerState, Badge] = {
    ServerState.STARTING: Badge("info", "↻", "Starting"),
    ServerState.LOADING: Badge("info", "↻", "Loading"),
    ServerState.WARMING: Badge("info", "↻", "Warming up"),
    ServerState.READY: Badge("ok", "✓", "Ready"),
    ServerState.DEGRADED: Badge("warn", "▲", "Degraded"),
    ServerState.STALLED: Badge("warn", "▲", "Stalled"),
    ServerState.HUNG: Badge("error", "●", "Hung"),
    ServerState.EXITED: Badge("fatal", "✖", "Exited"),
    ServerState.STOPPED: Badge("muted", "–", "Stopped"),
    ServerState.GAVE_UP: Badge("fatal", "✖", "Gave up"),
}
_TIMELINE: Mapping[str, tuple[str, str]] = {
    "died": ("fatal", "✖"),
    "failed": ("error", "●"),
    "interrupted": ("error", "●"),
    "needs-human": ("fatal", "✖"),
    "proposed": ("warn", "▲"),
    "decided": ("info", "→"),
    "attempt": ("info", "↻"),
    "verifying": ("info", "↻"),
    "resolved": ("ok", "✓"),
}


def environment() -> Environment:
    """Jinja with escaping always on, for log text is hostile; a name that a template gets wrong is an error."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(when=when, shown=shown, shown_raw=neutralise)
    made.filters["shell"] = lambda words: neutralise(shell(words))
    made.globals.update(
        incident_badge=INCIDENTS.__getitem__,
        server_badge=SERVERS.__getitem__,
        timeline_mark=lambda kind: _TIMELINE.get(kind, ("muted", "·")),
        difference=difference,
        version=__version__,
    )
    return made


def shown(text: str) -> str:
    """A stranger's text without secrets, with what could deceive its reader made visible."""
    return neutralise(redact_text(text))


def when(at: datetime) -> Markup:
    """How long ago, with the moment itself in the tooltip and, for programs, in the attribute."""
    utc = at.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z"),
        ago(at, datetime.now(UTC)),
    )
