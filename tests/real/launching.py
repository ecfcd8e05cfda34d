"""Runs a launch command of a real server to its end, its output going to a file."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.real.failures import Failure
from tests.real.servers import RealServer, free_port


@dataclass(frozen=True)
class Ended:
    """A launch that is over. `exit_code` is None when we ended it after it had hung."""

    words: list[str]
    log: Path
    exit_code: int | None


def fail(server: RealServer, failure: Failure, folder: Path, *, patience: float = 240) -> Ended:
    """Makes the failure on the real server and returns its log and exit code."""
    model = failure.make_model(folder / "model")
    log = folder / "server.log"
    port = free_port()
    words = server.command(model, port, *failure.extra)
    with listening(port) if failure.port_taken else nullcontext(), log.open("wb") as output:
        process = subprocess.Popen(
            split(words)[1], env=environment(words), stdout=output, stderr=output, start_new_session=True
        )
        try:
            exit_code = _wait(process, failure, log, patience)
        finally:
            kill_group(process)
    return Ended(words, log, exit_code)


def _wait(process: subprocess.Popen[bytes], failure: Failure, log: Path, patience: float) -> int | None:
    """The exit code; where the failure is a kill, or a hang that we end, the moment is a line in the log."""
    deadline = time.monotonic() + patience
    while process.poll() is None and time.monotonic() < deadline:
        if failure.stop_at and re.search(failure.stop_at, log.read_text(errors="replace")):
            process.send_signal(failure.stop_with)
            code = process.wait(30)
            return None if failure.port_taken else code
        time.sleep(0.02)
    return process.poll()


def split(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Leading NAME=value words, and the rest."""
    count = 0
    while re.match(r"[A-Za-z_]\w*=", words[count]):
        count += 1
    return dict(word.split("=", 1) for word in words[:count]), list(words[count:])


def environment(words: Sequence[str] = ()) -> dict[str, str]:
    """What a server or Crashcart gets: this process's, the words' own, and no way to a hub."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", **split([*words, "end"])[0]}


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Ends what the server left behind: vLLM's workers outlive a killed parent."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(30)


@contextmanager
def listening(port: int) -> Iterator[None]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        holder.listen()
        yield
