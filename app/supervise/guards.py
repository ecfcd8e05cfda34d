"""What must hold before a server is started: each guard is a named check whose verdict is kept."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from app.core.catalogue import FlagCatalogue
from app.core.command import Command
from app.core.model import Cause
from app.supervise.group import Group
from app.supervise.ports import port_holder
from app.supervise.programs import run_program

T = TypeVar("T")

DISK_ROOM = 200 * 1024 * 1024  # bytes a launch's log and evidence may need
_STEP = 0.1


@dataclass(frozen=True, slots=True)
class Verdict:
    """A guard's answer; `text` says why, for the timeline."""

    guard: str
    ok: bool
    text: str


async def old_group_gone(group: Group | None, wait: float = 0.0) -> Verdict:
    """No process of the launch before lives."""
    members = await _until_empty(lambda: group.members() if group else [], wait)
    if members:
        return Verdict("old-group-gone", False, f"still alive: {', '.join(map(str, members))}")
    return Verdict("old-group-gone", True, "no process of the launch before is left")


async def port_free(port: int | None, host: str | None = None, wait: float = 5.0) -> Verdict:
    """The server's port can be bound; a socket that is just closing is waited for."""
    if port is None:
        return Verdict("port-free", True, "the command names no port")
    holders = await _until_empty(lambda: [held] if (held := port_holder(port, host)) else [], wait)
    if holders:
        return Verdict("port-free", False, str(holders[0]))
    return Verdict("port-free", True, f"port {port} is free")


async def gpu_released(pids: Sequence[int], wait: float = 15.0) -> Verdict:
    """None of the old processes holds GPU memory any more, as far as nvidia-smi tells."""
    if not pids or shutil.which("nvidia-smi") is None:
        return Verdict("gpu-released", True, "nothing to ask: no nvidia-smi or no process before")
    holding = await asyncio.to_thread(_on_gpu, pids, wait)
    if holding:
        return Verdict("gpu-released", False, f"GPU memory is still held by {', '.join(map(str, holding))}")
    return Verdict("gpu-released", True, "the old processes hold no GPU memory")


def command_valid(command: Command, before: Command, catalogue: FlagCatalogue | None) -> Verdict:
    """The changed command has no argument problem that the one before had not."""
    if catalogue is None:
        return Verdict("command-valid", True, "no flag catalogue for this command")
    known = {problem.text for problem in catalogue.validate(before)}
    new = [problem.text for problem in catalogue.validate(command) if problem.text not in known]
    if new:
        return Verdict("command-valid", False, "; ".join(new))
    program = f"{catalogue.engine} {catalogue.version or ''}".strip()
    return Verdict("command-valid", True, f"valid by the flags of {program}")


def preflight_passed(findings: Iterable[Cause], before: Iterable[Cause]) -> Verdict:
    """The changed command has no pre-flight finding that the one before had not."""
    known = {(cause.rule, cause.explanation) for cause in before}
    new = [cause.title for cause in findings if (cause.rule, cause.explanation) not in known]
    if new:
        return Verdict("preflight", False, "; ".join(new))
    return Verdict("preflight", True, "the change brings no new finding")


def disk_room(folder: Path, need: int = DISK_ROOM) -> Verdict:
    """There is room for the log and the evidence of one more launch."""
    free = shutil.disk_usage(folder).free
    text = f"{free // 2**20} MiB free in {folder}"
    return Verdict("disk-room", free >= need, text if free >= need else f"only {text}, {need // 2**20} MiB wanted")


async def _until_empty(look: Callable[[], list[T]], wait: float) -> list[T]:
    deadline = time.monotonic() + wait
    while (found := look()) and time.monotonic() < deadline:
        await asyncio.sleep(_STEP)
    return found


def _on_gpu(pids: Sequence[int], wait: float) -> list[int]:
    deadline = time.monotonic() + wait
    while True:
        answer = run_program(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], timeout=10)
        listed = {int(word) for word in answer.stdout.split() if word.isdigit()}
        holding = sorted(listed.intersection(pids))
        if not holding or time.monotonic() > deadline:
            return holding
        time.sleep(0.5)
