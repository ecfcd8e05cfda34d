"""One child: a server process in a session of its own, its output appended to a file that is kept."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from app.core.command import Command
from app.core.errors import LaunchError
from app.core.model import Exit
from app.core.vocabulary import Category
from app.supervise.group import MARK, Group

_PR_SET_CHILD_SUBREAPER = 36
_LOOK = 0.2  # seconds between looks at a process that can't be waited for


class Child:
    """A started server process. Its output goes straight to a file: it lives on when Crashcart dies."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self._process = process
        self.pid = process.pid
        self.started_at = time.time()
        self.group = Group(process.pid, mark, since=self.started_at)
        self._ended = asyncio.Event()
        self._watch()

    @classmethod
    def start(cls, command: Command, *, log: Path, mark: str, cwd: Path | None = None) -> Child:
        """Starts a command: argument list, own session, input closed, output and errors appended to `log`.

        The environment is ours, with the command's assignments over it. Needs a running event loop.
        """
        _become_reaper()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            process = subprocess.Popen(
                list(command.argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=cwd,
                env={**os.environ, **dict(command.env), MARK: mark},
            )
        except FileNotFoundError as error:
            raise LaunchError(
                f"The program {error.filename!r} was not found.",
                category=Category.MISSING_DEPENDENCY,
                mend="Give its whole path, or activate the environment that it is installed in.",
            ) from error
        except (OSError, ValueError) as error:
            raise LaunchError(f"{command.argv[0]!r} could not be started: {error}.") from error
        finally:
            os.close(output)
        return cls(process, mark)

    @property
    def exit(self) -> Exit | None:
        """How it ended; None while it runs."""
        code = self._process.poll()
        return None if code is None else Exit.from_code(code)

    async def wait(self) -> Exit:
        """Waits for the process itself (not for its children) and says how it ended."""
        await self._ended.wait()
        return Exit.from_code(await asyncio.to_thread(self._process.wait))

    async def end(self, grace: float = 10.0, *, hurry: asyncio.Event | None = None) -> Exit:
        """Ends the process with its whole group and says how it ended."""
        left = await self.group.end(grace, hurry=hurry)
        if any(member.pid == self.pid for member in left):
            raise LaunchError(f"Process {self.pid} did not end, not even by SIGKILL.", mend="Look for a stuck driver.")
        return await self.wait()

    def release(self) -> None:
        """Lets go of a child that goes on living without us."""
        if self._process.poll() is None:
            self._process.returncode = 0  # or Popen would warn about a child left behind

    def _watch(self) -> None:
        """Notices the exit at once: by a pidfd where there are any, else by a waiting thread."""
        loop = asyncio.get_running_loop()
        if not hasattr(os, "pidfd_open"):
            self._waiter = loop.run_in_executor(None, self._process.wait)
            self._waiter.add_done_callback(lambda _: self._ended.set())
            return
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self._ended.set()
            return

        def on_exit() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self._ended.set()

        loop.add_reader(descriptor, on_exit)


class Adopted(Child):
    """A server that an earlier Crashcart started and that still runs: not our child, so its exit code stays unknown."""

    def __init__(self, pid: int, mark: str, since: float) -> None:
        self.pid = pid
        self.started_at = since
        self.group = Group(pid, mark, since=since)
        self._ended = asyncio.Event()
        self._watch()

    @property
    def exit(self) -> Exit | None:
        """An exit of unknown code; None while it runs."""
        return Exit() if self._ended.is_set() else None

    async def wait(self) -> Exit:
        """Waits until the process is gone."""
        await self._ended.wait()
        return Exit()

    def release(self) -> None:
        """Nothing is held."""

    def _watch(self) -> None:
        if hasattr(os, "pidfd_open"):
            super()._watch()
        else:
            self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        while psutil.pid_exists(self.pid):
            await asyncio.sleep(_LOOK)
        self._ended.set()


def exists_program(command: Command) -> bool:
    """Whether the program of a command can be found, as the launch would look for it."""
    path = dict(command.env).get("PATH", os.environ.get("PATH", os.defpath))
    program = command.argv[0]
    candidates: Sequence[Path] = (
        [Path(program)] if "/" in program else [Path(folder) / program for folder in path.split(os.pathsep)]
    )
    return any(candidate.is_file() and os.access(candidate, os.X_OK) for candidate in candidates)


def _become_reaper() -> None:
    """Orphans of our servers come to us instead of to init, so that we can end and reap them (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
