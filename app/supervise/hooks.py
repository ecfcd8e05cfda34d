"""Commands of the operator's around a server's end and beginning: take it out of the load balancer, put it back.

A hook is an argument list that runs without a shell, in bounded time. It is told of the server by variables. Whatever
becomes of it, the server is stopped or used all the same: a broken hook must not keep a broken server running.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from app.core.redact import redact_text
from app.supervise.programs import run_program

_SAID = 200  # characters of its output that are told


@dataclass(frozen=True, slots=True)
class Hooks:
    """What is run, and for how many seconds at most. Empty: nothing."""

    before_stop: tuple[str, ...] = ()
    after_ready: tuple[str, ...] = ()
    timeout: float = 30.0


def run_hook(argv: Sequence[str], timeout: float, *, server: str, port: int | None, pid: int) -> str:
    """Runs a hook to its end and says, redacted, what became of it."""
    about = {"CRASHCART_SERVER": server, "CRASHCART_PORT": str(port or ""), "CRASHCART_PID": str(pid)}
    result = run_program(argv, timeout=timeout, env={**os.environ, **about})
    if result.ok:
        return "done"
    if result.outcome == "timed-out":
        return f"did not end within {timeout:g} s and was ended"
    if result.outcome == "not-available":
        return redact_text(f"could not be started: {result.error}")
    said = (result.stderr or result.stdout).strip().rpartition("\n")[2][:_SAID]
    return redact_text(f"failed with exit code {result.code}" + (f": {said}" if said else ""))
