"""The demo: a server that dies three times of its launch command and comes back, in three acts.

Everything in it is real but the model: real processes of the practice server, `crashcart run`, `check` and `wait` as
a person types them, and a state folder that can be looked at afterwards.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from app.core.errors import LaunchError
from app.core.resources import practice_folder
from app.core.vocabulary import IncidentStatus, Phase
from app.service.own_command import OwnCommand, Show
from app.store.processes import alive
from app.store.store import Store
from app.store.views import IncidentView

SERVER = "demo"
KILLED_SERVER = "demo-killed"
_STORY_SECONDS = 60.0  # on a machine that is busy with other things; a few seconds otherwise
_KILL_AT = 60.0  # percent: the stand-in has three shards, so the next it says is 67
_LOAD_THEN_HANG = "0.7,0.7,60"  # seconds a shard: the kill hits the same moment on slow machines too
_POLL = 0.05

T = TypeVar("T")


@dataclass(frozen=True)
class Stage:
    """Where the demo plays: its state folder, and what the practice server and our own commands get as environment."""

    state: Path
    env: Mapping[str, str]

    def own(self, *words: str, show: Show, show_server: Show | None = None, load_seconds: str = "0.6") -> OwnCommand:
        env = {**self.env, "PRACTICE_LOAD_SECONDS": load_seconds, "PYTHONUNBUFFERED": "1"}
        return OwnCommand([words[0], *self._state(words[0]), *words[1:]], env=env, show=show, show_server=show_server)

    def _state(self, command: str) -> list[str]:
        return [] if command == "check" else ["--state", str(self.state)]


@dataclass(frozen=True)
class Recovery:
    """How act one ended."""

    incident: IncidentView | None
    seconds: float

    @property
    def launches(self) -> int:
        return len(self.incident.launches) if self.incident else 0

    @property
    def failed(self) -> int:
        launches = self.incident.launches if self.incident else ()
        return sum(1 for launch in launches if launch.diagnosis is not None and launch.diagnosis.causes)

    @property
    def resolved(self) -> bool:
        return self.incident is not None and self.incident.status is IncidentStatus.RESOLVED

    @property
    def as_told(self) -> bool:
        """Three crashes, three diagnoses, and a healthy fourth launch."""
        return self.resolved and self.launches == 4 and self.failed == 3


@dataclass(frozen=True)
class Foresight:
    """What act two's `check` found without starting anything."""

    exit_code: int | None
    seconds: float
    text: str

    @property
    def as_told(self) -> bool:
        """All three mistakes are named, each in a finding of its own."""
        return self.exit_code == 1 and self.text.count("✖") == 3


@dataclass(frozen=True)
class Truth:
    """What act three's `wait` said about a server that was killed while it loaded."""

    percent: float | None
    seconds: float  # from the kill to the answer
    text: str

    @property
    def as_told(self) -> bool:
        return self.percent is not None and "SIGKILL" in self.text and f"{self.percent:.0f}" in self.text


@contextmanager
def stage(state: Path, *, width: int, color: bool) -> Iterator[Stage]:
    """A fresh folder `demo` below the state folder, so that every performance begins with nothing."""
    folder = state / "demo"
    env = {"COLUMNS": str(width), "CRASHCART_STATE": str(folder), "PYTHON_COLORS": "0"}
    env |= {"FORCE_COLOR": "1"} if color else {"NO_COLOR": "1", "FORCE_COLOR": ""}
    with _alone(state / "demo.lock"):
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
        yield Stage(folder, env)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise LaunchError("Another demo is being played with this state folder.", mend="Wait for its end.") from error
    finally:
        os.close(descriptor)


def wrong_command(port: int) -> list[str]:
    """The launch command with three mistakes, ready to paste from where the person stands."""
    return [
        "SGLANG_ENABLE_SPEC_V2=True",
        *healthy_command(port),
        *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "practice/tiny-llama-eagle3"),
        *("--speculative-eagle-topk", "4", "--num-speculative-tokens", "16"),
    ]


def healthy_command(port: int) -> list[str]:
    program = [_from_here(Path(sys.executable)), _from_here(practice_folder() / "practice_server")]
    return [*program, "--model-path", "practice/tiny-llama", "--port", str(port)]


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def run_words(command: list[str]) -> list[str]:
    """Act one as it is typed."""
    options = ["--name", SERVER, "--engine", "sglang", "--mode", "auto", "--allow", "degrading"]
    return ["run", *options, "--no-preflight", "--settle", "1", "--", *command]


