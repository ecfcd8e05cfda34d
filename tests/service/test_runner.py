"""Whole runs with real processes, sockets and a real store: launch, death, plan, relaunch, end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from app.core.command import Command
from app.core.errors import LaunchError, StoreError
from app.core.model import Cause, Diagnosis
from app.core.vocabulary import Category, Engine, IncidentStatus, Mode, ServerState
from app.diagnosis.pipeline import Pipeline
from app.rules.load import load_rules
from app.service.following import Timings
from app.service.intake import mark_of
from app.service.options import Canary, RunOptions, RunResult
from app.service.runner import Runner
from app.store.store import Store
from app.store.views import IncidentView
from app.store.words import AttemptKind, AttemptOutcome, Wish
from app.supervise.condition import Patience
from app.supervise.group import MARK
from app.supervise.hooks import Hooks

pytestmark = pytest.mark.anyio

PIPELINE = Pipeline(load_rules())
QUICK = Timings(
    settle=0.2,
    patience=Patience(stalled=60.0, hang=0.6),
    ask_loading=0.05,
    ask_settling=0.05,
    ask_ready=0.1,
    answer_wait=1.0,
    end_grace=1.0,
    leftover_grace=0.3,
    port_wait=0.2,
    last_words=0.2,
    look=0.1,
)

# A server in a few lines: `--context-length` may be misspelt. What it does besides is told by the environment.
SERVER = """
import argparse, http.server, os, signal, subprocess, sys, time
parser = argparse.ArgumentParser(prog="serve")
parser.add_argument("--context-length", type=int, default=1)
parser.add_argument("--port", type=int, required=True)
args = parser.parse_args()
if "STUBBORN" in os.environ: signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "ORPHAN" in os.environ:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    print("orphan", child.pid, flush=True)
    raise SystemExit(3)
