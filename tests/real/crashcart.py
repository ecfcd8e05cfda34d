"""The installed `crashcart` program, as a person runs it beside a real server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from app.store.store import Store
from tests.real.launching import environment

T = TypeVar("T")

PROGRAM = Path(sys.executable).with_name("crashcart")


@dataclass
class Crashcart:
    state: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def answer(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            [str(PROGRAM), *words],
            env={**environment(), "CRASHCART_STATE": str(self.state)},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def json(self, *words: str, timeout: float = 120) -> dict[str, Any]:
        """What a command prints with --json. `words` may hold `--` and a launch command at their end."""
        place = words.index("--") if "--" in words else len(words)
        done = self.answer(*words[:place], "--json", *words[place:], timeout=timeout)
        assert done.stdout, done.stderr
        value: dict[str, Any] = json.loads(done.stdout)
        return value

    def start(self, *words: str, output: Path) -> subprocess.Popen[str]:
        """Starts a command that goes on; its output goes to a file."""
        with output.open("wb") as file:
            process = subprocess.Popen(
                [str(PROGRAM), *words],
                env={**environment(), "CRASHCART_STATE": str(self.state)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                text=True,
                process_group=0,
            )
        self.started.append(process)
        return process

    def seen(self, look: Callable[[Store], T | None], process: subprocess.Popen[str], seconds: float) -> T | None:
        """What `look` finds in the store while a command runs; None when it ended or time is up before."""
        deadline = time.monotonic() + seconds
        with Store.open(self.state) as store:
            while time.monotonic() < deadline:
                if (found := look(store)) is not None:
                    return found
                if process.poll() is not None:
                    return look(store)
                time.sleep(0.02)
        return None

    def close(self) -> None:
        """Ends every command that still runs, then any server that one of them left behind."""
        for process in self.started:
            for number in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
                if process.poll() is None:
                    process.send_signal(number)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(20)
        with Store.open(self.state) as store:
            for server in store.list_servers():
                for launch in store.launches(server.name):
                    if launch.pgid is not None and launch.ended_at is None:
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(launch.pgid, signal.SIGKILL)
