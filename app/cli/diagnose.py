"""`crashcart diagnose`: the post-mortem of a log."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.launchline import TakesLaunchCommand, launch_words
from app.cli.postmortem import Asked, diagnose_logs
from app.core.vocabulary import Engine

_EXAMPLE = """
Says why a server died: root cause, the line that proves it, and the corrected command.

Example:

  crashcart diagnose server.log --exit-code 1 -- python3 -m sglang.launch_server --model-path M --tp 2

Exit codes: 0 healthy, starting or nothing to say; 1 failed, cause known; 3 failed, cause unknown; 2 usage error.
"""


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command(name="diagnose", cls=TakesLaunchCommand, help=_EXAMPLE)(diagnose)


def diagnose(
    ctx: typer.Context,
    logs: Annotated[
        list[str], typer.Argument(metavar="LOG|-...", help="Log files, also gzipped, or - for standard input.")
    ],
    engine: Annotated[
        Engine | None, typer.Option(help="The engine that wrote the log, where it can't be told.")
    ] = None,
    exit_code: Annotated[
        int | None, typer.Option("--exit-code", help="How the process ended: 1, -9 or 137, as it is known.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each log.")] = False,
) -> None:
    """Diagnoses each log; the launch command behind `--` belongs to all of them."""
    raise typer.Exit(diagnose_logs(Asked(logs, engine, exit_code, as_json, launch_words(ctx), ctx.obj)))
