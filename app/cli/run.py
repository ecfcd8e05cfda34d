"""`crashcart run`: a supervised server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.cli.launchline import TakesLaunchCommand, needed_launch_command
from app.cli.render import print_card, print_cause
from app.core.command import Command
from app.core.errors import UsageError
from app.core.model import Cause, Diagnosis
from app.core.resources import scan_cache, state_folder
from app.core.vocabulary import Engine, Mode, Safety
from app.diagnosis.pipeline import Pipeline
from app.rules.load import load_rules
from app.service.following import Timings
from app.service.options import RunOptions, RunResult, default_health, default_name
from app.service.runner import Runner
from app.store.locks import checked_name
from app.store.store import Store
from app.supervise.flaghelp import catalogue_for
from app.supervise.hostfacts import host_facts

_EXAMPLE = """
Starts a server and looks after it: output passed through and kept, phases and health followed, a crash diagnosed,
and the corrected command started again where the mode allows it.

Example:

  crashcart run --mode auto -- python3 -m sglang.launch_server --model-path M --port 30000

Exit codes: 0 only when stopped by you after it was ready; else the last exit code (128+n for signal n, 1 where the
server said 0); 2 usage error.
"""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command(name="run", cls=TakesLaunchCommand, help=_EXAMPLE)(run)


def run(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Option(help="The server's name (default: engine-port).")] = None,
    engine: Annotated[Engine | None, typer.Option(help="The engine, where the command does not tell.")] = None,
    mode: Annotated[Mode, typer.Option(help="What may be done after a crash.")] = Mode.PROPOSE,
    allow: Annotated[str, typer.Option(help="safe or degrading: what auto may do alone.")] = "safe",
    health: Annotated[str | None, typer.Option(help="Health URL (default: the engine's own).")] = None,
    settle: Annotated[str, typer.Option(help="How long it must stay ready until a fix has held.")] = "30s",
    hang_restart: Annotated[
        str, typer.Option(help="auto: how long a ready server shows no sign of life until it is restarted; 0: never.")
    ] = "5m",
    preflight: Annotated[bool, typer.Option("--preflight/--no-preflight", help="Check before the start.")] = True,
    max_relaunches: Annotated[int, typer.Option(min=0, help="Changed commands in one incident.")] = 5,
    log: Annotated[Path | None, typer.Option(help="Where the output is kept (default: in the state folder).")] = None,
    wait_decision: Annotated[
        str, typer.Option(help="Without a terminal: how long to wait for `incidents approve`.")
    ] = "0",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one object at the end; output goes to stderr.")
    ] = False,
    state: Annotated[Path | None, typer.Option(help="State folder (default: $XDG_STATE_HOME/crashcart).")] = None,
) -> None:
    """Runs the launch command behind `--` until it is stopped or nothing more may be done."""
    command = needed_launch_command(ctx, "run", engine)
    options = RunOptions(
        name=checked_name(name or default_name(command, engine)),
        command=command,
        engine=engine,
        mode=mode,
        allow=_allowed(allow),
        health=_url(health) or default_health(command, engine),
        preflight=preflight,
        max_relaunches=max_relaunches,
        log=_writable(log),
        wait_decision=duration(wait_decision, "--wait-decision"),
    )
    timings = Timings().of(duration(settle, "--settle"), duration(hang_restart, "--hang-restart"))
    result = _run(options, timings, state_folder(state or ctx.obj), ConsoleTerminal(as_json))
    if as_json:
        sys.stdout.write(json.dumps(result_json(result)) + "\n")
    raise typer.Exit(result.exit_code)


def _run(options: RunOptions, timings: Timings, state: Path, terminal: ConsoleTerminal) -> RunResult:
    rules = load_rules(cache=scan_cache(state))
    cache = state / "cache" / "flags"
    with Store.open(state) as store:
        runner = Runner(
            options,
            store,
            # A death is diagnosed at once: with the flags that are known by then. Pre-flight may ask the program.
            Pipeline(
                rules,
                catalogue_for=lambda one: catalogue_for(one, may_run=False, cache=cache),
                cache=scan_cache(state),
            ),
            terminal,
            checker=Pipeline(
                rules, catalogue_for=lambda one: catalogue_for(one, may_run=True, cache=cache), facts_for=host_facts
            ),
            timings=timings,
        )
        return asyncio.run(runner.run())


def result_json(result: RunResult) -> dict[str, object]:
    """What `run --json` prints at its end; the command was typed into this very call, so it is whole."""
    return {
        "server": result.server,
        "incident": result.incident,
        "launches": result.launches,
        "state": result.state.value,
        "command": list(result.command),
        "changed": result.changed,
        "exit": result.exit_code,
    }


def duration(text: str, option: str) -> float:
    """Seconds from "30", "30s", "2m" or "1.5h"."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option} {text!r} is no duration.", mend="Write it like 30, 30s or 2m.")
    return float(found[1]) * _UNITS[found[2]]