print("loading", flush=True)
if "LOAD" in os.environ: time.sleep(float(os.environ["LOAD"]))
if "LEAVE" in os.environ: raise SystemExit(0)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer.daemon_threads = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
print("serving", args.context_length, flush=True)
server.serve_forever()
"""


@dataclass
class Person:
    """Stands for whoever sits at the terminal: answers what it was told to, and remembers what was said."""

    answers: str = ""
    said: list[str] = field(default_factory=list)
    shown: list[Diagnosis] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    output: bytearray = field(default_factory=bytearray)

    @property
    def interactive(self) -> bool:
        return bool(self.answers)

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, diagnosis: Diagnosis, *, log: Path | None, next_step: str) -> None:
        self.shown.append(diagnosis)
        self.said.append(next_step)

    def show_findings(self, command: Command, findings: Sequence[Cause]) -> None:
        self.said.append(f"{len(findings)} findings")

    def show_command(self, title: str, command: Command) -> None:
        self.commands.append(command)

    def pass_on(self, data: bytes) -> None:
        self.output.extend(data)

    async def ask(self, question: str, answers: str) -> str:
        if self.answers == "?":
            await asyncio.sleep(60)
        return self.answers


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path) -> list[str]:
    script = tmp_path / "serve.py"
    script.write_text(SERVER)
    return [sys.executable, str(script)]


def options(command: Sequence[str], port: int, mode: Mode = Mode.AUTO, **more: object) -> RunOptions:
    made = RunOptions(
        "box",
        Command.parse(command, engine=Engine.SGLANG),
        engine=Engine.SGLANG,
        mode=mode,
        health=f"http://127.0.0.1:{port}/health",
        preflight=False,
    )
    return replace(made, **more)  # type: ignore[arg-type]


@dataclass
class Running:
    """A run under way."""

    runner: Runner
    person: Person
    store: Store
    task: asyncio.Task[RunResult]

    async def until(self, true: Callable[[], object], seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, self.person.said
            if self.task.done():
                self.task.result()
                assert true(), self.person.said
                return
            await asyncio.sleep(0.02)

    async def until_state(self, state: ServerState) -> None:
        await self.until(lambda: self.state is state)

    @property
    def state(self) -> ServerState | None:
        view = self.store.get_server("box")
        return view.state if view else None

    @property
    def pid(self) -> int:
        view = self.store.get_server("box")
        assert view is not None
        assert view.pid is not None
        return view.pid

    async def stopped(self) -> RunResult:
        os.kill(os.getpid(), signal.SIGTERM)
        return await self.task


@asynccontextmanager
async def running(
    store: Store, wanted: RunOptions, person: Person | None = None, timings: Timings = QUICK
) -> AsyncIterator[Running]:
    person = person or Person()
    runner = Runner(wanted, store, PIPELINE, person, timings=timings)
    task = asyncio.ensure_future(runner.run())
    try:
        yield Running(runner, person, store, task)
    finally:
        if not task.done():
            runner.stop.ask()
            runner.stop.ask()
            await task


async def ended(
    store: Store, wanted: RunOptions, person: Person | None = None, timings: Timings = QUICK
) -> tuple[RunResult, Person]:
    async with running(store, wanted, person, timings) as run:
        return await run.task, run.person


def the_incident(store: Store) -> IncidentView:
    (one,) = store.incidents()
    return store.incident(one.id)


# -- without a failure


async def test_a_stop_after_ready_is_exit_0_and_no_incident(store: Store, server: list[str], port: int) -> None:
    async with running(store, options([*server, "--port", str(port)], port)) as run:
        await run.until_state(ServerState.READY)
        result = await run.stopped()

    assert (result.exit_code, result.state, result.incident, result.launches) == (0, ServerState.STOPPED, None, 1)
    assert store.incidents() == ()


async def test_a_stop_before_ready_is_the_servers_exit(store: Store, server: list[str], port: int) -> None:
    async with running(store, options(["LOAD=60", *server, "--port", str(port)], port)) as run:
        await run.until(lambda: b"loading" in run.person.output)
        result = await run.stopped()

    assert (result.exit_code, result.state) == (143, ServerState.STOPPED)
    assert store.incidents() == ()


async def test_a_second_ctrl_c_kills_at_once(store: Store, server: list[str], port: int) -> None:
    command = ["STUBBORN=1", *server, "--port", str(port)]
    async with running(store, options(command, port), timings=replace(QUICK, end_grace=30.0)) as run:
        await run.until_state(ServerState.READY)
        os.kill(os.getpid(), signal.SIGINT)
        await run.until(lambda: any("stopping" in text for text in run.person.said))
        begun = time.monotonic()
        result = await run.stopped()

    assert time.monotonic() - begun < 2
    assert result.exit_code == 0


async def test_output_is_kept_and_passed_on(store: Store, server: list[str], port: int, tmp_path: Path) -> None:
    kept = tmp_path / "kept.log"
    async with running(store, options([*server, "--port", str(port)], port, log=kept)) as run:
        await run.until_state(ServerState.READY)
        await run.stopped()

    assert kept.read_bytes() == b"loading\nserving 1\n"
    assert bytes(run.person.output) == b"loading\nserving 1\n"


async def test_ready_makes_the_command_the_last_good_one_once_settled(
    store: Store, server: list[str], port: int
) -> None:
    command = [*server, "--port", str(port)]
    async with running(store, options(command, port)) as run:
        await run.until(lambda: (view := store.get_server("box")) and view.last_good_command)
        await run.stopped()
    view = store.get_server("box")

    assert view is not None
    assert view.last_good_command == tuple(command)


async def test_a_program_that_is_not_there_is_told_before_anything_is_stored(store: Store, port: int) -> None:
    with pytest.raises(LaunchError, match="was not found"):
        await ended(store, options(["no-such-server", "--port", str(port)], port))

    assert store.list_servers() == ()


# -- a wrong argument


async def test_auto_mends_a_misspelt_flag_and_resolves_the_incident(store: Store, server: list[str], port: int) -> None:
    command = ["HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", *server, "--port", str(port), "--context-lenght", "4"]
    async with running(store, options(command, port)) as run:
        await run.until(lambda: any("is resolved" in text for text in run.person.said))
        result = await run.stopped()
    incident = the_incident(store)

    assert (result.exit_code, result.launches, result.changed) == (0, 2, True)
    assert result.command == (*command[:-2], "--context-length", "4")
    assert (incident.status, incident.category) == (IncidentStatus.RESOLVED, Category.UNKNOWN_ARGUMENT)
    assert [(a.kind, a.outcome) for a in incident.attempts] == [(AttemptKind.RELAUNCH, AttemptOutcome.HELD)]
    assert b"serving 4" in run.person.output


async def test_hooks_are_run_when_it_is_ready_and_before_it_is_stopped(
    store: Store, server: list[str], port: int, tmp_path: Path
) -> None:
    def hook(name: str) -> tuple[str, ...]:
        return ("sh", "-c", f'echo {name} "$CRASHCART_PID" >> {tmp_path}/hooks')

    hooks = Hooks(before_stop=hook("before_stop"), after_ready=hook("after_ready"))
    wanted = replace(options([*server, "--port", str(port)], port), hooks=hooks)
    async with running(store, wanted) as run:
        await run.until(lambda: any("hook after_ready done" in text for text in run.person.said))
        [pid] = [launch.pgid for launch in store.launches(wanted.name)]
        result = await run.stopped()

    assert result.exit_code == 0
    assert (tmp_path / "hooks").read_text() == f"after_ready {pid}\nbefore_stop {pid}\n"


@pytest.mark.parametrize(("path", "settles"), [("/health", True), ("/nothing", False)])
async def test_a_fix_has_held_only_when_the_canary_is_answered(
    store: Store, server: list[str], port: int, path: str, settles: bool
) -> None:
    canary = Canary(f"http://127.0.0.1:{port}{path}", '{"max_tokens": 1}', every=0.1, timeout=5)
    wanted = replace(options([*server, "--port", str(port)], port), canary=canary)
    async with running(store, wanted) as run:
        if settles:
            await run.until(lambda: "settled" in served(store))
        else:
            await run.until(lambda: "degraded: canary answered 404" in served(store))
        await run.stopped()

    assert ("settled" in served(store)) is settles


def served(store: Store) -> str:
    """What is known of the server, and whether its command has proved good."""
    server = store.get_server("box")
    if server is None:
        return ""
    return f"{server.state}: {server.evidence}" + ("; settled" if server.last_good_command is not None else "")


async def test_a_dead_server_is_not_taken_out_by_a_hook(
    store: Store, server: list[str], port: int, tmp_path: Path
) -> None:
    hooks = Hooks(before_stop=("touch", str(tmp_path / "drained")))
    command = [*server, "--port", str(port), "--context-lenght", "4"]
    await ended(store, replace(options(command, port, Mode.OFF), hooks=hooks))

    assert not (tmp_path / "drained").exists()


async def test_evidence_of_the_dead_launch_is_kept_without_secrets(store: Store, server: list[str], port: int) -> None:
    command = ["HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", *server, "--port", str(port), "--context-lenght", "4"]
    await ended(store, options(command, port, Mode.OFF))
    incident = the_incident(store)
    folder = store.evidence_folder(incident.id) / f"launch-{incident.launches[0].id}"

    assert b"unrecognized arguments: --context-lenght 4" in (folder / "log").read_bytes()
    assert "abcdefghijklmnop" not in (folder / "command.json").read_text()
    assert json.loads((folder / "exit.json").read_text())["code"] == 2
    assert json.loads((folder / "diagnosis.json").read_text())["outcome"] == "failed"


async def test_guards_leave_their_verdicts_in_the_timeline_before_the_attempt(
    store: Store, server: list[str], port: int
) -> None:
    async with running(store, options([*server, "--port", str(port), "--context-lenght", "4"], port)) as run:
        await run.until(lambda: any("is resolved" in text for text in run.person.said))
        await run.stopped()
    steps = [step for step in the_incident(store).timeline if step.kind in ("guard", "attempt")]

    assert [step.text.split()[0] for step in steps] == [
        "old-group-gone",
        "port-free",
        "gpu-released",
        "disk-room",
        "command-valid",
        "not-tried-before",
        "relaunch:",
    ]


async def test_mode_off_tells_and_does_nothing(store: Store, server: list[str], port: int) -> None:
    result, person = await ended(
        store, options([*server, "--port", str(port), "--context-lenght", "4"], port, Mode.OFF)
    )

    assert (result.exit_code, result.launches, result.state) == (2, 1, ServerState.EXITED)
    assert [command.get("--context-length") for command in person.commands] == ["4"]


async def test_the_same_failure_after_a_fix_needs_a_human(store: Store, tmp_path: Path, port: int) -> None:
    script = tmp_path / "always.py"
    script.write_text(
        "import sys\nsys.stderr.write('usage: serve [--context-length W] [--port PORT]\\n')\n"
        "sys.stderr.write('serve: error: unrecognized arguments: --context-lenght 4\\n')\nsys.exit(2)\n"
    )
    command = [sys.executable, str(script), "--port", str(port), "--context-lenght", "4"]
    result, _ = await ended(store, options(command, port))
    incident = the_incident(store)

    assert (result.launches, result.state) == (2, ServerState.GAVE_UP)
    assert incident.status is IncidentStatus.NEEDS_HUMAN
    assert [attempt.outcome for attempt in incident.attempts] == [AttemptOutcome.FAILED]


# -- proposals


def typo(server: list[str], port: int) -> list[str]:
    return [*server, "--port", str(port), "--context-lenght", "4"]


async def test_without_a_terminal_the_proposal_is_stored_and_the_run_ends(
    store: Store, server: list[str], port: int
) -> None:
    result, _ = await ended(store, options(typo(server, port), port, Mode.PROPOSE))
    incident = the_incident(store)

    assert (result.exit_code, result.launches) == (2, 1)
    assert incident.proposal is not None
    assert incident.proposal.command[-2:] == ("--context-length", "4")


async def test_yes_at_the_terminal_relaunches(store: Store, server: list[str], port: int) -> None:
    async with running(store, options(typo(server, port), port, Mode.PROPOSE), Person("y")) as run:
        await run.until_state(ServerState.READY)
        result = await run.stopped()

    assert (result.launches, the_incident(store).attempts[0].approved_by) == (2, "terminal")


async def test_no_at_the_terminal_ends_the_run(store: Store, server: list[str], port: int) -> None:
    result, person = await ended(store, options(typo(server, port), port, Mode.PROPOSE), Person("n"))

    assert (result.exit_code, result.launches) == (2, 1)
    assert any("rejected by terminal" in text for text in person.said)


async def test_an_approval_from_elsewhere_is_picked_up_while_the_terminal_is_asked(
    store: Store, server: list[str], port: int
) -> None:
    async with running(store, options(typo(server, port), port, Mode.PROPOSE), Person("?")) as run:
        await run.until(lambda: store.incidents() and the_incident(store).proposal)
        store.decide(the_incident(store).id, None, Wish.APPROVE, "anna")
        await run.until_state(ServerState.READY)
        await run.stopped()

    assert the_incident(store).attempts[0].approved_by == "anna"


async def test_an_approval_is_waited_for_without_a_terminal(store: Store, server: list[str], port: int) -> None:
    wanted = options(typo(server, port), port, Mode.PROPOSE, wait_decision=10.0)
    async with running(store, wanted) as run:
        await run.until(lambda: store.incidents() and the_incident(store).proposal)
        store.decide(the_incident(store).id, None, Wish.APPROVE, "anna")
        await run.until_state(ServerState.READY)
        result = await run.stopped()

    assert result.launches == 2


async def test_an_approval_given_when_nobody_ran_is_carried_out_at_the_next_start(
    store: Store, server: list[str], port: int
) -> None:
    await ended(store, options(typo(server, port), port, Mode.PROPOSE))
    store.decide(the_incident(store).id, None, Wish.APPROVE, "anna")

    async with running(store, options(typo(server, port), port, Mode.PROPOSE)) as run:
        await run.until_state(ServerState.READY)
        result = await run.stopped()

    assert (result.launches, result.command[-2:]) == (1, ("--context-length", "4"))


async def test_ctrl_c_while_asking_ends_the_run_and_leaves_the_proposal(
    store: Store, server: list[str], port: int
) -> None:
    async with running(store, options(typo(server, port), port, Mode.PROPOSE), Person("?")) as run:
        await run.until(lambda: store.incidents() and the_incident(store).proposal)
        result = await run.stopped()

    assert result.exit_code == 2
    assert the_incident(store).status is IncidentStatus.PROPOSED


# -- deaths from outside


async def test_sigkill_is_answered_by_a_restart_of_the_same_command(store: Store, server: list[str], port: int) -> None:
    async with running(store, options([*server, "--port", str(port)], port)) as run:
        run.runner.actor.limits = replace(run.runner.actor.limits, restart_delay=0.1)
        await run.until_state(ServerState.READY)
        os.kill(run.pid, signal.SIGKILL)
        await run.until(lambda: run.runner.launches == 2)
        await run.until_state(ServerState.READY)
        result = await run.stopped()
    incident = the_incident(store)

    assert (result.exit_code, result.changed) == (0, False)
    assert [attempt.kind for attempt in incident.attempts] == [AttemptKind.RESTART]
    assert incident.category is Category.KILLED_BY_SIGNAL


async def test_a_healed_server_that_dies_of_something_else_is_another_incident(
    store: Store, server: list[str], port: int
) -> None:
    async with running(store, options(typo(server, port), port)) as run:
        run.runner.actor.limits = replace(run.runner.actor.limits, restart_delay=0.1)
        await run.until(lambda: any("incident 1 is resolved" in text for text in run.person.said))
        os.kill(run.pid, signal.SIGKILL)
        await run.until(lambda: any("incident 2 is resolved" in text for text in run.person.said))
        await run.stopped()
    second, first = store.incidents()

    assert (first.category, second.category) == (Category.UNKNOWN_ARGUMENT, Category.KILLED_BY_SIGNAL)
    assert (first.regressed, second.regressed) == (False, False)


# Starts well, and dies of the same failure with and without the corrected flag: later, as a regression.
RELAPSES = """
import sys, time, http.server, threading
wrong = "--context-lenght" in sys.argv
if not wrong:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
        def log_message(self, *args): pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    time.sleep(1.5)
