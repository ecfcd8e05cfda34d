"""`crashcart doctor`: whether this machine lets the service do what its configuration says."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from app.cli.showing import JsonOption, StateOption, print_json, say
from app.core.resources import state_folder
from app.service.configfile import find_config, load_config
from app.service.doctor import examine

_HELP = """
Looks whether logs can be read and folders watched, rules are valid, programs are found, the port is free, the
webhook answers, and no log of Crashcart's own is followed. Each finding has an id and a hint.

Example:

  crashcart doctor --config /etc/crashcart/crashcart.yaml

Exit codes: 0 all is well; 1 something is not; 2 the configuration is wrong.
"""


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command(name="doctor", help=_HELP)(doctor)


def doctor(
    ctx: typer.Context,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The configuration (default: crashcart.yaml here, if any).")
    ] = None,
    as_json: JsonOption = False,
    state: StateOption = None,
) -> None:
    """Prints what was looked at."""
    loaded = load_config(find_config(config))
    checks = list(examine(loaded, state_folder(state or ctx.obj or loaded.state)))
    failed = [check for check in checks if not check.ok]
    if as_json:
        print_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            say(f"{'ok  ' if check.ok else 'FAIL'}  {check.id}  {check.subject}: {check.text}")
            if check.hint:
                say(f"      {check.hint}")
        say(f"{len(checks)} checks, {len(failed)} failed")
    raise typer.Exit(1 if failed else 0)
