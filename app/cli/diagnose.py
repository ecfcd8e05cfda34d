"""`crashcart diagnose`: the post-mortem of a log."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.launchline import TakesLaunchCommand, launch_command
from app.cli.render import print_card
from app.core.command import Command
from app.core.errors import UsageError
from app.core.model import Diagnosis, Exit
from app.core.resources import scan_cache
from app.core.vocabulary import Category, Engine, Outcome
from app.diagnosis.pipeline import Pipeline
from app.rules.load import load_rules
from app.service.objects import diagnosis_json

_EXAMPLE = """
Says why a server died: root cause, the line that proves it, and the corrected command.

Example:

  crashcart diagnose server.log --exit-code 1 -- python3 -m sglang.launch_server --model-path M --tp 2

Exit codes: 0 healthy, starting or nothing to say; 1 failed, cause known; 3 failed, cause unknown; 2 usage error.
"""
_LOOKED_AT = 4096
_COMPRESSED = {b"\x1f\x8b": "gunzip -c", b"(\xb5\x2f\xfd": "zstd -dc", b"\xfd7zXZ": "xz -dc", b"BZh": "bzip2 -dc"}


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command(name="diagnose", cls=TakesLaunchCommand, help=_EXAMPLE)(diagnose)


def diagnose(
    ctx: typer.Context,
    logs: Annotated[list[str], typer.Argument(metavar="LOG|-...", help="Log files, or - for standard input.")],
    engine: Annotated[
        Engine | None, typer.Option(help="The engine that wrote the log, where it can't be told.")
    ] = None,
    exit_code: Annotated[
        int | None, typer.Option("--exit-code", help="How the process ended: 1, -9 or 137, as it is known.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each log.")] = False,
) -> None:
    """Diagnoses each log; the launch command behind `--` belongs to all of them."""
    command = launch_command(ctx, engine)
    for log in logs:
        _must_be_text(log)
    pipeline = Pipeline(load_rules(), cache=scan_cache(ctx.obj))
    codes = [_one(pipeline, log, engine, command, Exit.from_code(exit_code), as_json, len(logs) > 1) for log in logs]
    raise typer.Exit(1 if 1 in codes else max(codes, default=0))


def _one(
    pipeline: Pipeline, log: str, engine: Engine | None, command: Command | None, exit: Exit, as_json: bool, many: bool
) -> int:
    diagnosis = pipeline.diagnose_file(log, engine=engine, command=command, exit=exit)
    name = "standard input" if log == "-" else log
    if as_json:
        data = diagnosis_json(diagnosis, redact=False)
        sys.stdout.write(json.dumps({"log": log} | data if many else data) + "\n")
    else:
        _show(diagnosis, name, many)
    return exit_status(diagnosis)


def _show(diagnosis: Diagnosis, name: str, many: bool) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if many:
        console.print(f"{name}:", markup=False, style="bold", soft_wrap=True)
    print_card(console, diagnosis, log=name, redact=False)


def exit_status(diagnosis: Diagnosis) -> int:
    """0 when nothing failed, 1 for a known cause, 3 for an unknown one."""
    if diagnosis.outcome is not Outcome.FAILED or not diagnosis.causes:
        return 0
    return 3 if diagnosis.causes[0].category is Category.UNKNOWN else 1


def _must_be_text(log: str) -> None:
    """Refuses what is certainly no log, with the command that makes one of it."""
    if log == "-":
        return
    path = Path(log)
    try:
        if path.is_dir():
            raise UsageError(f"{log} is a folder.", mend="Name a log file in it.")
        with path.open("rb") as stream:
            head = stream.read(_LOOKED_AT) if path.is_file() else b""
    except OSError as error:
        raise UsageError(
            f"The log {log} can't be read: {error.strerror}.", mend="Name a readable file, or - for standard input."
        ) from error
    for magic, tool in _COMPRESSED.items():
        if head.startswith(magic):
            raise UsageError(f"{log} is compressed.", mend=f"Unpack it: {tool} {log} | crashcart diagnose -")
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not wide and head.count(0) > len(head) // 10:
        raise UsageError(f"{log} is a binary file.", mend="Name a text file: the output of the server.")