sys.stderr.write("usage: serve [--context-length W] [--port PORT]\\n")
sys.stderr.write("serve: error: unrecognized arguments: --context-lenght 4\\n")
sys.exit(2)
"""


async def test_the_same_failure_after_a_fix_had_held_is_a_regression_that_names_the_fix(
    store: Store, port: int
) -> None:
    command = [sys.executable, "-c", RELAPSES, "--port", str(port), "--context-lenght", "4"]
    _, person = await ended(store, options(command, port))

    assert the_incident(store).regressed
    assert "regression: the fix of any/unknown-argument had held, and the server died again" in person.said


async def test_a_death_is_stored_at_once_although_children_live_on(store: Store, server: list[str], port: int) -> None:
    async with running(store, options([*server, "--port", str(port)], port, Mode.OFF)) as run:
        await run.until_state(ServerState.READY)
        begun = time.monotonic()
        os.kill(run.pid, signal.SIGKILL)
        await run.until_state(ServerState.EXITED)
        took = time.monotonic() - begun
        result = await run.task

    assert took < 1.0
    assert result.exit_code == 137


async def test_a_clean_exit_that_nobody_asked_for_is_an_incident_and_exit_1(
    store: Store, server: list[str], port: int
) -> None:
    result, _ = await ended(store, options(["LEAVE=1", *server, "--port", str(port)], port, Mode.OFF))

    assert (result.exit_code, len(store.incidents())) == (1, 1)


async def test_what_a_dead_server_left_running_is_ended(store: Store, server: list[str], port: int) -> None:
    result, person = await ended(store, options(["ORPHAN=1", *server, "--port", str(port)], port, Mode.OFF))
    orphan = int(person.output.split()[1])

    assert result.exit_code == 3
    assert not psutil.pid_exists(orphan)


# -- hanging


HANGS = """
import sys, time
print("usage: serve [--context-length W] [--port PORT]")
print("serve: error: unrecognized arguments: --context-lenght 4", flush=True)
time.sleep({seconds})
"""


async def test_a_launch_that_logs_its_cause_and_hangs_is_ended_and_diagnosed(store: Store, port: int) -> None:
    command = [sys.executable, "-c", HANGS.format(seconds=60), "--port", str(port), "--context-lenght", "4"]
    result, person = await ended(store, options(command, port, Mode.PROPOSE))

    assert (result.exit_code, the_incident(store).category) == (143, Category.UNKNOWN_ARGUMENT)
    assert any(text.startswith("hung: the log says") for text in person.said)


async def test_mode_off_tells_that_it_hangs_and_leaves_it_alone(store: Store, port: int) -> None:
    command = [sys.executable, "-c", HANGS.format(seconds=60), "--port", str(port), "--context-lenght", "4"]
    async with running(store, options(command, port, Mode.OFF)) as run:
        await run.until_state(ServerState.HUNG)
        alive = psutil.pid_exists(run.pid)
        await run.stopped()

    assert alive


# Deaf after the first good answers: the socket is open, nobody answers, nothing is written, nothing is computed.
DEAF = """
import http.server, sys, time
answers = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global answers
        answers += 1
        if answers > 4: time.sleep({deaf})
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *args): {log}
http.server.ThreadingHTTPServer.daemon_threads = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler)
print("serving", flush=True)
server.serve_forever()
"""
HANGS_SOON = replace(QUICK, settle=0.1, answer_wait=0.3, patience=Patience(hang=0.8, restart=2.0))


def deaf(port: int, seconds: float = 60.0, log: str = "pass") -> list[str]:
    return [sys.executable, "-c", DEAF.format(deaf=seconds, log=log), "--port", str(port)]


async def test_a_ready_server_without_any_sign_of_life_is_an_incident_while_it_lives(store: Store, port: int) -> None:
    timings = replace(HANGS_SOON, patience=Patience(hang=0.8))
    async with running(store, options(deaf(port), port), timings=timings) as run:
        await run.until(lambda: store.incidents())
        alive = psutil.pid_exists(run.pid)
        incident = the_incident(store)
        await run.stopped()

    assert alive
    assert (incident.category, incident.status) == (Category.HANG, IncidentStatus.OPEN)
    assert incident.timeline[-1].text == "it is restarted when it has shown no sign of life for 300 s"


async def test_auto_restarts_what_hangs_for_longer_than_its_patience(store: Store, port: int) -> None:
    async with running(store, options(deaf(port), port), timings=HANGS_SOON) as run:
        run.runner.actor.limits = replace(run.runner.actor.limits, restart_delay=0.1)
        await run.until(lambda: run.runner.launches == 2, 12.0)
        await run.stopped()

    assert [attempt.kind for attempt in the_incident(store).attempts] == [AttemptKind.RESTART]


async def test_what_could_not_be_started_again_is_not_ended_because_it_hangs(store: Store, port: int) -> None:
    async with running(store, options(deaf(port), port), timings=HANGS_SOON) as run:
        run.runner.actor.limits = replace(run.runner.actor.limits, restarts=0)
        await run.until(lambda: store.incidents() and the_incident(store).status is IncidentStatus.NEEDS_HUMAN)
        await asyncio.sleep(2.5)
        alive = psutil.pid_exists(run.pid)
        await run.stopped()

    assert alive
    assert "by budget or hours no restart is done alone now" in str(the_incident(store).timeline)


async def test_propose_leaves_what_hangs_to_a_person(store: Store, port: int) -> None:
    async with running(store, options(deaf(port), port, Mode.PROPOSE), timings=HANGS_SOON) as run:
        await run.until(lambda: store.incidents() and the_incident(store).status is IncidentStatus.NEEDS_HUMAN)
        await asyncio.sleep(2.5)
        alive = psutil.pid_exists(run.pid)
        result = await run.stopped()

    assert (alive, result.launches) == (True, 1)


async def test_a_hang_that_ends_by_itself_is_resolved(store: Store, server: list[str], port: int) -> None:
    timings = replace(HANGS_SOON, patience=Patience(hang=0.8))
    async with running(store, options([*server, "--port", str(port)], port), timings=timings) as run:
        await run.until(lambda: (view := store.get_server("box")) and view.last_good_command)
        os.kill(run.pid, signal.SIGSTOP)
        await run.until(lambda: store.incidents())
        os.kill(run.pid, signal.SIGCONT)
        await run.until(lambda: the_incident(store).status is IncidentStatus.RESOLVED)
        result = await run.stopped()

    assert result.launches == 1
    assert the_incident(store).timeline[-1].text.startswith("it answers again: health answered 200")


async def test_answers_to_our_own_questions_are_no_sign_of_life(store: Store, port: int) -> None:
    log = """print(f'INFO: "{self.requestline}" 503', flush=True)"""
    code = DEAF.replace("time.sleep({deaf})", "return self.send_error(503)").format(log=log)
    command = [sys.executable, "-c", code, "--port", str(port)]
    async with running(store, options(command, port), timings=HANGS_SOON) as run:
        await run.until(lambda: store.incidents())
        await run.stopped()

    assert b'"GET /health HTTP/1.1" 503' in run.person.output
    assert the_incident(store).category is Category.HANG


async def test_a_death_is_stored_as_soon_as_the_database_lets_go(
    store: Store, server: list[str], port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, calls = store.record_death, []

    def held(*words: object, **more: object) -> int:
        calls.append(words)
        if len(calls) == 1:
            raise StoreError("The database was held by another process.")
        return record(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "record_death", held)
    timings = replace(QUICK, store_again=0.1)
    wanted = options(["LEAVE=1", *server, "--port", str(port)], port, Mode.OFF)
    result, person = await ended(store, wanted, None, timings)

    assert (len(calls), result.incident) == (2, 1)
    assert any(text.startswith("the death is not stored yet") for text in person.said)


async def test_a_relaunch_whose_log_cannot_be_written_needs_a_human(
    store: Store, server: list[str], port: int, tmp_path: Path
) -> None:
    log = tmp_path / "logs" / "kept.log"
    log.parent.mkdir()
    async with running(store, options([*server, "--port", str(port)], port, log=log)) as run:
        run.runner.actor.limits = replace(run.runner.actor.limits, restart_delay=0.1)
        await run.until_state(ServerState.READY)
        log.unlink()
        log.mkdir()
        os.kill(run.pid, signal.SIGKILL)
        with pytest.raises(LaunchError, match="can't be written"):
            await run.task

    assert (run.state, the_incident(store).status) == (ServerState.GAVE_UP, IncidentStatus.NEEDS_HUMAN)


# -- ports and other processes


async def test_a_taken_port_is_refused_before_the_model_is_loaded(store: Store, server: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        command = [*server, "--host", "127.0.0.1", "--port", str(port)]
        with pytest.raises(LaunchError, match=f"port {port} is held by process {os.getpid()}"):
            await ended(store, options(command, port, preflight=True))


async def test_health_of_another_process_on_the_port_is_not_taken_for_ours(
    store: Store, server: list[str], tmp_path: Path, port: int
) -> None:
    with subprocess.Popen([*server, "--port", str(port)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline(), other.stdout.readline()
        sleeper = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)", "--port", str(port)]
        async with running(store, options(sleeper, port)) as run:
            await run.until(lambda: (view := store.get_server("box")) and "is held by" in view.evidence)
            state = run.state
            await run.stopped()
        other.kill()

    assert state is ServerState.STARTING


# -- after kill -9 of Crashcart

SUPERVISOR = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_runner import PIPELINE, QUICK, Person, options
from app.core.vocabulary import Mode
from app.service.runner import Runner
from app.store.store import Store
with Store.open(Path({state!r})) as store:
    wanted = options({command!r}, {port}, Mode.AUTO)
    asyncio.run(Runner(wanted, store, PIPELINE, Person(), timings=QUICK).run())
"""


