"""`crashcart demo`: the story of a server that dies three times and comes back, told for a newcomer."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from app.core.errors import UsageError
from app.core.resources import state_folder
from app.core.text import neutralise, strip_ansi
from app.service import demo
from app.service.demo import Foresight, Recovery, Stage, Truth

if TYPE_CHECKING:
    from app.service.config import Config

_INTRO = """\
Three acts, about twenty seconds, no GPU and no download: a stand-in ("practice server") plays an LLM inference \
server. It has SGLang's flags, log lines and ways to die, but no model. Crashcart itself is the real one."""

_ACT_ONE = """\
This launch command has three mistakes: a flag that the server doesn't know, one that is missing, and a setting that \
two others don't go with. Each shows only after the one before is mended. Crashcart may correct the command by itself \
(--mode auto), even where that costs some speed (--allow degrading)."""

_ACT_TWO = """\
Weights of a large model load for ten minutes before such mistakes show. `check` reads the same command and starts \
nothing."""

_ACT_THREE = """\
Now a correct command, and a death that leaves no line in the log: something kills the server while it loads its \
weights. Someone is waiting for it with `crashcart wait`."""


_PIPED = 160  # characters of a server's line where no terminal's width bounds it


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("demo", epilog="Example: crashcart demo")(play)


def play(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON instead of the story.")] = False,
    state: Annotated[Path | None, typer.Option(help="State folder; the demo uses `demo` below it.")] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Then show its incidents on the pages, until Ctrl-C.")] = False,
) -> None:
    """Play a crash and its mending in three acts, without a GPU or downloads.

    Exit 0 when the story ended as told: three failed launches, a healthy fourth, an incident resolved.
    """
    console = Console(quiet=as_json, highlight=False, soft_wrap=False)
    config = _to_serve() if serve else None
    begin = time.monotonic()
    with (
        _ended_by_signals(),
        demo.stage(state_folder(state or ctx.obj), width=_inner(console), color=_color(console)) as stage,
    ):
        _title(console, "Crashcart demo")
        console.print(_INTRO)
        console.print(f"Records are kept apart from those of your servers, in {stage.state}.")
        command = demo.wrong_command(demo.free_port())
        recovery = _act_one(console, stage, command)
        foresight = _act_two(console, stage, command)
        truth = _act_three(console, stage)
    seconds = time.monotonic() - begin
    as_told = recovery.as_told and foresight.as_told and truth.as_told
    _ending(console, stage, recovery, as_told, seconds)
    if as_json:
        typer.echo(json.dumps(_summary(stage, recovery, foresight, truth, seconds), indent=2))
    if config is not None and as_told:
        _serve(console, stage.state, config, recovery)
    raise typer.Exit(0 if as_told else 1)


def _to_serve() -> Config:
    """The configuration of the service that follows; UsageError at once when its address is taken."""
    from app.service.configfile import load_config
    from app.supervise.ports import port_holder

    config = load_config(None)
    held = port_holder(config.listen.port, config.listen.host)
    if held is not None:
        raise UsageError(
            f"The pages can't be served at {config.listen.url}: {held}.",
            mend="End that process, or set CRASHCART_LISTEN=127.0.0.1:8322 for another port.",
        )
    return config


def _serve(console: Console, state: Path, config: Config, recovery: Recovery) -> None:
    """The service on the demo's records; what it needs is loaded only now."""
    from app.cli.serve import serve_folder

    incident = recovery.incident.id if recovery.incident else ""
    console.print()
    console.print(
        f"Its incident is served at {config.listen.url}/ui/incidents/{incident} (Ctrl-C ends it).", style="bold"
    )
    serve_folder(None, config, state)


def _act_one(console: Console, stage: Stage, command: list[str]) -> Recovery:
    _title(console, "Act one: three crashes, three corrected launches")
    console.print(_ACT_ONE)
    _prompt(console, demo.typed(demo.run_words(command)))
    quoted = Quotation(console)
    recovery = demo.recover(stage, command, quoted.line, quoted.server_line)
    if recovery.as_told and recovery.incident is not None:
        text = f"Incident {recovery.incident.id} resolved: {recovery.failed} launches failed, the next one is healthy"
        _good(console, f"{text}, after {recovery.seconds:.0f} s and without anyone's help.")
    else:
        _bad(console, f"Not as told: {recovery.launches} launches, {recovery.failed} of them failed.")
    return recovery


