"""`crashcart report`: someone says that a server crashed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.render import print_card
from app.cli.showing import JsonOption, StateOption, console, kept_log, opened, print_json, print_proposal, say
from app.core.resources import scan_cache
from app.core.vocabulary import Outcome
from app.diagnosis.pipeline import Pipeline
from app.rules.load import load_rules
from app.service.objects import report_json
from app.service.reporting import Report, report

_HELP = """
Tells Crashcart what you saw; it looks at the server's process and log itself and answers with the truth.

A bare word ("crashed") says where to look. Longer text is taken as log and diagnosed together with the kept log;
`-` reads it from standard input. Without --server the only server that is not ready is meant.

Example:

  crashcart report "crashed" --server sglang-30000

Exit codes: 0 not crashed; 1 failed, cause known; 3 failed, cause unknown; 2 unknown or unclear server.
"""


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command(name="report", help=_HELP)(tell)


def tell(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What you saw, or text of the log; - for stdin.")],
    server: Annotated[str | None, typer.Option(metavar="NAME", help="The server that is meant.")] = None,
    as_json: JsonOption = False,
    state: StateOption = None,
) -> None:
    """Prints the truth about the server and ends as `diagnose` does."""
    said = sys.stdin.read() if text == "-" else text
    with opened(ctx, state) as store:
        answer = report(store, said, server, lambda: _pipeline(scan_cache(state or ctx.obj)))
        log = kept_log(store, store.launch(answer.server.launch_id)) if answer.server.launch_id else None
    if as_json:
        print_json(report_json(answer))
    else:
        _show(answer, log)
    raise typer.Exit(answer.exit_code)


def _show(answer: Report, log: str | None) -> None:
    say(f"{answer.server.name}: {answer.text}")
    if answer.diagnosis is not None and answer.diagnosis.outcome is Outcome.FAILED:
        print_card(console(), answer.diagnosis, log=log)
    if answer.proposal is not None:
        print_proposal(answer.proposal, answer.server.command)
    if answer.incident_id is not None:
        say(f"More: crashcart incidents show {answer.incident_id}")


def _pipeline(cache: Path | None) -> Pipeline:
    return Pipeline(load_rules(cache=cache), cache=cache)
