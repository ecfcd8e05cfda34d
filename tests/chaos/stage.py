"""The stage of one scenario: a real Crashcart, a real server, and everything that can be seen of both."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from app.core.errors import StoreError
from app.core.resources import scan_cache
from app.core.vocabulary import Engine, IncidentStatus, ServerState
from app.diagnosis.pipeline import Pipeline
from app.rules.load import load_rules
from app.store.store import Store
from app.store.views import AttemptView, IncidentView, ServerView
from app.supervise.group import MARK
from tests.flow.service import free_port

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SERVER = (sys.executable, "-S", str(HERE / "server.py"))
PRACTICE = (sys.executable, "-m", "practice_server", "--model-path", "practice/tiny-llama")
NAME = "box"
_CALM = 0.7  # seconds in which nothing more may happen once all is as expected
_POLL = 0.05
_PLACE = tempfile.TemporaryDirectory(prefix="chaos-")
_OPENING = threading.Lock()  # the migrations' library keeps its context in its module


@functools.cache
def _fresh() -> Path:
    """A state folder with an empty database and the rules' compiled form: making both takes longer than most faults."""
    state = Path(_PLACE.name) / "state"
    Store.open(state).close()
    cache = scan_cache(state)
    session = Pipeline(load_rules(cache=cache), cache=cache).session(engine=Engine.SGLANG)
    session.feed(b"a line\n")
    session.close()
    return state


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a fault: state of the server, category or evidence, action, and how often it was started."""

    state: str
    verdict: str
    action: str
    starts: int

    def __str__(self) -> str:
        return f"{self.state}, {self.verdict}, {self.action}, {self.starts}x"


@dataclass
class Result:
    """A scenario that was played."""

    seen: Seen
    seconds: float
    wrong: list[str] = field(default_factory=list)  # launches of words that nobody configured and no rule allows
    doubled: int = 0
    orphans: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    said: str = ""


class Stage:
    """One state folder, one port, the processes on them."""

    def __init__(
        self,
        folder: Path,
        *,
        env: dict[str, str],
        mode: str,
        flags: Sequence[str] = (),
        server: Sequence[str] = SERVER,
        options: Sequence[str] = (),
        serve: bool = False,
    ) -> None:
        self.folder, self.state = folder, folder / "state"
        self.port, self.web = free_port(), free_port()
        self.env, self.mode, self.options, self.serve = env, mode, options, serve
        self.server = tuple(server)
        self.command = [*server, "--port", str(self.port), *flags]
        self.log = folder / "crashcart.log"
        self.crashcart: subprocess.Popen[bytes] | None = None
        self.doubled = 0
        self.trouble: list[str] = []
        self.strangers: list[subprocess.Popen[bytes]] = []
        self.sockets: list[socket.socket] = []
        (folder / "starts").touch()
        with _OPENING:
            shutil.copytree(_fresh(), self.state)
            self.store = Store.open(self.state)

    # -- Crashcart

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        """Starts Crashcart as a person does."""
        words = [sys.executable, "-m", "tests.chaos.quick", "--state", str(self.state)]
        words += self._serve_words() if self.serve else self._run_words(more)
        env = {**os.environ, **self.env, "CHAOS_FOLDER": str(self.folder)}
        env["PYTHONPATH"] = f"{ROOT}{os.pathsep}{ROOT / 'fixtures' / 'practice'}"
        env.pop(MARK, None)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                cwd=self.folder,
                start_new_session=True,
            )
        self.crashcart = process
        return process

    def _run_words(self, more: Sequence[str]) -> list[str]:
        given = [
            "--name",
            NAME,
            "--engine",
            "sglang",
            "--mode",
            self.mode,
            "--settle",
            "0.8",
            "--hang-restart",
            "3",
            *self.options,
            *more,
        ]
        return ["run", *given, "--", *self.command]

    def _serve_words(self) -> list[str]:
        config = self.folder / "crashcart.yaml"
        server = {
            "command": self.command,
            "engine": "sglang",
            "mode": self.mode,
            "settle": 0.8,
            "hang_restart": 3,
            "preflight": False,
        }
        config.write_text(json.dumps({"listen": f"127.0.0.1:{self.web}", "servers": {NAME: server}}))
        return ["serve", "--config", str(config)]

    def wish(self, what: str) -> None:
        """A person's wish, as the page or a program sends it to the service."""
        deadline = time.monotonic() + 10
        while True:
            try:
                httpx.post(f"http://127.0.0.1:{self.web}/servers/{NAME}/{what}", timeout=10).raise_for_status()
            except httpx.HTTPError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL)
            else:
                return

    def kill_crashcart(self) -> None:
        assert self.crashcart is not None
        self.crashcart.kill()
        self.crashcart.wait(10)

    # -- looking

    @property
    def view(self) -> ServerView | None:
        with contextlib.suppress(StoreError):
            return self.store.get_server(NAME)
        return None

    @property
    def incident(self) -> IncidentView | None:
        with contextlib.suppress(StoreError):
            found = self.store.incidents(server=NAME)
            return self.store.incident(found[0].id) if found else None
        return None

    @property
    def starts(self) -> list[list[str]]:
        """The words of each process that was really started, oldest first."""
        lines = (self.folder / "starts").read_text().splitlines()
        return [json.loads(line)["words"] for line in lines]

    @property
    def launches(self) -> int:
        """How often a server was started: as the servers themselves tell, or by the store for the practice server."""
        if self.server == SERVER:
            return len(self.starts)
        return sum(1 for launch in self.store.launches(NAME) if launch.ran and launch.process is not None)

    def marked(self) -> dict[int, str]:
        """Living processes of this stage's servers, by the mark in their environment."""
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                mark = process.environ().get(MARK, "")
                if mark.startswith(f"{self.state}#") and process.status() != psutil.STATUS_ZOMBIE:
                    found[process.pid] = mark
        return found

    def look(self) -> None:
        """Counts servers that run beside each other."""
        if len(set(self.marked().values())) > 1:
            self.doubled += 1

    @property
    def pid(self) -> int:
        view = self.view
        assert view is not None
        assert view.pid is not None
        return view.pid

    def until(self, holds: Callable[[], object], what: str, seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"it never came to: {what}\n{self.tail()}"
            self.look()
            time.sleep(_POLL)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def seen(self, verdict: str) -> Seen:
        """What is to be seen now; `verdict` is the expected one, which may be a category or a word of the evidence."""
        view, incident = self.view, self.incident
        state = view.state.value if view else "-"
        category = incident.category.value if incident else ""
        told = " ".join([view.evidence if view else "", *(step.text for step in incident.timeline)] if incident else [])
        told = told or (view.evidence if view else "")
        found = verdict if verdict == category or (verdict and verdict in told + self.tail()) else category or told[:60]
        return Seen(state, found or "-", self._action(incident), self.launches)

    def _action(self, incident: IncidentView | None) -> str:
        words = list(dict.fromkeys(f"{one.kind.value}ed" for one in self._attempts()))
        if incident is not None and incident.status is IncidentStatus.PROPOSED:
            words.append("proposed")
        if incident is not None and incident.status is IncidentStatus.NEEDS_HUMAN:
            guard = [re.search(r"a guard failed: ([\w-]+)", step.text) for step in incident.timeline]
            words += [f"refused by {one[1]}" for one in guard if one] or ["needs-human"]
        return " ".join(words) or "none"

    def _attempts(self) -> Iterator[AttemptView]:
        with contextlib.suppress(StoreError):
            yield from sorted(self.store.attempts(server=NAME), key=lambda one: one.id)

    # -- the end

    def calm(self) -> None:
        """Waits a moment in which nothing more may happen."""
        end = time.monotonic() + _CALM
        while time.monotonic() < end:
            self.look()
            time.sleep(_POLL)

    def wrong(self, changes: Sequence[str]) -> list[str]:
        """Started commands that are neither the configured one nor differ by allowed changes only."""
        configured = self.command[len(self.server) :]
        ours = self.server == SERVER
        started = self.starts if ours else [one.command[len(self.server) :] for one in self.store.launches(NAME)]
        odd = []
        for words in started:
            differing = [word for word in words if word not in configured]
            gone = [word for word in configured if word not in words]
            if any(word not in changes for word in (*differing, *gone)):
                odd.append(" ".join(words))
        if (self.folder / "trapped").exists():
            odd.append("text of the log was run")
        return odd

    def end(self) -> list[str]:
        """Stops all as a person does, and names what is left of the servers then."""
        if self.serve and self.crashcart is not None and self.crashcart.poll() is None and self.marked():
            with contextlib.suppress(AssertionError, httpx.HTTPError):
                self.wish("stop")
                self.until(lambda: self.view and self.view.state is ServerState.STOPPED, "stopped", 10)
        if self.crashcart is not None and self.crashcart.poll() is None:
            self.crashcart.send_signal(signal.SIGTERM)
            try:
                self.crashcart.wait(15)
            except subprocess.TimeoutExpired:
                self.trouble.append("Crashcart did not end")
                self.kill_crashcart()
        left = [f"{pid} of {mark.rpartition('#')[2]}" for pid, mark in self.marked().items()]
        self.clear_away()
        return left

    def clear_away(self) -> None:
        """Nothing stays, whatever went wrong."""
        for pid in self.marked():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self.crashcart is not None and self.crashcart.poll() is None:
            self.kill_crashcart()
        for stranger in self.strangers:
            stranger.kill()
            stranger.wait()
        for held in self.sockets:
            held.close()
        self.store.close()
