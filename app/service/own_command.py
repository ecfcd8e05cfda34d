"""Crashcart's own commands, run as a person would type them, their output handed on line by line."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

# -P: a folder called `app` where the person happens to stand must not be taken for ours.
_PROGRAM = ("-P", "-c", "from app.cli.main import main; main()")

Show = Callable[[str], object]


class OwnCommand:
    """A running `crashcart …`. As a context manager it never leaves a process behind.

    It has a process group of its own, so that Ctrl-C at the terminal reaches us first and it is told once.
    """

    def __init__(
        self, words: Sequence[str], *, env: Mapping[str, str], show: Show, show_server: Show | None = None
    ) -> None:
        """`show` gets its words, `show_server` the server's output, which is all that `run` writes to stdout."""
        self._process = subprocess.Popen(
            [sys.executable, *_PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **env},
            process_group=0,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, args=(show, show_server or show), daemon=True)
        self._reader.start()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout: float) -> int | None:
        """The exit code when it ends in time and all its output was handed on, else None."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(2)
        return code

    def interrupt(self) -> None:
        """Ctrl-C."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Ends it: Ctrl-C, a second one, at last SIGKILL."""
        for patience in (12, 5):
            if not self.running:
                break
            self.interrupt()
            self.wait(patience)
        if self.running:
            self._process.kill()
        self.wait(5)

    def __enter__(self) -> OwnCommand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, show: Show, show_server: Show) -> None:
        """Hands lines on in the order in which they were written: of both pipes, stdout is emptied first."""
        shows = {self._process.stdout: show_server, self._process.stderr: show}
        with selectors.DefaultSelector() as ready:
            rest: dict[int, bytes] = {}
            for pipe, callback in shows.items():
                if pipe is not None:
                    ready.register(pipe, selectors.EVENT_READ, callback)
            while ready.get_map():
                keys = [key for key, _ in ready.select()]
                key = min(keys, key=lambda one: one.fd)
                data = os.read(key.fd, 65536)
                if not data:
                    ready.unregister(key.fileobj)
                *lines, rest[key.fd] = (rest.get(key.fd, b"") + data).split(b"\n")
                for raw in lines:
                    self._hand_on(raw, key.data)
        for pipe in shows:
            if pipe is not None:
                pipe.close()

    def _hand_on(self, raw: bytes, show: Show) -> None:
        line = raw.decode(errors="replace")
        self.lines.append(line)
        show(line)
