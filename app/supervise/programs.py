"""Runs short, read-only programs: the one place where such a program is started.

Nothing here is for servers. A program gets an argument list (never a shell), no input, a time limit, and a process
group of its own that is ended as a whole; its output is capped.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

MAX_OUTPUT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """What came of a program.

    `outcome` ended: it ran to its end, with `code`; timed-out: it was ended by us; not-available: it is not
    installed, may not be executed, or could not be started, with the reason in `error`.
    """

    outcome: Literal["ended", "timed-out", "not-available"]
    code: int | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False  # more was printed than is kept
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.outcome == "ended" and self.code == 0


def run_program(
    argv: Sequence[str],
    timeout: float = 10.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    max_output: int = MAX_OUTPUT,
) -> ProgramResult:
    """Runs a program to its end and returns what it printed; never raises for a missing or misbehaving program.

    `env` is the whole environment (None: our own). Of each stream the first `max_output` bytes are kept.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return ProgramResult("not-available", error=str(error))
    with process:
        kept = {stream: bytearray() for stream in (process.stdout, process.stderr) if stream is not None}
        try:
            in_time, truncated = _collect(process, kept, time.monotonic() + timeout, max_output)
        finally:
            _end_group(process)
    out, err = (part.decode("utf-8", "replace") for part in kept.values())
    return ProgramResult(
        "ended" if in_time else "timed-out",
        code=process.returncode if in_time else None,
        stdout=out,
        stderr=err,
        truncated=truncated,
        error="" if in_time else f"did not end within {timeout:g} s",
    )


def _collect(
    process: subprocess.Popen[bytes], kept: Mapping[IO[bytes], bytearray], deadline: float, limit: int
) -> tuple[bool, bool]:
    """Reads both streams until the program has ended; says whether it did in time, and whether output was cut."""
    truncated = False
    with selectors.DefaultSelector() as selector:
        for stream, so_far in kept.items():
            selector.register(stream, selectors.EVENT_READ, so_far)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return False, truncated
            # A grandchild can hold the streams open after the program itself has ended: then only look for the rest.
            ready = selector.select(min(left, 0.1))
            if not ready and process.poll() is not None:
                return True, truncated
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                    continue
                room = limit - len(key.data)
                truncated = truncated or len(chunk) > room
                key.data.extend(chunk[:room])
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False, truncated
    return True, truncated


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends whatever is left of the program's group and reaps the program."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
