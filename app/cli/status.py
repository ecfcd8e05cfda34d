"""`crashcart status`: what the servers do now."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from app.cli.showing import JsonOption, StateOption, ago, opened, print_json, print_table, say
from app.core.vocabulary import ServerState
from app.service.asking import look
from app.service.objects import server_json
from app.store.giving_back import Missing

_HELP = """
Shows every server: what it does now, what says so, and how far it came.

States are checked against the processes that exist, so a server whose Crashcart is gone is told as such.

Example:

  crashcart status --json
"""


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command(name="status", help=_HELP)(status)


def status(ctx: typer.Context, as_json: JsonOption = False, state: StateOption = None) -> None:
    """Prints one row, or one JSON object a line, for each server."""
    with opened(ctx, state) as store:
        servers = [(server, look(server), store.missing(server.name)) for server in store.list_servers()]
    if as_json:
        for server, truth, missing in servers:
            print_json(server_json(server, truth, missing))
        return
    if not servers:
        say("No server yet. Start one with: crashcart run -- LAUNCH COMMAND")
        return
    rows = []
    for server, truth, missing in servers:
        percent = server.progress.percent if server.progress and not truth.down else None
        shown = f"{percent:.0f} %" if percent is not None and truth.state is not ServerState.READY else ""
        pid = str(truth.pid) if truth.pid is not None else ""
        rows.append(
            [
                server.name,
                server.engine or "",
                truth.state,
                shown,
                ago(server.since),
                pid,
                _evidence(truth.evidence, missing),
            ]
        )
    print_table(["server", "engine", "state", "progress", "since", "pid", "evidence"], rows)


def _evidence(evidence: str, missing: Sequence[Missing]) -> str:
    """What says so, and what a fix has cost: nobody may forget it."""
    lost = ", ".join(one.what for one in missing)
    return f"{evidence}; runs without {lost} since a fix" if lost else evidence