def _allowed(text: str) -> Safety:
    if text not in (Safety.SAFE, Safety.DEGRADING):
        raise UsageError(f"--allow {text!r} is not possible.", mend="Write --allow safe or --allow degrading.")
    return Safety(text)


def _url(text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"https?://[^\s/]+\S*", text):
        raise UsageError(f"--health {text!r} is no URL.", mend="Write it like http://127.0.0.1:30000/health.")
    return text


def _writable(log: Path | None) -> Path | None:
    """The log's whole path; an error now is better than one after the server has started."""
    if log is None:
        return None
    try:
        with log.open("ab"):
            return log.absolute()
    except OSError as error:
        raise UsageError(f"--log {log} can't be written: {error.strerror}.", mend="Give a file that can be.") from error


class ConsoleTerminal:
    """The real terminal: the server's output on stdout (stderr with `--json`), our own words on stderr."""

    def __init__(self, as_json: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._output = sys.stderr.buffer if as_json else sys.stdout.buffer

    @property
    def interactive(self) -> bool:
        return sys.stdin.isatty() and self._console.is_terminal

    def say(self, text: str) -> None:
        with self._closed_is_fine():
            self._console.print(f"crashcart: {text}", markup=False, soft_wrap=True, style="cyan")

    def show(self, diagnosis: Diagnosis, *, log: Path | None, next_step: str) -> None:
        with self._closed_is_fine():
            print_card(self._console, diagnosis, log=str(log) if log else None, redact=False, next_step=next_step)

    def show_findings(self, command: Command, findings: Sequence[Cause]) -> None:
        self.say(f"pre-flight: {len(findings)} finding{'s' if len(findings) > 1 else ''}")
        with self._closed_is_fine():
            for cause in findings:
                print_cause(self._console, cause, launched=command.words(), redact=False)

    def show_command(self, title: str, command: Command) -> None:
        self.say(f"{title}:")
        with self._closed_is_fine():
            self._console.print(command.shell(), markup=False, soft_wrap=True, style="bold green")

    def pass_on(self, data: bytes) -> None:
        self._output.write(data)
        self._output.flush()

    async def ask(self, question: str, answers: str) -> str:
        """Reads lines until one begins with an answer; the last of `answers` when there is nobody any more."""
        while True:
            with self._closed_is_fine():
                self._console.print(f"{question} ", end="", markup=False, style="bold")
            line = await _line_of_input()
            if line is None:
                return answers[-1]
            if line.strip()[:1].lower() in tuple(answers):
                return line.strip()[:1].lower()

    @contextlib.contextmanager
    def _closed_is_fine(self) -> Iterator[None]:
        """A terminal that went away must not take the server with it."""
        with contextlib.suppress(OSError, ValueError):
            yield


async def _line_of_input() -> str | None:
    """One line from the terminal; None at its end. Can be cancelled, unlike a thread that reads."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    got: asyncio.Future[str | None] = loop.create_future()

    def read() -> None:
        try:
            data = os.read(descriptor, 4096)
        except OSError:
            data = b""
        if not got.done():
            got.set_result(data.decode("utf-8", "replace") if data else None)

    loop.add_reader(descriptor, read)
    try:
        return await got
    finally:
        loop.remove_reader(descriptor)
