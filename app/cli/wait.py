"""`crashcart wait`: returns at the moment when a server is ready or down."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.render import print_card
from app.cli.showing import JsonOption, StateOption, console, kept_log, opened, prepare, print_json, print_proposal, say
from app.core.durations import seconds
from app.service.asking import Answer, Until, wait
from app.service.objects import wait_json

_HELP = """
Waits until a server is ready (or down) and says at once when it dies instead: why, and what is proposed.

Example:

  crashcart wait sglang-30000 --until ready --timeout 20m && ./load-test.sh

Exit codes: 0 reached; 1 dead and nothing more happens by itself; 4 time is up; 2 unknown server.
"""
_INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command(name="wait", help=_HELP)(wait_for)


def wait_for(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The server's name (see `crashcart status`).")],
    until: Annotated[Until, typer.Option(help="What to wait for.")] = Until.READY,
    timeout: Annotated[
        str | None, typer.Option(metavar="S", help="Give up after this time: 30, 30s, 2m. Default: never.")
    ] = None,
    as_json: JsonOption = False,
    state: StateOption = None,
) -> None:
    """Waits, prints the answer and ends with its exit code."""
    limit = None if timeout is None else seconds(timeout)
    try:
        prepare()
        with opened(ctx, state) as store:
            answer = wait(store, name, until, limit)
            log = kept_log(store, answer.launch)
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    if as_json:
        print_json(wait_json(answer))
    else:
        _show(answer, until, log)
    raise typer.Exit(answer.exit_code)


def _show(answer: Answer, until: Until, log: str | None) -> None:
    say(f"{answer.server.name}: {answer.text}")
    if answer.diagnosis is not None and not (answer.reached and until is Until.READY):
        print_card(console(), answer.diagnosis, log=log)
    if answer.proposal is not None:
        print_proposal(answer.proposal, answer.launch.command if answer.launch else ())
    if answer.incident_id is not None and not answer.reached:
        say(f"More: crashcart incidents show {answer.incident_id}")
