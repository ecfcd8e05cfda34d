"""How the commands that answer from the store show times, tables, proposals and JSON."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.render import print_card
from app.core import wording
from app.core.model import Cause, Diagnosis, Fix
from app.core.text import neutralise, shorten
from app.core.vocabulary import Category, Confidence, Outcome, Phase
from app.core.wording import changes, shell
from app.store.encode import diagnosis_in, diagnosis_out
from app.store.store import Store
from app.store.views import LaunchView, ProposalView

if TYPE_CHECKING:
    from rich.console import Console

StateOption = Annotated[Path | None, typer.Option("--state", metavar="DIR", help="State folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_WIDEST = 120  # characters of a log text in a table of a pipe


def opened(ctx: typer.Context, state: Path | None) -> Store:
    """The store of the folder that was named, on this command or before it."""
    return Store.open(state or ctx.obj)


def console() -> Console:
    """Standard output: a table fits a terminal's width, a pipe gets lines of any length."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def prepare() -> None:
    """Prints a card to nowhere: what printing loads is loaded before it has to be quick."""
    from rich.console import Console

    cause = Cause("", Category.UNKNOWN, "", "", Confidence.LOW, command=("serve",), fix=Fix(set={"--a": "1"}))
    sample = Diagnosis(Outcome.FAILED, Phase.STARTING, causes=(cause,), command=("serve",))
    stored = diagnosis_out(diagnosis_in(sample))
    print_card(Console(file=io.StringIO(), force_terminal=sys.stdout.isatty()), stored or sample)


def print_json(data: Any) -> None:
    """One object on one line."""
    sys.stdout.write(json.dumps(data) + "\n")


def say(text: str = "") -> None:
    """One line of plain text: what came from logs and people can't steer the terminal or add lines of its own."""
    sys.stdout.write(neutralise(text).replace("\n", " ") + "\n")


def ago(at: datetime) -> str:
    """How long ago, as people say it."""
    return wording.ago(at, datetime.now(UTC))


def clock(at: datetime) -> str:
    """The local time of an event, to the second."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns on a terminal, one tab-separated line each in a pipe."""
    rows = [[neutralise(cell).replace("\t", " ").replace("\n", " ") for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [[header.upper() for header in headers], *rows]:
            sys.stdout.write("\t".join(shorten(cell, _WIDEST) for cell in row) + "\n")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, header in enumerate(headers):
        table.add_column(header, no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def kept_log(store: Store, launch: LaunchView | None) -> str | None:
    """The copy of a launch's output, which its diagnosis counts the lines of; None where none was kept."""
    path = store.kept_log(launch) if launch is not None else None
    return None if path is None else str(path)


def print_proposal(proposal: ProposalView, command: Sequence[str]) -> None:
    """What is proposed, what it costs and how to say yes or no."""
    what = proposal.title or ("Restart the same command" if proposal.fix is None else "Change the command")
    say(f"Proposed fix {proposal.id} ({proposal.safety}): {what}")
    for line in changes(command, proposal.command):
        say(f"    {line}")
    if proposal.loses:
        say(f"  Loses: {', '.join(proposal.loses)}")
    for guard in proposal.guards:
        say(f"  Guard: {guard}")
    say(f"  Command: {shell(proposal.command)}")
    say(f"  Approve: crashcart incidents approve {proposal.incident_id}")
    say(f"  Reject:  crashcart incidents reject {proposal.incident_id}")
