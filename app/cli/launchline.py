"""The launch command that stands behind `--` on the command lines of `diagnose`, `check` and `run`."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from app.cli.launchwords import command_of, parted, unquoted
from app.core.command import Command
from app.core.errors import UsageError
from app.core.vocabulary import Engine

_KEY = "crashcart.launch"


class TakesLaunchCommand(TyperCommand):
    """A command whose words behind the first `--` are kept apart, untouched: they are another program's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses what stands before `--`."""
        own, ctx.meta[_KEY] = parted(args)
        return super().parse_args(ctx, own)


def launch_words(ctx: typer.Context) -> tuple[str, ...]:
    """The words behind `--`; none when there is no `--`."""
    return unquoted(ctx.meta.get(_KEY, ()))


def launch_command(ctx: typer.Context, engine: Engine | None = None) -> Command | None:
    """The launch command given, if one is."""
    return command_of(ctx.meta.get(_KEY, ()), engine)


def needed_launch_command(ctx: typer.Context, name: str, engine: Engine | None = None) -> Command:
    """The launch command; a usage error with an example when there is none."""
    command = launch_command(ctx, engine)
    if command is None:
        raise UsageError(
            "There is no launch command.",
            mend=f"Write it behind --, for example: crashcart {name} -- python3 -m sglang.launch_server --model-path M",
        )
    return command
