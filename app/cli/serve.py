"""`crashcart serve`: the service that runs beside the servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from app.cli.showing import JsonOption, StateOption, print_json, say
from app.core.resources import state_folder
from app.rules.load import load_rules
from app.service.config import Config
from app.service.configfile import doubtful, find_config, load_config
from app.service.ownlog import set_up_logs
from app.service.serve import Override, Service
from app.store.store import Store
from app.web.app import create_app

_HELP = """
Follows the logs of servers, supervises those that it starts, keeps incidents, tells people, and serves pages and an
API. What it does is said in one file; all its keys: docs/configuration.md.

Example:

  crashcart serve --config /etc/crashcart/crashcart.yaml

A changed file, or SIGHUP, is taken up while it runs. Exit codes: 0 stopped by you; 2 the configuration is wrong or
the address is taken.
"""


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command(name="serve", help=_HELP)(serve)


def serve(
    ctx: typer.Context,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The configuration (default: crashcart.yaml here, if any).")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Listen here instead of where the file says.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Listen on this port instead.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Check configuration and rules, and stop.")] = False,
    as_json: JsonOption = False,
    state: StateOption = None,
) -> None:
    """Serves until it is stopped."""
    path = find_config(config)
    loaded = load_config(path, host=host, port=port)
    if check:
        raise typer.Exit(_check(path, loaded, as_json))
    folder = state_folder(state or ctx.obj or loaded.state)
    raise typer.Exit(serve_folder(path, loaded, folder, Override(host, port)))


def _check(path: Path | None, config: Config, as_json: bool) -> int:
    rules = load_rules(list(config.rules) or None)
    problems = [str(problem) for problem in rules.problems]
    if as_json:
        servers = [
            {"name": name, "mode": server.mode, "watched": server.command is None}
            for name, server in config.servers.items()
        ]
        print_json({"ok": not problems, "servers": servers, "rules": len(rules.rules), "problems": problems})
        return 2 if problems else 0
    say(f"{path or 'no configuration file: the defaults'}: {'is fine' if path else 'are fine'}")
    for name, server in config.servers.items():
        what = f"supervised, mode {server.mode}" if server.command else f"watched: {' '.join(server.watch)}"
        say(f"  {name}: {what}")
    say(f"  {len(rules.rules)} rules, {config.listen.url}")
    for problem in problems:
        say(f"  rule skipped: {problem}")
    for text in doubtful(config):
        say(f"  but: {text}")
    return 2 if problems else 0


def serve_folder(path: Path | None, config: Config, state: Path, override: Override | None = None) -> int:
    """Serves a state folder until it is stopped; the exit code."""
    set_up_logs(config.log_format, config.log_level, config.secrets)
    with Store.open(state) as store:
        service = Service(config, path, store, override=override)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(service.run(create_app))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # Windows
        return None
    return uvloop.new_event_loop
