"""Did the kernel kill for want of memory? Asked of the server's memory cgroup and, where it may be read, of its log.

A SIGKILL leaves no word in a server's own log: these two are the only ones that know who sent it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.supervise.kernellog import Record

_ROOT = Path("/sys/fs/cgroup")
_PROC = Path("/proc")
_KILLED = re.compile(
    r"(?P<where>Memory cgroup o|O)ut of memory: Kill(?:ed)? process (?P<pid>\d+) \((?P<name>[^)]{1,40})\)"
    r"(?:.{0,200}?\banon-rss:(?P<rss>\d+)kB)?"
)
_NO_LIMIT = 2**60  # cgroup v1 writes a number near 2^63 for "none"


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """The memory cgroup of a process; it may be gone when it is asked later."""

    folder: Path
    root: Path
    counter: str  # the file with the line `oom_kill N`
    bound: str  # the file with the limit in bytes

    def kills(self) -> int | None:
        """How many processes in it and below the kernel has killed for want of memory, ever; None: not told."""
        with contextlib.suppress(OSError, ValueError):
            for line in (self.folder / self.counter).read_text().splitlines():
                name, _, number = line.partition(" ")
                if name == "oom_kill":
                    return int(number)
        return None

    def limit(self) -> int | None:
        """The smallest limit that holds for it, its own or one above, in bytes; None without one."""
        limits = [found for folder in self._upwards() if (found := self._limit_of(folder)) is not None]
        return min(limits, default=None)

    def _upwards(self) -> list[Path]:
        above = [one for one in self.folder.parents if one == self.root or self.root in one.parents]
        return [self.folder, *above]

    def _limit_of(self, folder: Path) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            limit = int((folder / self.bound).read_text())
            return limit if limit < _NO_LIMIT else None
        return None  # "max", or no such file


def memory_group(pid: int, *, root: Path = _ROOT, proc: Path = _PROC) -> MemoryGroup | None:
    """The memory cgroup that a process is in, by version 1 or 2; None where it can't be told."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            return _found(root / "memory", path, "memory.oom_control", "memory.limit_in_bytes")
    unified = [line[3:] for line in lines if line.startswith("0::")]
    return _found(root, unified[0], "memory.events", "memory.max") if unified else None


def _found(root: Path, path: str, counter: str, bound: str) -> MemoryGroup | None:
    """In a container the path may be the host's, and what is mounted is the container's own group."""
    for folder in (root / path.lstrip("/"), root):
        if (folder / counter).is_file():
            return MemoryGroup(folder, root, counter, bound)
    return None


@dataclass(frozen=True, slots=True)
class Before:
    """What the counter showed when a launch began, or was taken up."""

    group: MemoryGroup | None
    kills: int | None

    @classmethod
    def of(cls, pid: int) -> Before:
        group = memory_group(pid)
        return cls(group, group.kills() if group is not None else None)


def memory_facts(before: Before, processes: Mapping[int, str], records: list[Record]) -> dict[str, object]:
    """Facts for a diagnosis; empty where nothing says that memory was the reason.

    `processes` are all that the launch ever had, with their names; `records` what the kernel wrote since it began.

    - `oom_kills`: how many processes the kernel killed in the server's cgroup since the launch began
    - `oom_victim`: one of the launch's own that the kernel says it killed: `python3 (4711)`
    - `oom_where`: "the limit of its cgroup" or "the whole machine", as far as told
    - `memory_limit`: "32.0 GiB", where there is one
    """
    facts: dict[str, object] = {}
    now = before.group.kills() if before.group is not None else None
    if now is not None and before.kills is not None and now > before.kills:
        facts["oom_kills"] = str(now - before.kills)
    if victim := _victim(processes, records):
        facts["oom_victim"] = f"{victim['name']} ({victim['pid']})"
        facts["oom_where"] = "the limit of its cgroup" if victim["where"].startswith("M") else "the whole machine"
        if victim["rss"]:
            facts["oom_used"] = f"{int(victim['rss']) / 2**20:.1f} GiB"
    if facts and before.group is not None and (limit := before.group.limit()) is not None:
        facts["memory_limit"] = f"{limit / 2**30:.1f} GiB"
    return facts


def _victim(processes: Mapping[int, str], records: list[Record]) -> re.Match[str] | None:
    """Number and name must both be ours: inside of a container the kernel's numbers are others."""
    for record in reversed(records):
        found = _KILLED.search(record.text)
        if found is not None and processes.get(int(found["pid"]), "")[:15] == found["name"][:15]:
            return found
    return None
