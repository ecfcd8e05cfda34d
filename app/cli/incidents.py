"""`crashcart incidents`: what failed, what was done about it, and deciding on a proposed fix."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.render import print_card
from app.cli.showing import (
    JsonOption,
    StateOption,
    ago,
    clock,
    console,
    kept_log,
    opened,
    print_json,
    print_proposal,
    print_table,
    say,
)
from app.core.errors import StaleError, UsageError
from app.core.vocabulary import IncidentStatus
from app.core.wording import changes, shell
from app.service.asking import look
from app.service.bundle import bundle_name, write_bundle
from app.service.objects import incident_json, proposal_json
from app.store.store import Store
from app.store.texts import fate
from app.store.views import IncidentView, LaunchView, ProposalView
from app.store.words import Wish

_HELP = """
Lists incidents, shows one, approves or rejects the fix that one proposes.

Example:

  crashcart incidents show 3
"""
_LIST = """
Lists incidents, newest first.

Example:

  crashcart incidents list --status needs-human --json
"""
_SHOW = """
Shows an incident: its launches and what changed between them, the diagnosis, the proposal and the timeline.

Example:

  crashcart incidents show 3
"""
_APPROVE = """
Approves the fix that an incident proposes. Whoever acts for the server (run or serve) carries it out.

Example:

  crashcart incidents approve 3 --fix 5

Exit codes: 0 written down; 1 nothing, or something else, is proposed by now; 2 unknown incident.
"""
_REJECT = """
Rejects the fix that an incident proposes.

Example:

  crashcart incidents reject 3

Exit codes: 0 written down; 1 nothing, or something else, is proposed by now; 2 unknown incident.
"""

_BUNDLE = """
Writes everything that is known of an incident into one archive (tar.gz), secrets taken out: for a bug report.

Example:

  crashcart incidents bundle 3 --output incident.tar.gz
"""

StatusOption = Annotated[IncidentStatus | None, typer.Option("--status", help="Only incidents of this status.")]
ServerOption = Annotated[str | None, typer.Option("--server", metavar="NAME", help="Only incidents of this server.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")]
IncidentArgument = Annotated[int, typer.Argument(metavar="N", help="The incident's number.")]
FixOption = Annotated[
    int | None, typer.Option("--fix", metavar="ID", help="The fix that you looked at; refused if it is another now.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands to the program."""
    group = typer.Typer(help=_HELP, invoke_without_command=True, rich_markup_mode=None)
    group.callback()(overview)
    group.command(name="list", help=_LIST)(list_incidents)
    group.command(name="show", help=_SHOW)(show)
    group.command(name="approve", help=_APPROVE)(approve)
    group.command(name="reject", help=_REJECT)(reject)
    group.command(name="bundle", help=_BUNDLE)(bundle)
    app.add_typer(group, name="incidents")


def overview(
    ctx: typer.Context,
    status: StatusOption = None,
    server: ServerOption = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
    state: StateOption = None,
) -> None:
    """Without a further word this is the list."""
    ctx.obj = state or ctx.obj
    if ctx.invoked_subcommand is None:
        list_incidents(ctx, status, server, limit, as_json, None)


def list_incidents(
    ctx: typer.Context,
    status: StatusOption = None,
    server: ServerOption = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
    state: StateOption = None,
) -> None:
    """Prints one row, or one JSON object a line, for each incident."""
    with opened(ctx, state) as store:
        found = store.incidents(status=status, server=server, limit=limit)
    if as_json:
        for incident in found:
            print_json(incident_json(incident))
        return
    if not found:
        say("No incidents." if status is None and server is None else "No such incidents.")
        return
    rows = [
        [str(view.id), view.server, _status(view), view.category, ago(view.updated_at), view.title] for view in found
    ]
    print_table(["id", "server", "status", "category", "updated", "title"], rows)


def show(ctx: typer.Context, number: IncidentArgument, as_json: JsonOption = False, state: StateOption = None) -> None:
    """Prints all there is about an incident."""
    with opened(ctx, state) as store:
        incident = store.incident(number)
        failed = next((launch for launch in reversed(incident.launches) if launch.diagnosis is not None), None)
        log = kept_log(store, failed)
        folder = store.state / "incidents" / str(number)
        undelivered = store.undelivered(number)
    if as_json:
        print_json(incident_json(incident))
        return
    _show_head(incident)
    for text in undelivered:
        say(f"  ▲ a message about this could not be delivered: {text}")
    _show_launches(incident)
    if failed is not None and failed.diagnosis is not None:
        say()
        print_card(console(), failed.diagnosis, log=log, next_step=_next_step(incident))
    if incident.proposal is not None:
        say()
        print_proposal(incident.proposal, incident.launches[-1].command if incident.launches else ())
    _show_timeline(incident)
    if folder.is_dir():
        say()
        say(f"Evidence: {folder}")