async def killed_supervisor(store: Store, command: list[str], port: int, when: Callable[[], object]) -> None:
    """Runs Crashcart in a process of its own until `when` holds, and kills it there."""
    code = SUPERVISOR.format(tests=str(Path(__file__).parent), state=str(store.state), command=command, port=port)
    with subprocess.Popen([sys.executable, "-c", code]) as supervisor:
        deadline = time.monotonic() + 20
        while not when():
            assert time.monotonic() < deadline
            assert supervisor.poll() is None
            await asyncio.sleep(0.01)
        supervisor.kill()


def server_pid(store: Store) -> int | None:
    view = store.get_server("box")
    return view.pid if view else None


async def test_a_server_that_outlived_crashcart_is_not_started_twice(
    store: Store, server: list[str], port: int
) -> None:
    command = [*server, "--port", str(port)]
    await killed_supervisor(store, command, port, lambda: server_pid(store))
    pid = server_pid(store)
    assert pid is not None

    with pytest.raises(LaunchError, match=f"still runs from before, without supervision: process {pid} "):
        await ended(store, options(command, port))
    os.kill(pid, signal.SIGKILL)


async def test_a_relaunch_that_crashcart_did_not_survive_is_proposed_not_repeated(
    store: Store, server: list[str], port: int
) -> None:
    command = ["LOAD=60", *typo(server, port)]
    await killed_supervisor(store, command, port, lambda: store.attempts(server="box") and server_pid(store))
    pid = server_pid(store)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    result, person = await ended(store, options(command, port))
    incident = the_incident(store)

    assert (result.launches, result.exit_code) == (1, 2)
    assert any("it is not repeated by itself" in text for text in person.said)
    assert [attempt.outcome for attempt in incident.attempts] == [AttemptOutcome.INTERRUPTED]
    assert incident.proposal is not None


