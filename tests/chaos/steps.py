"""What is done to a server or to Crashcart: the words of which scenarios are made."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable

import psutil

from app.core.vocabulary import IncidentStatus, ServerState
from app.store.words import Wish
from tests.chaos.stage import NAME, Stage

Step = Callable[[Stage], None]


def at(phase: str) -> Step:
    """Waits for a moment of the server's life: loading, warming, settling (ready just now) or ready (settled)."""

    def wait(stage: Stage) -> None:
        stage.until(lambda: _came_to(stage, phase), f"at {phase}")

    return wait


def _came_to(stage: Stage, phase: str) -> object:
    view = stage.view
    if view is None or view.pid is None:
        return False
    if phase == "started":
        return True
    if phase == "settled":
        return view.last_good_command is not None
    wanted = {"loading": ServerState.LOADING, "warming": ServerState.WARMING, "settling": ServerState.READY}[phase]
    if phase != "loading":
        return view.state is wanted
    progress = view.progress
    return view.state is wanted and progress is not None and (progress.percent or 0) >= 67


def send(name: str) -> Step:
    """A signal from outside to the server."""
    return lambda stage: os.kill(stage.pid, getattr(signal, name))


def send_worker(name: str) -> Step:
    """A signal from outside to one worker of the server."""

    def hit(stage: Stage) -> None:
        (worker, *_) = [
            child
            for child in psutil.Process(stage.pid).children()
            if "resource_tracker" not in " ".join(child.cmdline())
        ]
        worker.send_signal(getattr(signal, name))

    return hit


def pause(seconds: float) -> Step:
    return lambda _: time.sleep(seconds)


def kill_crashcart(stage: Stage) -> None:
    stage.kill_crashcart()


def stop_crashcart(stage: Stage) -> None:
    """A person's Ctrl-C."""
    assert stage.crashcart is not None
    stage.crashcart.send_signal(signal.SIGINT)


def again(stage: Stage) -> None:
    """Crashcart is started once more, as it was."""
    stage.start()


def ended(stage: Stage) -> None:
    """Waits until Crashcart has ended by itself."""
    stage.until(lambda: stage.crashcart is not None and stage.crashcart.poll() is not None, "Crashcart ended")


def second_is_refused(stage: Stage) -> None:
    """Another Crashcart for the same server on the same state folder."""
    first = stage.crashcart
    second = stage.start()
    if second.wait(20) == 0:
        stage.trouble.append("the second Crashcart was not refused")
    stage.crashcart = first


def incident(status: IncidentStatus) -> Step:
    def wait(stage: Stage) -> None:
        stage.until(lambda: (found := stage.incident) and found.status is status, f"an incident that is {status}")

    return wait


def attempts(number: int) -> Step:
    def wait(stage: Stage) -> None:
        stage.until(lambda: len(stage.store.attempts(server=NAME)) >= number, f"{number} attempts")

    return wait


def deaths(number: int) -> Step:
    """Waits until so many launches have died."""

    def wait(stage: Stage) -> None:
        stage.until(
            lambda: sum(1 for one in stage.store.launches(NAME) if one.ended_at is not None) >= number,
            f"{number} deaths",
        )

    return wait


def starts(number: int) -> Step:
    def wait(stage: Stage) -> None:
        stage.until(lambda: stage.launches >= number, f"{number} starts")

    return wait


def approve(stage: Stage) -> None:
    found = stage.incident
    assert found is not None
    stage.store.decide(found.id, None, Wish.APPROVE, "anna")


def wish_stop(stage: Stage) -> None:
    stage.wish("stop")


def take_port(stage: Stage) -> None:
    """A stranger listens on the server's port."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    deadline = time.monotonic() + 5
    while True:
        try:
            held.bind(("127.0.0.1", stage.port))
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    held.listen()
    stage.sockets.append(held)


def lock_database(seconds: float) -> Step:
    """Another program holds the database."""

    def hold(stage: Stage) -> None:
        code = (
            "import sqlite3, sys, time\n"
            "with sqlite3.connect(sys.argv[1], timeout=10, isolation_level=None) as base:\n"
            "    base.execute('BEGIN IMMEDIATE'); print('held', flush=True); time.sleep(float(sys.argv[2]))\n"
        )
        words = [sys.executable, "-c", code, str(stage.state / "crashcart.db"), str(seconds)]
        holder = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.stdout.close()
        stage.strangers.append(holder)

    return hold


def remove_log_folder(stage: Stage) -> None:
    shutil.rmtree(stage.state / "servers" / NAME)


def unwritable_log(stage: Stage) -> None:
    """The log can't be opened for writing any more (a folder stands in its place: root may write everything else)."""
    log = stage.state / "servers" / NAME / "log"
    log.unlink()
    log.mkdir()


def number_given_anew(stage: Stage) -> None:
    """The dead server's number belongs to another program now; that one must not be touched."""
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(80)"], start_new_session=True)
    stage.strangers.append(stranger)
    with contextlib.closing(sqlite3.connect(stage.state / "crashcart.db", timeout=10)) as base, base:
        base.execute(
            "UPDATE launch SET pid = ?, pgid = ?, started_at = datetime(started_at, '-90 seconds')",
            (stranger.pid, stranger.pid),
        )


def stranger_lives(stage: Stage) -> None:
    time.sleep(1.0)
    if stage.strangers[0].poll() is not None:
        stage.trouble.append("a stranger's process was ended")


def not_beside(stage: Stage) -> None:
    """`run` refuses to start beside a server from before, and names it; a person then stops it, as it says."""
    stage.start()
    ended(stage)
    if "still runs from before" not in stage.tail():
        stage.trouble.append("it was started beside the server from before")
    if len(set(stage.marked().values())) != 1:
        stage.trouble.append("the server from before is not there any more")


def end_it_as_told(stage: Stage) -> None:
    """A person ends the server that went on, as the refusal says."""
    os.kill(stage.pid, signal.SIGTERM)
    stage.until(lambda: not stage.marked(), "the server's end")


def kill_everything(stage: Stage) -> None:
    """Crashcart and the server die at once, as when the machine loses its power."""
    stage.kill_crashcart()
    for pid in stage.marked():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    stage.until(lambda: not stage.marked(), "all gone")


def until_hang(stage: Stage) -> None:
    """Waits until the hang is an incident."""
    stage.until(lambda: stage.incident, "an incident of the hang")