def approve(
    ctx: typer.Context,
    number: IncidentArgument,
    fix: FixOption = None,
    as_json: JsonOption = False,
    state: StateOption = None,
) -> None:
    """Writes down that the proposed fix is wanted."""
    with opened(ctx, state) as store:
        _decide(store, number, fix, Wish.APPROVE, as_json)


def reject(
    ctx: typer.Context,
    number: IncidentArgument,
    fix: FixOption = None,
    as_json: JsonOption = False,
    state: StateOption = None,
) -> None:
    """Writes down that the proposed fix is not wanted."""
    with opened(ctx, state) as store:
        _decide(store, number, fix, Wish.REJECT, as_json)


def bundle(
    ctx: typer.Context,
    number: IncidentArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; by default into this folder.")
    ] = None,
    state: StateOption = None,
) -> None:
    """Writes the archive under another name first: what has the name is complete."""
    path = output or bundle_name(number)
    partial = path.with_name(path.name + ".partial")
    with opened(ctx, state) as store:
        store.incident(number)
        try:
            with partial.open("wb") as file:
                write_bundle(store, number, file)
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise UsageError(f"{path} can't be written: {error.strerror}.", mend="Choose another --output.") from error
    say(f"Written: {path}. Secrets that Crashcart knows are taken out; read it before you hand it on.")


def _decide(store: Store, number: int, fix: int | None, wish: Wish, as_json: bool) -> None:
    try:
        proposal = store.decide(number, fix, wish, _user())
    except StaleError as error:
        sys.stderr.write(f"crashcart: {error}\n")
        if error.mend:
            sys.stderr.write(f"  {error.mend}\n")
        raise typer.Exit(1) from None
    if as_json:
        print_json({"incident": number, "decision": wish, "proposal": proposal_json(proposal)})
        return
    say(f"Fix {proposal.id} of incident {number} is {proposal.status}.")
    if wish is Wish.APPROVE:
        _say_who_acts(store, number, proposal)


def _say_who_acts(store: Store, number: int, proposal: ProposalView) -> None:
    name = store.incident(number).server
    server = store.get_server(name)
    if server is not None and server.supervisor is not None and look(server).supervised:
        say(f"Crashcart (pid {server.supervisor.pid}), which acts for {name}, carries it out.")
        return
    say(f"No Crashcart acts for {name} now. To start it with this fix:")
    say(f"  crashcart run --name {name} -- {shell(proposal.command)}")
    if any("[redacted]" in word for word in proposal.command):
        say("  (with your secrets in the place of [redacted])")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "someone"


def _status(view: IncidentView) -> str:
    return f"{view.status} (regressed)" if view.regressed else str(view.status)


def _show_head(incident: IncidentView) -> None:
    say(f"Incident {incident.id} · {incident.server} · {_status(incident)}")
    say(f"  {incident.title} ({incident.category})")
    ended = f", resolved {ago(incident.resolved_at)}" if incident.resolved_at else ""
    say(f"  opened {clock(incident.opened_at)} ({ago(incident.opened_at)}){ended}")


def _show_launches(incident: IncidentView) -> None:
    before: LaunchView | None = None
    for number, launch in enumerate(incident.launches, 1):
        say()
        say(f"Launch {number} ({clock(launch.started_at)}): {fate(launch)}")
        if before is None:
            say(f"    {shell(launch.command)}")
        elif before.command == launch.command:
            say("    the same command again")
        else:
            for line in changes(before.command, launch.command):
                say(f"    {line}")
        if launch.diagnosis is not None and launch.diagnosis.causes:
            say(f"    → {launch.diagnosis.causes[0].title}")
        before = launch


def _next_step(incident: IncidentView) -> str | None:
    """What a person is to do; None leaves it to the card."""
    if incident.status is IncidentStatus.RESOLVED:
        return "nothing, this is resolved."
    if incident.status in (IncidentStatus.RELAUNCHING, IncidentStatus.VERIFYING):
        return f"nothing, it is being brought back ({incident.status})."
    return f"crashcart incidents approve {incident.id}" if incident.proposal is not None else None


def _show_timeline(incident: IncidentView) -> None:
    if not incident.timeline:
        return
    say()
    say("Timeline:")
    for line in incident.timeline:
        say(f"  {clock(line.at)}  {line.kind:<12} {line.text}")
