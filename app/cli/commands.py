"""The command line as Typer reads it: loads the module of the command asked for and hands over."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from app import __version__

# Command → module with `register(app)`.
_MODULES = {
    "diagnose": "app.cli.diagnose",
    "check": "app.cli.check",
    "run": "app.cli.run",
    "wait": "app.cli.wait",
    "status": "app.cli.status",
    "report": "app.cli.report",
    "incidents": "app.cli.incidents",
    "rules": "app.cli.rules",
    "demo": "app.cli.demo",
    "serve": "app.cli.serve",
    "doctor": "app.cli.doctor",
}


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crashcart {__version__}")
        raise typer.Exit


def common(
    ctx: typer.Context,
    state: Annotated[Path | None, typer.Option(help="State folder (default: $XDG_STATE_HOME/crashcart).")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Says why an LLM inference server died, and brings it back with corrected arguments."""
    ctx.obj = state


def build_app(arguments: Sequence[str]) -> typer.Typer:
    """The command line for these arguments.

    Only the module of the command that they name is imported: the post-mortem of one log must not wait for the
    database layer. Help and unknown commands get them all.
    """
    app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)
    app.callback()(common)
    named = next((word for word in arguments if word in _MODULES), None)
    wanted = [_MODULES[named]] if named else list(_MODULES.values())
    for module in wanted:
        importlib.import_module(module).register(app)
    return app
