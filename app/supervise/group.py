"""All processes of one launch: found by session, by ancestry and by a mark in their environment, and ended as one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

MARK = "CRASHCART_LAUNCH"  # environment variable that every process of a launch inherits
_STEP = 0.05  # seconds between looks while waiting for processes to go
_KILL_WAIT = 10.0  # after SIGKILL: a process that frees GPU memory takes seconds


@dataclass(frozen=True, slots=True)
class Member:
    """A living process of a launch."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.name})"


class Group:
    """The processes of one launch, also when its supervisor or its first process is long gone.

    The first process is a session leader (`leader`). Children that start a session of their own are still found:
    by the mark that they inherit, or because they were seen below the leader while it lived. `since` tells the
    session apart from a later one that was given the same number.
    """

    def __init__(self, leader: int, mark: str, *, since: float | None = None) -> None:
        self.leader = leader
        self.mark = mark
        self.since = since
        self._seen: dict[int, psutil.Process] = {}
        self._names: dict[int, str] = {}
        self._roster: frozenset[int] = frozenset()
        self._children: frozenset[int] = frozenset()  # those of the roster that the leader itself started
        self._used: dict[int, float] = {}  # processor seconds by process, at the last question

    def members(self) -> list[Member]:
        """The living processes of the launch, oldest first. Zombies hold nothing and do not count."""
        found = []
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                # Never the command line, which may hold secrets.
                found.append(Member(process.pid, process.name()))
        return found

    def everyone(self) -> dict[int, str]:
        """All processes that were seen of the launch, living or not: names by number."""
        return dict(self._names)

    def look(self) -> None:
        """Remembers who is below the leader now; ended processes of the launch that became ours are reaped."""
        with contextlib.suppress(psutil.Error):
            leader = psutil.Process(self.leader)
            if self._is_our_leader(leader):
                self._names[self.leader] = leader.name()
                for child in leader.children(recursive=True):
                    self._seen.setdefault(child.pid, child)
                    self._names[child.pid] = child.name()
        self._reap()

    def call_roll(self) -> None:
        """Takes the processes that are there now, at ready, as those that serving needs."""
        self.look()
        self._roster = frozenset(pid for pid, process in self._seen.items() if pid != self.leader and _lives(process))
        self._children = frozenset(self._children_now())

    def lost(self) -> list[Member]:
        """Those of the roll call that have ended since: a server that lost one may wait for it for ever."""
        return [
            Member(pid, self._names.get(pid, "name unknown"))
            for pid in sorted(self._roster)
            if not _lives(self._seen[pid])
        ]

    def fewer(self) -> list[Member]:
        """The leader's own children that have ended since the roll call, where it did not start others instead."""
        if len(self._children_now()) >= len(self._children):
            return []
        return [member for member in self.lost() if member.pid in self._children]

    def stopped(self) -> list[Member]:
        """Those of the launch that somebody stopped (SIGSTOP, a debugger does otherwise)."""
        found = []
        for pid, process in sorted(self._seen.items()):
            with contextlib.suppress(psutil.Error):
                if process.status() == psutil.STATUS_STOPPED:
                    found.append(Member(pid, self._names.get(pid, "name unknown")))
        return found

    def processor_seconds(self) -> float:
        """What the launch's processes have used of the processor since the last question."""
        before, self._used = self._used, {}
        for pid in self._names:
            with contextlib.suppress(psutil.Error):
                times = psutil.Process(pid).cpu_times()
                self._used[pid] = times.user + times.system
        return sum(max(0.0, used - before.get(pid, used)) for pid, used in self._used.items())

    def _children_now(self) -> set[int]:
        with contextlib.suppress(psutil.Error):
            leader = psutil.Process(self.leader)
            if self._is_our_leader(leader):
                return {child.pid for child in leader.children() if _lives(child)}
        return set()

    async def end(self, grace: float = 10.0, *, hurry: asyncio.Event | None = None) -> list[Member]:
        """Ends the whole group: SIGTERM, up to `grace` seconds, SIGKILL, until it is gone. Returns who is left.

        The leader gets its SIGTERM first: servers end their workers in order, and take a worker that ends before
        them for a crash. The others get theirs when the leader has ended, or did nothing for half the time.

        When `hurry` is set meanwhile, SIGKILL comes at once.
        """
        self.look()
        if grace > 0 and await self._asked_to_end(grace, hurry):
            return []
        deadline = time.monotonic() + _KILL_WAIT
        while time.monotonic() < deadline:
            # Again and again: a process may fork between the look and the signal.
            living = self._processes()
            if not living:
                return []
            self._signal(living, signal.SIGKILL)
            await asyncio.sleep(_STEP)
        return self.members()

    async def _asked_to_end(self, grace: float, hurry: asyncio.Event | None) -> bool:
        """True when SIGTERM was enough."""
        begun = time.monotonic()
        asked: set[int] = set()
        while time.monotonic() < begun + grace and not (hurry and hurry.is_set()):
            living = self._processes()
            if not living:
                return True
            leader = [process for process in living if process.pid == self.leader]
            early = time.monotonic() < begun + grace / 2
            due = [process for process in (leader if leader and early else living) if process.pid not in asked]
            self._signal(due, signal.SIGTERM)
            asked.update(process.pid for process in due)
            await asyncio.sleep(_STEP)
        return not self._processes()

    def _signal(self, processes: Iterable[psutil.Process], number: signal.Signals) -> None:
        for process in processes:
            # psutil refuses to signal a process that took over a remembered number.
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def _processes(self) -> list[psutil.Process]:
        self._reap()
        found = {pid: process for pid, process in self._seen.items() if _lives(process)}
        for process in psutil.process_iter():
            if process.pid not in found and process.pid != os.getpid() and self._owns(process):
                found[process.pid] = process
                self._seen[process.pid] = process
        return sorted(found.values(), key=lambda process: process.pid)

    def _owns(self, process: psutil.Process) -> bool:
        try:
            ours = os.getsid(process.pid) == self.leader or self._carries_mark(process)
            return ours and self._in_our_time(process) and _lives(process)
        except (psutil.Error, OSError):
            return False

    def _in_our_time(self, process: psutil.Process) -> bool:
        """False where the number of the session was given anew: to a leader that started at another time."""
        if process.pid == self.leader:
            return self._is_our_leader(process)
        return self.since is None or process.create_time() >= self.since - 5

    def _is_our_leader(self, process: psutil.Process) -> bool:
        return self.since is None or abs(process.create_time() - self.since) < 5

    def _carries_mark(self, process: psutil.Process) -> bool:
        # A process that renamed itself may have overwritten its environment; then session or ancestry finds it.
        return process.environ().get(MARK) == self.mark

    def _reap(self) -> None:
        """Ends zombies of the launch that were handed to us; the leader's status belongs to whoever started it."""
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error, OSError):
                if child.pid == self.leader or child.status() != psutil.STATUS_ZOMBIE:
                    continue
                if child.pid in self._seen or os.getsid(child.pid) == self.leader:
                    os.waitpid(child.pid, os.WNOHANG)


def marked(mark: str) -> list[Member]:
    """The living processes that carry a launch's mark: its first one, a session leader, in front."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark and _lives(process):
                leads = os.getsid(process.pid) == process.pid
                found.append((not leads, process.create_time(), Member(process.pid, process.name())))
    return [member for _, _, member in sorted(found, key=lambda one: one[:2])]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