async def test_a_death_that_nobody_saw_is_stored_at_the_next_start(store: Store, tmp_path: Path, port: int) -> None:
    script = tmp_path / "late.py"
    script.write_text(
        "import sys, time\nprint('up', flush=True)\ntime.sleep(0.7)\n"
        "sys.stderr.write('usage: serve [--context-length W] [--port PORT]\\n')\n"
        "sys.stderr.write('serve: error: unrecognized arguments: --context-lenght 4\\n')\nsys.exit(2)\n"
    )
    command = [sys.executable, str(script), "--port", str(port), "--context-lenght", "4"]
    await killed_supervisor(store, command, port, lambda: server_pid(store))
    await asyncio.sleep(1.0)

    _, person = await ended(store, options(command, port, Mode.OFF))
    incident = the_incident(store)

    assert any(text.startswith("the launch before ended unseen: incident 1") for text in person.said)
    assert [launch.diagnosis is not None for launch in incident.launches] == [True, True]


async def test_a_process_that_crashcart_started_but_did_not_live_to_write_down_is_not_started_beside(
    store: Store, server: list[str], port: int
) -> None:
    command = [*server, "--port", str(port)]
    launch = store.begin_launch("box", command, Engine.SGLANG)
    env = {**os.environ, MARK: mark_of(store, launch)}
    with subprocess.Popen([*command], env=env, start_new_session=True, stdout=subprocess.DEVNULL) as left:
        await asyncio.sleep(0.2)
        with pytest.raises(LaunchError, match=f"still runs from before, without supervision: process {left.pid} "):
            await ended(store, options(command, port))
        left.kill()
