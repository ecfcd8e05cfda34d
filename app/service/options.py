"""What `run` is asked to do, whom it talks to, and what it hands back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from app.core.command import Command
from app.core.model import Cause, Diagnosis
from app.core.vocabulary import Engine, Mode, Safety, ServerState
from app.core.windows import Window
from app.supervise.hooks import Hooks

_HEALTH_PATHS = {
    Engine.SGLANG: "/health",
    Engine.VLLM: "/health",
    Engine.LLAMACPP: "/health",
    Engine.TGI: "/health",
    Engine.TENSORRT_LLM: "/health",
    Engine.LMDEPLOY: "/health",
    Engine.OLLAMA: "/",
}
_TLS_FLAGS = ("--ssl-keyfile", "--ssl-certfile", "--ssl-key-file", "--ssl-cert-file")


@dataclass(frozen=True, slots=True)
class Canary:
    """A real request that a healthy server answers: POST of `body` (JSON) to `url`, every so many seconds."""

    url: str
    body: str
    every: float = 300.0
    timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """One call of `run`. `health` is None where no endpoint is known: then only the log tells about readiness."""

    name: str
    command: Command
    engine: Engine | None = None
    mode: Mode = Mode.PROPOSE
    allow: Safety = Safety.SAFE
    health: str | None = None
    preflight: bool = True
    max_relaunches: int = 5
    log: Path | None = None
    wait_decision: float = 0.0
    cwd: Path | None = None
    pass_output: bool = True  # whether somebody looks at the server's own output
    canary: Canary | None = None
    hands_off: tuple[Window, ...] = ()  # in which nothing is done alone
    hooks: Hooks = field(default_factory=Hooks)
    adopt: bool = False  # take over a server that still runs from before, instead of refusing to start beside it


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. `command` is the last one started (or proposed to be), as words."""

    server: str
    exit_code: int
    state: ServerState
    incident: int | None
    launches: int
    command: tuple[str, ...]
    changed: bool


class Terminal(Protocol):
    """The person in front of a run, if there is one."""

    @property
    def interactive(self) -> bool:
        """Whether somebody can be asked."""

    def say(self, text: str) -> None:
        """Tells one line."""

    def show(self, diagnosis: Diagnosis, *, log: Path | None, next_step: str) -> None:
        """Shows the card of a diagnosis."""

    def show_findings(self, command: Command, findings: Sequence[Cause]) -> None:
        """Shows what pre-flight found."""

    def show_command(self, title: str, command: Command) -> None:
        """Shows a command ready to paste."""

    def pass_on(self, data: bytes) -> None:
        """Passes the server's own output on, from any thread."""

    async def ask(self, question: str, answers: str) -> str:
        """Asks and returns one letter of `answers`; the last one when the person can't answer any more."""


def default_name(command: Command, engine: Engine | None) -> str:
    """`engine-port`, as far as they are known."""
    kind = engine or command.engine or Engine.OTHER
    return f"{kind}-{command.port}" if command.port is not None else str(kind)


def default_health(command: Command, engine: Engine | None) -> str | None:
    """The engine's health endpoint on the host and port that the command names."""
    path = _HEALTH_PATHS.get(engine or command.engine or Engine.OTHER)
    if path is None or not command.port or any(command.has(flag) for flag in _TLS_FLAGS):
        return None
    host = command.host
    if host in (None, "0.0.0.0", "::", "[::]", "*"):  # noqa: S104 - compared, not bound
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if host and ':' in host and not host.startswith('[') else host}:{command.port}{path}"
