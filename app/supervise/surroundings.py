"""What the machine looks like at the moment of a death: read-only probes, each with a time limit.

A probe returns text for people, or None where the machine has no such thing. None of them costs the relaunch more than
the time limit, and none fails it: what can't be read is noted as "not available".
"""

from __future__ import annotations

import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.core.command import Command
from app.core.redact import redact_text
from app.supervise.flaghelp import find_installed
from app.supervise.kernellog import kernel_records, monotonic_of
from app.supervise.memorykill import MemoryGroup
from app.supervise.programs import run_program

TIMEOUT = 2.0  # seconds for all probes together: they run side by side
_KERNEL_LINES = 200
_SEVERE = 4  # warning, by the kernel's numbering
_GPU = "index,name,driver_version,memory.total,memory.used,utilization.gpu,temperature.gpu"


@dataclass(frozen=True, slots=True)
class Subject:
    """The launch that died. `began` is in seconds since 1970."""

    command: Command
    folder: Path  # where its log and evidence are kept
    began: float
    memory: MemoryGroup | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A probe's answer, redacted; `available` is false where it could not be had, and `text` says why."""

    probe: str
    available: bool
    text: str


Probe = Callable[[Subject], str | None]


def look_around(
    subject: Subject, probes: Mapping[str, Probe] | None = None, timeout: float = TIMEOUT
) -> tuple[Reading, ...]:
    """All probes side by side; blocks for `timeout` seconds at most. One that hangs is left behind."""
    wanted = PROBES if probes is None else probes
    answers: queue.SimpleQueue[Reading] = queue.SimpleQueue()
    for name, probe in wanted.items():
        # A thread that hangs in the kernel (a dead network mount) can't be ended: it must not hold up our own end.
        threading.Thread(target=lambda *one: answers.put(_ask(*one)), args=(name, probe, subject), daemon=True).start()
    deadline = time.monotonic() + timeout
    found: dict[str, Reading] = {}
    while len(found) < len(wanted):
        try:
            reading = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        found[reading.probe] = reading
    late = Reading("", available=False, text=f"no answer within {timeout:g} s")
    return tuple(found.get(name) or Reading(name, late.available, late.text) for name in wanted)


def _ask(name: str, probe: Probe, subject: Subject) -> Reading:
    try:
        text = probe(subject)
    except Exception as error:  # noqa: BLE001 - whatever a machine has in store, the others are still asked
        return Reading(name, available=False, text=redact_text(f"{type(error).__name__}: {error}"))
    return Reading(name, text is not None, redact_text(text) if text is not None else "not available here")


# -- the probes


def _memory(_: Subject) -> str:
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return (
        f"{_gib(memory.total)} in all, {_gib(memory.available)} available\n"
        f"swap: {_gib(swap.total)} in all, {_gib(swap.used)} used"
    )


def _cgroup(subject: Subject) -> str | None:
    group = subject.memory
    if group is None:
        return None
    limit, kills = group.limit(), group.kills()
    bound = f"limit {_gib(limit)}" if limit is not None else "no limit"
    return f"{bound}, {kills if kills is not None else '?'} processes killed for want of memory so far"


def _disk(subject: Subject) -> str:
    places = {"state folder": subject.folder, "temporary files": Path(os.environ.get("TMPDIR", "/tmp"))}  # noqa: S108
    if subject.command.model and (model := Path(subject.command.model)).is_absolute():
        places["model"] = model
    lines = []
    for name, place in places.items():
        while not place.exists():
            place = place.parent
        usage = shutil.disk_usage(place)
        lines.append(f"{name} ({place}): {_gib(usage.free)} of {_gib(usage.total)} free")
    return "\n".join(lines)


def _shared_memory(_: Subject) -> str | None:
    place = Path("/dev/shm")  # noqa: S108
    if not place.is_dir():
        return None
    usage = shutil.disk_usage(place)
    return f"{_gib(usage.free)} of {_gib(usage.total)} free"


def _ports(_: Subject) -> str:
    listening = [one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    lines = {f"{one.laddr[0]}:{one.laddr[1]} {_name(one.pid)}" for one in listening if one.laddr}
    return "\n".join(sorted(lines)) or "nothing listens"


def _gpus(_: Subject) -> str | None:
    answer = run_program(["nvidia-smi", f"--query-gpu={_GPU}", "--format=csv"], timeout=TIMEOUT)
    if answer.outcome == "not-available":
        return None
    who = run_program(["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,name,used_memory", "--format=csv"], TIMEOUT)
    return "\n".join(part for part in (answer.stdout, answer.stderr, who.stdout) if part).strip()


def _kernel(subject: Subject) -> str | None:
    records = kernel_records(monotonic_of(subject.began))
    if records is None:
        return None
    severe = [f"[{record.at:.6f}] {record.text}" for record in records if record.severity <= _SEVERE]
    return "\n".join(severe[-_KERNEL_LINES:]) or "no warning since the launch began"


def _versions(subject: Subject) -> str | None:
    lines = []
    driver = Path("/proc/driver/nvidia/version")
    if driver.is_file():
        lines.append(driver.read_text(encoding="utf-8", errors="replace").splitlines()[0])
    if (installed := find_installed(subject.command)) is not None:
        lines.append(f"{installed.engine} {installed.version or 'of unknown version'}, {installed.program}")
    return "\n".join(lines) or None


def _environment(subject: Subject) -> str:
    """Names only: a value may be a secret whatever its name is."""
    return "\n".join(sorted({*os.environ, *dict(subject.command.env)}))


def _load(_: Subject) -> str:
    one, five, fifteen = os.getloadavg()
    return f"{one:.2f} {five:.2f} {fifteen:.2f} on {os.cpu_count()} processors"


PROBES: Mapping[str, Probe] = {
    "memory": _memory,
    "cgroup": _cgroup,
    "disk": _disk,
    "shared-memory": _shared_memory,
    "listening-ports": _ports,
    "gpus": _gpus,
    "kernel-log": _kernel,
    "versions": _versions,
    "environment-names": _environment,
    "load": _load,
}


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


def _name(pid: int | None) -> str:
    if pid is None:
        return "(process unknown)"
    try:
        return f"{psutil.Process(pid).name()} ({pid})"
    except psutil.Error:
        return f"({pid})"
