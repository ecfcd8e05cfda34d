"""`doctor`: looks at what the configuration says and the machine may not keep. Nothing is changed and nothing sent."""

from __future__ import annotations

import glob
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from app.alerts.webhook import is_public
from app.core.errors import CrashcartError
from app.rules.load import load_rules
from app.service.config import Config, ServerConfig
from app.store.locks import locked
from app.store.store import Store
from app.supervise import guards
from app.supervise.ports import port_holder
from app.supervise.process import exists_program
from app.supervise.watching import Expander

_WILD = re.compile(r"[*?\[]")
_MANY = 200  # files of one pattern that are tried


@dataclass(frozen=True, slots=True)
class Check:
    """One look: `id` names the kind, `subject` what was looked at, `hint` what to do where it is not well."""

    id: str
    subject: str
    ok: bool
    text: str
    hint: str | None = None


def examine(config: Config, state: Path) -> Iterator[Check]:
    """All checks, quick ones first."""
    yield from _rules(config)
    yield from _state(state)
    yield _port(config, state)
    for folder in config.log_roots:
        yield _log_root(folder)
    for name, server in config.servers.items():
        if server.launch is not None:
            yield from _launchable(name, server)
        for pattern in server.watch:
            yield from _followed(name, pattern, state, config.log_roots)
    if config.slack.webhook_url is not None:
        slack = config.slack
        yield _webhook(config.slack.webhook_url.get_secret_value(), slack.timeout, slack.allow_private_addresses)


def _rules(config: Config) -> Iterator[Check]:
    rules = load_rules(list(config.rules) or None)
    for problem in rules.problems:
        yield Check("rules-valid", str(problem.path or "rules"), False, str(problem), problem.mend or "Mend the file.")
    if not rules.problems:
        yield Check("rules-valid", "rules", True, f"{len(rules.rules)} rules are in use")


def _state(state: Path) -> Iterator[Check]:
    try:
        with Store.open(state) as store:
            store.newest_transition()
    except CrashcartError as error:
        yield Check("state-writable", str(state), False, str(error), error.mend)
        return
    yield Check("state-writable", str(state), True, "the database can be read and written")
    room = guards.disk_room(state)
    yield Check(
        "disk-room", str(state), room.ok, room.text, None if room.ok else "Free some space, or move the folder."
    )


def _port(config: Config, state: Path) -> Check:
    listen = config.listen
    subject = f"{listen.host}:{listen.port}"
    holder = port_holder(listen.port, listen.host)
    if holder is None:
        return Check("port-free", subject, True, "the service can listen there")
    if _serves(state):
        return Check("port-free", subject, True, f"the service runs: {holder}")
    return Check("port-free", subject, False, str(holder), "End that process, or choose another `listen`.")


def _serves(state: Path) -> bool:
    lock = state / "locks" / "service"
    if not lock.is_file():
        return False
    try:
        with locked(lock, "the service"):
            return False
    except CrashcartError:
        return True


def _log_root(folder: Path) -> Check:
    if not folder.is_dir():
        return Check("log-root", str(folder), False, "there is no such folder", "Make it, or take it out of log_roots.")
    ok = os.access(folder, os.R_OK | os.X_OK)
    hint = None if ok else f"Give the user that runs crashcart the right to read it: setfacl -m u:USER:rx {folder}"
    return Check("log-root", str(folder), ok, "it can be read" if ok else "it can't be read", hint)


def _launchable(name: str, server: ServerConfig) -> Iterator[Check]:
    command = server.launch
    if command is None:
        return
    found = exists_program(command)
    text = f"{command.argv[0]} {'can be started' if found else 'was not found'}"
    hint = None if found else "Give its whole path: the service may have another PATH than you."
    yield Check("program-found", name, found, text, hint)
    if server.cwd is not None and not server.cwd.is_dir():
        yield Check("folder-found", name, False, f"{server.cwd} is no folder", "Make it, or change `cwd`.")


def _followed(name: str, pattern: str, state: Path, roots: tuple[Path, ...]) -> Iterator[Check]:
    found = [Path(path) for path in glob.iglob(pattern, recursive=True)][:_MANY]  # noqa: PTH207 - absolute patterns
    files = [path for path in Expander(roots).files([pattern]) if path in found]
    if passed := [path for path in found if path not in files and not path.is_dir()]:
        text = f"{passed[0]} is never followed: it is no file, or leads out of log_roots"
        yield Check("log-readable", name, False, text, "Watch the file that it leads to, and add its folder.")
    own = [path for path in files if path.resolve().is_relative_to(state.resolve()) or _is_own_log(path)]
    if own:
        text = f"{own[0]} is written by Crashcart itself: each line that it reads would make another"
        yield Check("own-log", name, False, text, "Watch the server's own log, or send Crashcart's log elsewhere.")
    refused = [path for path in files if not os.access(path, os.R_OK)]
    if refused:
        hint = f"Give the user that runs crashcart the right: setfacl -m u:USER:r {refused[0]}"
        yield Check("log-readable", name, False, f"{refused[0]} can't be read", hint)
    elif files:
        yield Check("log-readable", name, True, f"{pattern}: {len(files)} file{'s' if len(files) != 1 else ''}")
    else:
        yield Check("log-readable", name, True, f"{pattern}: no file yet; it is followed as soon as there is one")
    yield _watchable(name, pattern)


def _is_own_log(path: Path) -> bool:
    try:
        return path.samefile("/proc/self/fd/2") or path.samefile("/proc/self/fd/1")
    except OSError:
        return False


def _watchable(name: str, pattern: str) -> Check:
    """Tries what the follower does: the folder is watched, not the file."""
    folder = Path(_WILD.split(pattern, maxsplit=1)[0].rpartition("/")[0] or "/")
    while not folder.is_dir():
        folder = folder.parent
    if not os.access(folder, os.R_OK | os.X_OK):
        hint = f"Give the user that runs crashcart the right: setfacl -m u:USER:rx {folder}"
        return Check("folder-watchable", name, False, f"{folder} can't be read", hint)
    try:
        with RustNotify([str(folder)], False, False, 300, False, False):
            return Check("folder-watchable", name, True, f"{folder} tells of changes")
    except (OSError, WatchfilesRustInternalError) as error:
        advice = "Raise fs.inotify.max_user_watches and max_user_instances (sysctl)."
        return Check("folder-watchable", name, False, f"{folder} can't be watched: {error}", advice)


def _webhook(url: str, timeout: float, allow_private: bool) -> Check:
    """Asks with GET, which posts nothing. Any answer of the other side will do; the address itself is a secret."""
    host = httpx.URL(url).host
    try:
        addresses = {str(one[4][0]) for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
        if not allow_private and not all(map(is_public, addresses)):
            advice = "If that is a relay of yours, set slack.allow_private_addresses: true."
            return Check("webhook-reachable", host, False, "it lies on a private address: nothing is sent", advice)
        answer = httpx.get(url, timeout=timeout, follow_redirects=False)
    except (httpx.HTTPError, OSError, UnicodeError) as error:
        advice = "Look at name resolution, firewall and proxy (HTTPS_PROXY) of this machine."
        return Check("webhook-reachable", host, False, f"no answer: {type(error).__name__}", advice)
    # 405 and 501 say that it wants to be posted to.
    ok = (answer.status_code < 500 and answer.status_code not in (404, 410)) or answer.status_code == 501
    hint = None if ok else "Look whether the webhook still exists at Slack."
    return Check("webhook-reachable", host, ok, f"it answers (HTTP {answer.status_code} to a GET)", hint)
