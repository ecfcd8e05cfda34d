"""`crashcart serve` as a process, for tests that kill it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

CRASHCART = [sys.executable, "-c", "from app.cli.main import main; main()"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """A service with its own state folder and configuration; as a context it runs, and is killed at the end."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder, self.state, self.port = folder, folder / "state", free_port()
        self.log = folder / "service.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.configure(text)

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def configure(self, text: str) -> None:
        path = self.folder / "crashcart.yaml"
        partial = path.with_suffix(".new")
        partial.write_text(f"listen: 127.0.0.1:{self.port}\n{text}")
        partial.replace(path)

    def start(self) -> None:
        words = [*CRASHCART, "--state", str(self.state), "serve", "--config", str(self.folder / "crashcart.yaml")]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)

    def until_ready(self, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"not ready: {self.log.read_text()}")

    def get(self, path: str) -> Any:
        answer = httpx.get(f"{self.url}{path}", timeout=5)
        answer.raise_for_status()
        return answer.json()

    def until(self, path: str, holds: Any, seconds: float = 15) -> Any:
        """The answer of `path` once it is there and `holds` says yes to it."""
        deadline = time.monotonic() + seconds
        while (found := self._answer(path)) is None or not holds(found):
            assert time.monotonic() < deadline, f"{found}\n{self.log.read_text()[-3000:]}"
            time.sleep(0.05)
        return found

    def _answer(self, path: str) -> Any:
        answer = httpx.get(f"{self.url}{path}", timeout=5)
        return None if answer.status_code == 404 else answer.raise_for_status().json()

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(10)
        self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.signal(signal.SIGTERM)
            assert self.process.wait(20) == 0, self.log.read_text()[-3000:]
            self.process = None
