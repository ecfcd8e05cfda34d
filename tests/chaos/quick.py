"""The real `crashcart`, with the clocks of its waits put forward: a hang takes seconds here, and minutes for people."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import app.cli.run
import app.service.runner
import app.service.serve
from app.cli.main import main
from app.service.acting import Actor
from app.service.following import Timings
from app.service.policy import Limits
from app.service.runner import Runner
from app.supervise.condition import Patience
from app.supervise.process import Child

QUICK: dict[str, Any] = {
    "settle": 0.8,
    "patience": Patience(stalled=2.0, hang=1.0, busy=4.0),
    "ask_loading": 0.1,
    "ask_settling": 0.1,
    "ask_ready": 0.3,
    "answer_wait": 1.5,
    "end_grace": 1.0,
    "leftover_grace": 0.5,
    "port_wait": 0.5,
    "last_words": 0.2,
    "look": 0.2,
}


def _timings(**given: Any) -> Timings:
    return Timings(**{**QUICK, **given})


def _limits() -> Limits:
    return Limits(restart_delay=float(os.environ.get("CHAOS_DELAY", "0.2")), relaunch_delay=0.1)


def _die_at(instant: str) -> None:
    """SIGKILL of this very process at an exact instant, once: no test could hit it from outside."""
    act, start, spawn = Actor.act, Runner._start, Child.start

    def die() -> None:
        killed = Path(os.environ["CHAOS_FOLDER"]) / "killed"
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    async def dying_act(self: Actor, death: Any) -> Any:
        die()
        return await act(self, death)

    async def dying_start(self: Runner, command: Any, chosen: Any) -> Any:
        if chosen is not None:
            die()
        return await start(self, command, chosen)

    def dying_spawn(*words: Any, **more: Any) -> Any:
        child = spawn(*words, **more)
        time.sleep(0.3)  # the server itself has begun by now
        die()
        return child

    patches: dict[str, tuple[type, str, Any]] = {
        "before-decision": (Actor, "act", dying_act),
        "before-launch": (Runner, "_start", dying_start),
        "after-spawn": (Child, "start", staticmethod(dying_spawn)),
    }
    if instant:
        setattr(*patches[instant])


if __name__ == "__main__":
    _die_at(os.environ.get("CHAOS_DIE", ""))
    for module in (app.cli.run, app.service.serve):
        setattr(module, "Timings", _timings)  # noqa: B010 - for mypy it is no variable
    setattr(app.service.runner, "Limits", _limits)  # noqa: B010
    main()
