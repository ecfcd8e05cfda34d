"""`crashcart rules candidates`: failures that no rule knows, those that come again and again first."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from app.cli.rulesload import AsJson, print_json
from app.cli.showing import StateOption, ago, opened, print_table, say
from app.core.vocabulary import Category
from app.service.objects import time_json
from app.store.store import Store
from app.store.views import IncidentView

_MOST = 1000  # incidents, the newest first


@dataclass
class _Candidate:
    """Incidents of one fingerprint; `line` proves the newest of them, and `log` is its kept output."""

    fingerprint: str
    incidents: list[IncidentView]
    line: str | None
    log: Path | None

    @property
    def servers(self) -> list[str]:
        return sorted({one.server for one in self.incidents})

    @property
    def first(self) -> datetime:
        return min(one.opened_at for one in self.incidents)

    @property
    def last(self) -> datetime:
        return max(one.updated_at for one in self.incidents)


def candidates(ctx: typer.Context, as_json: AsJson = False, state: StateOption = None) -> None:
    """List incidents whose cause no rule knows, those with one fingerprint together."""
    with opened(ctx, state) as store:
        found = _found(store)
    if as_json:
        print_json([_as_json(one) for one in found])
        return
    if not found:
        say("No incident without a known cause is kept.")
        return
    print_table(
        ["incidents", "servers", "last", "fingerprint", "line"],
        [
            [str(len(one.incidents)), ", ".join(one.servers), ago(one.last), one.fingerprint, (one.line or "")[:160]]
            for one in found
        ],
    )
    logged = next((one for one in found if one.log is not None), None)
    if logged is not None:
        say()
        say("Draft a rule of the first one whose log is kept:")
        say(f"  crashcart rules new any/NAME --from-log {shlex.quote(str(logged.log))}")


def _found(store: Store) -> list[_Candidate]:
    clusters: dict[str, list[IncidentView]] = {}
    for incident in store.incidents(category=Category.UNKNOWN, limit=_MOST):
        clusters.setdefault(incident.fingerprint, []).append(incident)
    found = [_candidate(store, fingerprint, incidents) for fingerprint, incidents in clusters.items()]
    return sorted(found, key=lambda one: (-len(one.incidents), -one.last.timestamp()))


def _candidate(store: Store, fingerprint: str, incidents: list[IncidentView]) -> _Candidate:
    for incident in incidents:
        for launch in reversed(store.incident(incident.id).launches):
            causes = launch.diagnosis.causes if launch.diagnosis is not None else ()
            if causes and causes[0].category is Category.UNKNOWN:
                line = causes[0].line.text.strip() if causes[0].line is not None else None
                return _Candidate(fingerprint, incidents, line, store.kept_log(launch))
    return _Candidate(fingerprint, incidents, None, None)


def _as_json(one: _Candidate) -> dict[str, Any]:
    return {
        "fingerprint": one.fingerprint,
        "incidents": [incident.id for incident in one.incidents],
        "servers": one.servers,
        "first": time_json(one.first),
        "last": time_json(one.last),
        "line": one.line,
        "log": str(one.log) if one.log is not None else None,
    }
