"""What state a running server is in, judged from what is seen of it: pure, and always with its evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from app.core.model import Progress
from app.core.vocabulary import Phase, ServerState
from app.supervise.group import Member
from app.supervise.health import Answer


@dataclass(frozen=True, slots=True)
class Patience:
    """How long something may last before it gets a worse name, in seconds."""

    stalled: float = 180.0  # no log line while it is not ready yet
    hang: float = 20.0  # a fatal cause in the log, nothing after it, and no good health answer
    restart: float | None = (
        300.0  # was ready, and since then no good answer, no output, no processor time; None: never restarted
    )
    busy: float = (
        300.0  # the same while its processes use the processor: it may yet come back, but somebody should know
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a living process. `health` is None where no endpoint is known or none was asked yet."""

    progress: Progress
    quiet: float  # seconds since its last output
    has_health: bool = False
    health: Answer | None = None
    health_text: str = ""
    bad_in_a_row: int = 0
    bad_for: float = 0.0  # seconds since the first of these bad answers was asked for
    was_ready: bool = False
    fatal: str | None = None  # title of a cause of death that stands in the log
    lost: tuple[Member, ...] = ()  # processes that serving needs and that ended
    foreign: str | None = None  # another process holds the port: its answers are not this server's
    idle: float = 0.0  # seconds since its processes used the processor to speak of
    fewer: tuple[Member, ...] = ()  # children of its first process that ended, and that nothing replaced
    stopped: tuple[Member, ...] = ()  # processes that somebody stopped (SIGSTOP)


@dataclass(frozen=True, slots=True)
class Condition:
    """A state with what says so.

    `doomed`: it will not come back by itself, although its process lives. `stuck`: by all that is seen it does not
    serve any more, which is an incident, but it may come back: "idle" when it shows no sign of life at all, "busy"
    when it uses the processor. `given_up`: it has been stuck and idle for so long that a restart loses nothing.
    """

    state: ServerState
    evidence: str
    doomed: bool = False
    stuck: Literal["idle", "busy"] | None = None
    given_up: bool = False


def judge(seen: Seen, patience: Patience = Patience()) -> Condition:
    """The state of a server whose process lives."""
    if not seen.has_health:
        return _by_log(seen, patience)
    healthy = seen.health is not None and seen.health.kind == "ok" and seen.foreign is None
    if healthy:
        return _healthy(seen)
    if doom := _doom(seen, patience):
        return Condition(ServerState.HUNG, _join(doom, _quiet(seen), seen.foreign or seen.health_text), doomed=True)
    if seen.was_ready:
        return _silent(seen, patience)
    return _coming_up(seen, patience)


def _healthy(seen: Seen) -> Condition:
    """A good answer does not prove that it serves: the one who answers may not need the processes that work."""
    if not seen.was_ready or not (seen.fewer or seen.stopped):
        return Condition(ServerState.READY, seen.health_text)
    return Condition(ServerState.DEGRADED, _join(*_missing(seen), seen.health_text))


def _missing(seen: Seen) -> list[str]:
    ended = [f"process {', '.join(map(str, seen.fewer))} has ended since it was ready"] if seen.fewer else []
    stopped = [f"process {', '.join(map(str, seen.stopped))} is stopped (SIGSTOP)"] if seen.stopped else []
    return ended + stopped


def _silent(seen: Seen, patience: Patience) -> Condition:
    """It was ready and gives no good answer. A server that is only slow or busy shows life: in its log or by its use
    of the processor."""
    hung = seen.bad_in_a_row >= 2
    lasting = min(seen.bad_for, seen.quiet) if hung else 0.0
    idle = min(lasting, seen.idle)
    stuck: Literal["idle", "busy"] | None = None
    if idle >= patience.hang:
        stuck = "idle"
    elif lasting >= patience.busy:
        stuck = "busy"
    used = f"its processes used no processor time for {seen.idle:.0f} s" if stuck == "idle" else ""
    return Condition(
        ServerState.HUNG if hung else ServerState.DEGRADED,
        _join(seen.health_text, _quiet(seen), used, *_missing(seen)),
        stuck=stuck,
        given_up=stuck == "idle" and patience.restart is not None and idle >= patience.restart,
    )


def _by_log(seen: Seen, patience: Patience) -> Condition:
    """Without a health endpoint only the log tells, and it never proves that a server which was ready still is."""
    if seen.progress.phase is Phase.READY:
        return Condition(ServerState.READY, _join(_line(seen.progress), "no health endpoint is known"))
    return _coming_up(seen, patience)


def _doom(seen: Seen, patience: Patience) -> str | None:
    if seen.quiet < patience.hang:
        return None
    if seen.was_ready and seen.bad_for < patience.hang:
        return None
    if seen.fatal is not None:
        return f"the log says: {seen.fatal}"
    if seen.was_ready and seen.lost:
        return f"process {', '.join(map(str, seen.lost))} has ended and the server waits on"
    return None


def _coming_up(seen: Seen, patience: Patience) -> Condition:
    if seen.quiet >= patience.stalled:
        return Condition(ServerState.STALLED, _join(_quiet(seen), _line(seen.progress), seen.health_text))
    phase = seen.progress.phase
    # "Ready to roll" in a log is a promise; the health endpoint is asked for the proof.
    state = ServerState.WARMING if phase is Phase.READY else ServerState(phase.value)
    return Condition(state, _join(_line(seen.progress), seen.foreign or seen.health_text))


def _line(progress: Progress) -> str:
    return f"log: {progress.text.strip()[:200]}" if progress.text else "the log shows no phase yet"


def _quiet(seen: Seen) -> str:
    return f"no log line for {seen.quiet:.0f} s"


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


@dataclass
class Pace:
    """How fast loading goes, by the percentages seen so far."""

    _first: tuple[float, float] | None = field(default=None, init=False)
    _last: tuple[float, float] | None = field(default=None, init=False)

    def see(self, percent: float | None, at: float) -> None:
        if percent is None or (self._last is not None and percent == self._last[0]):
            return
        if self._last is not None and percent < self._last[0]:
            self._first = None  # another bar: of a draft model, or of another rank
        self._first = self._first or (percent, at)
        self._last = (percent, at)

    def describe(self) -> str | None:
        """Rate and what is left, once two different percentages were seen."""
        if self._first is None or self._last is None or self._last[0] >= 100:
            return None
        gained, took = self._last[0] - self._first[0], self._last[1] - self._first[1]
        if gained <= 0 or took <= 0:
            return None
        rate = gained / took
        return f"{rate:.1f} %/s, about {(100 - self._last[0]) / rate:.0f} s left"
