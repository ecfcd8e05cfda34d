"""Supervised servers inside the service: real processes, a real store, wishes as the web writes them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from app.core.vocabulary import Category, Engine, IncidentStatus, Mode, ServerState
from app.service.config import ServerConfig
from app.service.following import Timings
from app.service.rulebook import Rulebook
from app.service.supervising import Supervisor
from app.store.store import Store
from app.store.views import ServerView
from app.store.wishes import ServerWish
from app.store.words import Decision, Wish

pytestmark = pytest.mark.anyio

QUICK = Timings(
    ask_loading=0.05,
    ask_settling=0.05,
    ask_ready=0.1,
    answer_wait=1.0,
    end_grace=1.0,
    leftover_grace=0.3,
    port_wait=0.2,
    last_words=0.1,
    look=0.1,
)
SERVER = """
import argparse, http.server
parser = argparse.ArgumentParser(prog="serve")
parser.add_argument("--context-length", type=int, default=1)
parser.add_argument("--port", type=int, required=True)
args = parser.parse_args()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer.daemon_threads = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
print("serving", args.context_length, flush=True)
server.serve_forever()
"""


@dataclass
class Place:
    """A store, rules and a server script; ends what was started."""

    store: Store
    rulebook: Rulebook
    script: Path
    port: int
    pids: list[int] = field(default_factory=list)

    def server(self, *words: str, mode: Mode = Mode.PROPOSE, start: bool = True) -> ServerConfig:
        command = (sys.executable, str(self.script), "--port", str(self.port), *words)
        return ServerConfig(command=command, engine=Engine.SGLANG, mode=mode, settle=0.2, preflight=False, start=start)

    @asynccontextmanager
    async def supervised(self, server: ServerConfig) -> AsyncIterator[Supervisor]:
        supervisor = Supervisor("kimi", server, self.store, self.rulebook, QUICK)
        running = asyncio.ensure_future(supervisor.run())
        try:
            yield supervisor
        finally:
            supervisor.leave()
            await asyncio.wait_for(running, 10)

    async def until(self, holds: Callable[[ServerView], object], seconds: float = 20) -> ServerView:
        deadline = time.monotonic() + seconds
        view = None
        while time.monotonic() < deadline:
            view = self.store.get_server("kimi")
            if view is not None:
                if view.pid is not None and view.pid not in self.pids:
                    self.pids.append(view.pid)
                if holds(view):
                    return view
            await asyncio.sleep(0.02)
        raise AssertionError(f"it did not come to that: {view}")

    async def ready(self, other_than: int | None = None) -> int:
        view = await self.until(lambda view: view.state is ServerState.READY and view.pid not in (None, other_than))
        assert view.pid is not None
        return view.pid


@pytest.fixture
def place(store: Store, tmp_path: Path) -> Iterator[Place]:
    script = tmp_path / "serve.py"
    script.write_text(SERVER)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = Place(store, Rulebook(store.state), script, port)
    yield place
    for pid in place.pids:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)


async def test_it_starts_a_server_and_leaves_it_running(place: Place) -> None:
    async with place.supervised(place.server()):
        pid = await place.ready()

    assert psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def test_a_server_that_runs_from_before_is_taken_over(place: Place) -> None:
    async with place.supervised(place.server()):
        pid = await place.ready()

    async with place.supervised(place.server()):
        await asyncio.sleep(0.5)
        view = place.store.get_server("kimi")
        assert view is not None
        assert (view.pid, view.state) == (pid, ServerState.READY)
        assert len(place.store.launches("kimi")) == 1


async def test_the_death_of_a_server_that_was_taken_over_is_an_incident(place: Place) -> None:
    async with place.supervised(place.server()):
        pid = await place.ready()

    async with place.supervised(place.server(mode=Mode.OFF)):
        await asyncio.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        await place.until(lambda view: view.state is ServerState.EXITED)

    assert place.store.unresolved_incident("kimi") is not None


async def test_a_server_that_is_not_to_start_waits_for_a_wish(place: Place) -> None:
    async with place.supervised(place.server(start=False)):
        await asyncio.sleep(0.3)
        assert place.store.launches("kimi") == ()

        place.store.wish("kimi", ServerWish.START, "Ann")
        await place.ready()


async def test_a_wish_to_stop_stops_it_and_it_stays_so(place: Place) -> None:
    async with place.supervised(place.server()):
        pid = await place.ready()
        place.store.wish("kimi", ServerWish.STOP, "Ann")
        await place.until(lambda view: view.state is ServerState.STOPPED)

    async with place.supervised(place.server()):
        await asyncio.sleep(0.5)
        assert len(place.store.launches("kimi")) == 1
    assert not psutil.pid_exists(pid)


async def test_a_wish_to_restart_gives_a_new_process(place: Place) -> None:
    async with place.supervised(place.server()):
        before = await place.ready()
        place.store.wish("kimi", ServerWish.RESTART, "Ann")
        await place.ready(other_than=before)

    assert place.store.unresolved_incident("kimi") is None


async def test_a_proposal_that_a_person_approves_is_carried_out(place: Place) -> None:
    async with place.supervised(place.server("--context-lenght", "8")):
        await place.until(lambda view: view.decision is Decision.PROPOSAL)
        incident = place.store.unresolved_incident("kimi")
        assert incident is not None
        place.store.decide(incident.id, None, Wish.APPROVE, "Ann")
        await place.ready()
        await place.until(lambda _: place.store.incident(incident.id).status is IncidentStatus.RESOLVED)


async def test_a_broken_command_is_not_started_again_while_its_fix_waits_for_a_person(place: Place) -> None:
    async with place.supervised(place.server("--context-lenght", "8")):
        await place.until(lambda view: view.decision is Decision.PROPOSAL)

    async with place.supervised(place.server("--context-lenght", "8")):
        await asyncio.sleep(0.4)
        assert len(place.store.launches("kimi")) == 1

        incident = place.store.unresolved_incident("kimi")
        assert incident is not None
        place.store.decide(incident.id, None, Wish.APPROVE, "Ann")
        await place.ready()


async def test_what_made_it_work_the_last_time_is_started_the_next_time(place: Place) -> None:
    wrong = place.server("--context-lenght", "8", mode=Mode.AUTO)
    async with place.supervised(wrong):
        await place.until(lambda view: view.last_good_command is not None)
        place.store.wish("kimi", ServerWish.STOP, "Ann")
        await place.until(lambda view: view.state is ServerState.STOPPED)
        place.store.wish("kimi", ServerWish.START, "Ann")
        await place.ready()

    newest = place.store.launches("kimi", limit=1)[0]
    assert newest.command[-2:] == ("--context-length", "8")
    assert len(place.store.launches("kimi")) == 3


async def test_a_wish_to_restore_starts_the_configured_command(place: Place) -> None:
    wrong = place.server("--context-lenght", "8", mode=Mode.AUTO)
    async with place.supervised(wrong):
        await place.until(lambda view: view.last_good_command is not None)
        place.store.wish("kimi", ServerWish.RESTORE, "Ann")
        await place.until(lambda _: len(place.store.launches("kimi")) >= 3)

    assert "--context-lenght" in sorted(place.store.launches("kimi"), key=lambda launch: launch.id)[2].command


async def test_a_changed_mode_counts_for_the_launch_under_way(place: Place) -> None:
    async with place.supervised(place.server()) as supervisor:
        pid = await place.ready()
        supervisor.update(place.server(mode=Mode.OFF))
        os.kill(pid, signal.SIGKILL)
        view = await place.until(lambda view: view.state is ServerState.EXITED)

    assert view.decision is Decision.NONE


async def test_a_server_that_cannot_be_started_is_an_incident_for_a_person(place: Place) -> None:
    nowhere = ServerConfig(command=("/nowhere/vllm", "serve", "org/model"), preflight=False)
    async with place.supervised(nowhere):
        view = await place.until(lambda view: view.state is ServerState.GAVE_UP)

    incident = place.store.unresolved_incident("kimi")
    assert incident is not None
    assert (incident.status, incident.category) == (IncidentStatus.NEEDS_HUMAN, Category.MISSING_DEPENDENCY)
    assert view.evidence == "The program '/nowhere/vllm' was not found."


async def test_a_wish_to_stop_while_it_waits_for_its_restart_wins(place: Place) -> None:
    async with place.supervised(place.server(mode=Mode.AUTO)):
        pid = await place.ready()
        os.kill(pid, signal.SIGKILL)
        await place.until(lambda view: view.state is ServerState.EXITED)
        place.store.wish("kimi", ServerWish.STOP, "Ann")
        await place.until(lambda view: view.decision is Decision.NONE)
        await asyncio.sleep(0.8)

    assert len(place.store.launches("kimi")) == 1