def _act_two(console: Console, stage: Stage, command: list[str]) -> Foresight:
    _title(console, "Act two: the same command, before anything starts")
    console.print(_ACT_TWO)
    _prompt(console, demo.typed(demo.check_words(command)))
    foresight = demo.foresee(stage, command, Quotation(console).line)
    if foresight.as_told:
        _good(console, f"Known after {foresight.seconds:.1f} s, with no process started.")
    else:
        _bad(console, f"Not as told: check ended with exit code {foresight.exit_code}.")
    return foresight


def _act_three(console: Console, stage: Stage) -> Truth:
    _title(console, "Act three: killed at two thirds of loading")
    console.print(_ACT_THREE)
    _prompt(console, demo.typed(demo.wait_words()))

    def killed(pid: int, percent: float) -> None:
        console.print(f"  at {percent:.0f} %: kill -9 {pid}", style="bold")

    truth = demo.kill_while_loading(stage, Quotation(console).line, killed)
    if truth.as_told:
        _good(console, f"`wait` told the truth {truth.seconds:.1f} s after the kill.")
    else:
        _bad(console, "Not as told: `wait` did not name the kill and how far loading had come.")
    return truth


def _ending(console: Console, stage: Stage, recovery: Recovery, as_told: bool, seconds: float) -> None:
    console.print()
    if as_told and recovery.incident is not None:
        look = f"crashcart incidents show {recovery.incident.id} --state {stage.state}"
        console.print(f"That was all, in {seconds:.0f} s. It is kept; look around with:")
        console.print(f"  {look}", soft_wrap=True)
        console.print("On your own server: put `crashcart run --` before its launch command.")
    else:
        _bad(console, f"The story did not end as told. What happened is kept in {stage.state}.")


def _summary(stage: Stage, recovery: Recovery, foresight: Foresight, truth: Truth, seconds: float) -> dict[str, Any]:
    return {
        "incident": recovery.incident.id if recovery.incident else None,
        "launches": recovery.launches,
        "failed": recovery.failed,
        "resolved": recovery.resolved,
        "check": {"exit_code": foresight.exit_code, "seconds": round(foresight.seconds, 2)},
        "killed": {"percent": truth.percent, "seconds": round(truth.seconds, 2), "told": truth.as_told},
        "seconds": round(seconds, 1),
        "state": str(stage.state),
    }


class Quotation:
    """What commands print, indented. Of a server's output, the usage block is folded: it is long and not the point."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._folded = 0
        self._in_usage = False

    def line(self, raw: str) -> None:
        """A line of Crashcart's own: laid out for our width already."""
        self._console.print(Text.assemble("  ", Text.from_ansi(raw)), soft_wrap=True)

    def server_line(self, raw: str) -> None:
        """A line of the server's: cut to the width, as it comes from a stranger."""
        line = neutralise(strip_ansi(raw.rstrip("\r").rpartition("\r")[2]))
        if line.strip() and not self._folds(line):
            self._quote(line)

    def _quote(self, line: str) -> None:
        room = self._console.width - 4 if self._console.is_terminal else _PIPED
        cut = line if len(line) <= room else f"{line[: room - 1]}…"
        self._console.print(Text(f"  │ {cut}", style="dim"), soft_wrap=True)

    def _folds(self, line: str) -> bool:
        if line.startswith("usage: "):
            self._in_usage = True
            return False
        if self._in_usage and line.startswith(" "):
            self._folded += 1
            return True
        if self._in_usage:
            self._quote(f"  … {self._folded} more lines of usage")
            self._in_usage, self._folded = False, 0
        return False


def _title(console: Console, text: str) -> None:
    console.print()
    console.rule(Text(text, style="bold"), align="left", style="dim", characters="─")


def _prompt(console: Console, command: str) -> None:
    console.print()
    console.print(Text.assemble(("$ ", "dim"), (neutralise(command), "bold")))


def _good(console: Console, text: str) -> None:
    console.print(f"✓ {text}", style="green")


def _bad(console: Console, text: str) -> None:
    console.print(f"✗ {text}", style="red")


def _inner(console: Console) -> int:
    return max(console.width - 4, 36)


def _color(console: Console) -> bool:
    return console.is_terminal and not console.no_color


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind like Ctrl-C, so that no process is left behind."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("\ncrashcart demo: stopped; nothing is left running.\n")
        raise typer.Exit(130) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
