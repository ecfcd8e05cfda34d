"""`crashcart check`: what would fail, before ten minutes of weight loading."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.launchline import TakesLaunchCommand, needed_launch_command
from app.cli.render import print_cause
from app.cli.styled import Styled, output
from app.core.command import Command
from app.core.model import Cause
from app.core.resources import scan_cache, state_folder
from app.core.vocabulary import Engine
from app.diagnosis.pipeline import Pipeline
from app.rules.load import load_rules
from app.service.objects import cause_json
from app.supervise.flaghelp import catalogue_for
from app.supervise.hostfacts import host_facts, port_facts

_EXAMPLE = """
Says what would fail if this command was started, and how it has to be written.

Example:

  crashcart check -- SGLANG_X=1 python3 -m sglang.launch_server --model-path M --num-speculative-tokens 16

Exit codes: 0 nothing found; 1 it would fail; 2 usage error.
"""


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command(name="check", cls=TakesLaunchCommand, help=_EXAMPLE)(check)


def check(
    ctx: typer.Context,
    engine: Annotated[Engine | None, typer.Option(help="The engine, where the command does not tell.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help='Print {"ok", "findings"}.')] = False,
    state: Annotated[Path | None, typer.Option(help="State folder, where flag catalogues are kept.")] = None,
) -> None:
    """Checks the launch command behind `--` by the rules, the flags of the installed version, and this machine."""
    command = needed_launch_command(ctx, "check", engine)
    cache = state_folder(state or ctx.obj) / "cache" / "flags"
    pipeline = Pipeline(
        load_rules(cache=scan_cache(state or ctx.obj)),
        catalogue_for=lambda one: catalogue_for(one, may_run=True, cache=cache),
        facts_for=lambda one: host_facts(one) | port_facts(one),
    )
    findings = pipeline.check(command, engine)
    if as_json:
        data = {"ok": not findings, "findings": [cause_json(cause, redact=False) for cause in findings]}
        sys.stdout.write(json.dumps(data) + "\n")
    else:
        _show(command, findings)
    raise typer.Exit(1 if findings else 0)


def _show(command: Command, findings: list[Cause]) -> None:
    console = output()
    if not findings:
        console.print(Styled("Nothing found that would fail."), soft_wrap=True)
    for cause in findings:
        print_cause(console, cause, launched=command.words(), redact=False)