def check_words(command: list[str]) -> list[str]:
    """Act two as it is typed."""
    return ["check", "--engine", "sglang", "--", *command]


def run_killed_words(command: list[str]) -> list[str]:
    """Act three as it is typed, the server's side."""
    return ["run", "--name", KILLED_SERVER, "--engine", "sglang", "--mode", "off", "--", *command]


def wait_words() -> list[str]:
    """Act three as it is typed, the side of whoever waits for the server."""
    return ["wait", KILLED_SERVER, "--until", "ready", "--timeout", "60"]


def typed(words: list[str]) -> str:
    """The command line as a person types it."""
    return "crashcart " + " ".join(word if "=" in word else shlex.quote(word) for word in words)


def recover(stage: Stage, command: list[str], show: Show, show_server: Show) -> Recovery:
    """Act one: the wrong command in `run`, until its incident is over; then Ctrl-C, as a person would."""
    begin = time.monotonic()
    with (
        Store.open(stage.state) as store,
        _nothing_left(store),
        stage.own(*run_words(command), show=show, show_server=show_server) as run,
    ):
        incident = _until(lambda: _over(store), run, _STORY_SECONDS)
        seconds = time.monotonic() - begin
        run.interrupt()
        run.wait(12)
    return Recovery(incident, seconds)


@contextmanager
def _nothing_left(store: Store) -> Iterator[None]:
    """A `run` that had to be killed leaves its server alive; the demo must not."""
    try:
        yield
    finally:
        for server in store.list_servers():
            for launch in store.launches(server.name, limit=1):
                if launch.pgid is not None and launch.ended_at is None and alive(launch.process):
                    os.killpg(launch.pgid, signal.SIGKILL)


def _over(store: Store) -> IncidentView | None:
    """The demo's incident once nothing more will happen to it."""
    for incident in store.incidents(server=SERVER, limit=1):
        if incident.status in (IncidentStatus.RESOLVED, IncidentStatus.NEEDS_HUMAN, IncidentStatus.PROPOSED):
            return store.incident(incident.id)
    return None


def foresee(stage: Stage, command: list[str], show: Show) -> Foresight:
    """Act two: what `check` says about the same command before anything starts."""
    begin = time.monotonic()
    with stage.own(*check_words(command), show=show) as check:
        code = check.wait(30)
    return Foresight(code, time.monotonic() - begin, "\n".join(check.lines))


def kill_while_loading(stage: Stage, show: Show, killed: Callable[[int, float], object]) -> Truth:
    """Act three: a server is killed from outside at two thirds of loading; someone waits for it meanwhile.

    `killed` is told pid and percentage at the moment of the kill.
    """
    command = healthy_command(free_port())
    quiet: Show = lambda line: None  # noqa: E731 - its output is not the story
    with (
        Store.open(stage.state) as store,
        _nothing_left(store),
        stage.own(*run_killed_words(command), show=quiet, load_seconds=_LOAD_THEN_HANG) as run,
    ):
        _until(lambda: store.get_server(KILLED_SERVER), run, 20)
        with stage.own(*wait_words(), show=show) as wait:
            loading = _until(lambda: _at_two_thirds(store), run, 30)
            if loading is None:
                return Truth(None, 0.0, "")
            pid, percent = loading
            begin = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            killed(pid, percent)
            wait.wait(20)
            seconds = time.monotonic() - begin
        run.wait(5)
    return Truth(percent, seconds, "\n".join(wait.lines))


def _at_two_thirds(store: Store) -> tuple[int, float] | None:
    server = store.get_server(KILLED_SERVER)
    if server is None or server.pid is None or server.progress is None:
        return None
    percent = server.progress.percent
    if server.progress.phase is not Phase.LOADING or percent is None or percent < _KILL_AT:
        return None
    return server.pid, percent


def _until(look: Callable[[], T | None], run: OwnCommand, seconds: float) -> T | None:
    """What `look` finds, or None when `run` has ended or time is up before it found anything."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (found := look()) is not None:
            return found
        if not run.running:
            return look()
        time.sleep(_POLL)
    return None
