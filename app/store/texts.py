"""Sentences about launches that people read in the timeline, in `wait` and in `status`."""

from __future__ import annotations

from app.core.model import Exit
from app.core.vocabulary import Phase
from app.store.processes import alive
from app.store.views import LaunchView


def reached(phase: Phase, percent: float | None) -> str:
    """How far a launch came: "loading 67 %"."""
    return f"{phase} {percent:.0f} %" if percent is not None and phase is not Phase.READY else str(phase)


def described_end(exit: Exit, phase: Phase, percent: float | None) -> str:
    """How and where a launch ended: "killed by SIGKILL at loading 67 %"."""
    end = str(exit) if exit.known else "ended unseen"
    if phase is Phase.READY:
        return f"{end} after it was ready"
    if percent is None:
        return f"{end} while {phase}"
    return f"{end} at {reached(phase, percent)}"


def fate(launch: LaunchView) -> str:
    """What became of a launch: "runs, loading 67 %", or how it ended."""
    if not launch.ran:
        return "stopped by the pre-flight check, never started"
    if launch.ended_at is None:
        seen = reached(launch.phase, launch.percent)
        return f"runs, {seen}" if alive(launch.process) else f"nobody saw its end, came to {seen}"
    return described_end(launch.exit, launch.phase, launch.percent)
