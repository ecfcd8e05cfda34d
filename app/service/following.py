"""One launch, followed from its start to its end: output, phases, health, and the deaths that are no exits."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from app.core.model import Diagnosis, Exit, Progress
from app.core.vocabulary import Category, Outcome, Phase, ServerState
from app.diagnosis.pipeline import Session
from app.supervise.condition import Condition, Pace, Patience, Seen, judge
from app.supervise.group import Member
from app.supervise.health import Health
from app.supervise.ports import Holder, listener
from app.supervise.process import Child
from app.supervise.tail import POLL, PassThrough, Tail, rotate

_EVERY = 0.1  # seconds between two readings of the phases
_CANARY_AGAIN = 10.0  # seconds after a canary that failed
_CANARY_BAD = 2  # failures in a row after which the server counts as degraded
_BUSY = 0.05  # of one processor, over all of its processes: below that it does nothing


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds. Tests shorten them; people get the defaults."""

    settle: float = 30.0
    patience: Patience = field(default_factory=Patience)
    ask_loading: float = 0.5  # between health questions while it comes up
    ask_settling: float = 1.0
    ask_ready: float = 5.0
    answer_wait: float = 25.0
    end_grace: float = 10.0  # between SIGTERM and SIGKILL
    leftover_grace: float = 3.0  # the same for processes that a dead server left behind
    port_wait: float = 5.0  # for a port that is just being let go
    last_words: float = 0.4  # for what the dying children still write, as long as they
    silence: float = 0.1  # are not silent for this long
    look: float = 1.0  # between looks at processes, silence and log size
    store_again: float = 1.0  # until a death that could not be stored is tried again
    log_limit: int = 200 * 1024 * 1024

    def of(self, settle: float, hang_restart: float) -> Timings:
        """These, with what a person chose for one server; `hang_restart` 0 stands for never."""
        return replace(self, settle=settle, patience=replace(self.patience, restart=hang_restart or None))


class Stop:
    """A person's wish to end: asked once politely, asked twice at once. Leaving ends the looking after only."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()
        self.leaving = False

    def ask(self) -> None:
        (self.hurry if self.asked.is_set() else self.asked).set()

    def leave(self) -> None:
        """Ends the looking after: the server goes on."""
        if not self.asked.is_set():
            self.leaving = True
            self.asked.set()


@dataclass
class Reports:
    """What the follower tells whoever runs it. Each is called in the event loop and must be quick."""

    state: Callable[[ServerState, str, Progress], None]
    ready: Callable[[str], None]
    settled: Callable[[str], None]
    stuck: Callable[[str, bool], None] = lambda evidence, idle: None  # it hangs; whether it shows no life at all
    recovered: Callable[[str], None] = lambda evidence: None  # health answers again after that


@dataclass(frozen=True, slots=True)
class Ended:
    """How following ended: by an exit, by a person, or because the server is doomed although its process lives."""

    how: str  # "exit", "asked", "doomed"
    evidence: str = ""


@dataclass
class Follower:
    """Follows one launch. `until_ended` returns at the first of: its exit, a person's stop, its doom."""

    child: Child
    session: Session
    tail: Tail
    reports: Reports
    stop: Stop
    timings: Timings
    health: Health | None = None
    canary: Health | None = None  # a real request: only what answers it has come back
    canary_every: float = 300.0
    passing: PassThrough | None = None
    stranger: Holder | None = None  # who held the port before the launch: its answers do not count
    may_end: bool = True  # False: a doomed server is told, not ended
    may_restart: Callable[[], bool] = lambda: False  # whether one that hangs for long may be ended without a person
    start: int = 0  # where this launch begins in the kept log
    was_ready: bool = False
    settled: bool = False
    condition: Condition = field(default_factory=lambda: Condition(ServerState.STARTING, "the process was started"))
    _last_output: float = field(default_factory=time.monotonic)
    _ready_since: float | None = None
    _pace: Pace = field(default_factory=Pace)
    _told: tuple[ServerState, int | None] | None = None
    _told_at: float = 0.0
    _doomed: asyncio.Event = field(default_factory=asyncio.Event)
    _progress: Progress = field(default_factory=Progress)
    _progress_at: tuple[int, float] = (-1, 0.0)  # log offset and time of that look
    _judged: tuple[int, str | None] | None = None  # log size, and the fatal cause found at it
    _heard: int = 0  # log offset at its last output that was no answer to us
    _last_busy: float = field(default_factory=time.monotonic)
    _looked: float = field(default_factory=time.monotonic)
    _missing: tuple[tuple[Member, ...], tuple[Member, ...], tuple[Member, ...]] = ((), (), ())
    _stuck: str | None = None  # what was told of a hang that lasts

    @property
    def phase(self) -> Phase:
        """The furthest point reached, by log or by health."""
        return Phase.READY if self.was_ready else self.session.progress().phase

    async def until_ended(self) -> Ended:
        """Follows until something ends it. All that was written before an exit has been read then."""
        workers = [self._read_output(), self._keep_looking()]
        if self.health is not None:
            workers.append(self._ask_health(self.health))
        if self.canary is not None:
            workers.append(self._ask_canary(self.canary))
        tasks = [asyncio.ensure_future(worker) for worker in workers]
        ends = {
            asyncio.ensure_future(self.child.wait()): "exit",
            asyncio.ensure_future(self.stop.asked.wait()): "asked",
            asyncio.ensure_future(self._doomed.wait()): "doomed",
        }
        try:
            # A worker never ends by itself: if one is done, it failed, and its error must come out.
            done, _ = await asyncio.wait([*ends, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done.difference(ends):
                task.result()
            # A person's stop wins: an exit at the same moment may be its effect.
            how = min(("asked", "exit", "doomed").index(ends[task]) for task in done if task in ends)
        finally:
            for task in (*tasks, *ends):
                task.cancel()
            await asyncio.gather(*tasks, *ends, return_exceptions=True)
        ended = ("asked", "exit", "doomed")[how]
        if ended == "exit":
            await self.last_words()
        return Ended(ended, self.condition.evidence)

    async def last_words(self) -> None:
        """Reads to the end of the log; waits a moment for what surviving children still write."""
        deadline = time.monotonic() + self.timings.last_words
        end = self.tail.size  # survivors may write on for ever
        while self.tail.offset < end and self._take():
            await asyncio.sleep(0)
        if not self.child.group.members():
            self._take()  # written between our last look and its end
            return
        heard = time.monotonic()
        while time.monotonic() < min(deadline, heard + self.timings.silence):
            await asyncio.sleep(POLL)
            heard = time.monotonic() if self._take() else heard

    # -- output

    async def _read_output(self) -> None:
        while True:
            took = self._take()
            if took or self._progress_at[0] != self.tail.offset:
                self._update()
            await asyncio.sleep(0 if took else POLL)

    def _take(self) -> bool:
        data = self.tail.read()
        if not data:
            return False
        self.session.feed(data)
        if self._says_more(data):
            self._last_output, self._heard = time.monotonic(), self.tail.offset
        return True

    def _says_more(self, data: bytes) -> bool:
        """Whether output tells of more than our own questions: who only logs those shows no life by that."""
        echo = f"GET {urlsplit(self.health.url).path or '/'} ".encode() if self.health is not None else b""
        if not echo or echo not in data:
            return True
        return any(line.strip() and echo not in line for line in data.splitlines())

    # -- health

    async def _ask_health(self, health: Health) -> None:
        while True:
            answer = await health.ask()
            if answer.kind == "ok" and self.stranger is not None:
                self._look_at_stranger()
            self._update()
            await asyncio.sleep(self._pause())

    async def _ask_canary(self, canary: Health) -> None:
        """Once when it is ready and again now and then; soon again when it failed."""
        while True:
            if self.was_ready:
                answer = await canary.ask()
                self._update()
                good = answer.kind == "ok"
                await asyncio.sleep(self.canary_every if good else min(_CANARY_AGAIN, self.canary_every))
            else:
                await asyncio.sleep(self.timings.ask_settling)

    def _pause(self) -> float:
        if self.condition.state is not ServerState.READY:
            return self.timings.ask_loading
        return self.timings.ask_ready if self.settled else self.timings.ask_settling

    def _look_at_stranger(self) -> None:
        now = listener(self.stranger.port) if self.stranger else None
        ours = {member.pid for member in self.child.group.members()}
        if now is not None and now.pid is not None and now.pid in ours:
            self.stranger = None

    # -- looking

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self.timings.look)
            self.child.group.look()
            self._look_for_life()
            self._update()
            self._rotate()

    def _look_for_life(self) -> None:
        """Processor use, and processes that serving needs: asked here only, for each costs a look into /proc."""
        group, now = self.child.group, time.monotonic()
        if group.processor_seconds() >= _BUSY * (now - self._looked):
            self._last_busy = now
        self._looked = now
        if self.was_ready:
            self._missing = (tuple(group.lost()), tuple(group.fewer()), tuple(group.stopped()))

    def _update(self) -> None:
        now = time.monotonic()
        progress = self._look_at_progress(now)
        self._pace.see(progress.percent, now)
        self.condition = self._with_canary(judge(self._seen(progress, now), self.timings.patience))
        if self.condition.state is ServerState.READY:
            self._on_ready(now)
        else:
            self._ready_since = None
        self._tell(progress, now)
        self._tell_hang()
        if (self.condition.doomed and self.may_end) or (self.condition.given_up and self.may_restart()):
            self._doomed.set()

    def _with_canary(self, condition: Condition) -> Condition:
        """A server that says it is ready and answers no request is not: one bad answer may be a full queue, two are
        not."""
        canary = self.canary
        if canary is None or condition.state is not ServerState.READY or canary.bad_in_a_row < _CANARY_BAD:
            return condition
        return Condition(ServerState.DEGRADED, f"{canary.describe()}; {condition.evidence}")

    def _tell_hang(self) -> None:
        condition = self.condition
        if condition.stuck is not None and condition.stuck != self._stuck:
            self._stuck = condition.stuck
            self.reports.stuck(condition.evidence, condition.stuck == "idle")
        elif condition.state is ServerState.READY and self._stuck is not None:
            self._stuck = None
            self.reports.recovered(condition.evidence)

    def _look_at_progress(self, now: float) -> Progress:
        """How far the log says it came; in a flood of output asked ten times a second only."""
        offset, at = self._progress_at
        if offset != self.tail.offset and now - at >= _EVERY:
            self._progress = self.session.progress()
            self._progress_at = (self.tail.offset, now)
        return self._progress

    def _seen(self, progress: Progress, now: float) -> Seen:
        health = self.health
        quiet = now - self._last_output
        bad_since = health.bad_since if health else None
        return Seen(
            progress=progress,
            quiet=quiet,
            has_health=health is not None,
            health=health.last if health else None,
            health_text=health.describe() if health else "",
            bad_in_a_row=health.bad_in_a_row if health else 0,
            bad_for=now - bad_since if bad_since is not None else 0.0,
            was_ready=self.was_ready,
            fatal=self._fatal(quiet),
            lost=self._missing[0] if bad_since is not None else (),
            fewer=self._missing[1],
            stopped=self._missing[2],
            idle=now - self._last_busy,
            foreign=f"{self.stranger} since before the launch" if self.stranger else None,
        )

    def _fatal(self, quiet: float) -> str | None:
        """The cause of death that the log shows; looked for only when it went silent without being healthy."""
        if self.health is None or quiet < self.timings.patience.hang or (self.health.ok and not self.stranger):
            return None
        if self._judged is None or self._judged[0] != self._heard:
            self._judged = (self._heard, _fatal_cause(self.session.diagnose(Exit())))
        return self._judged[1]

    def _on_ready(self, now: float) -> None:
        if self._ready_since is None:
            self._ready_since = now
        if not self.was_ready:
            self.was_ready = True
            self.child.group.call_roll()
            self.reports.ready(self.condition.evidence)
        proven = self.canary is None or (self.canary.ok and self.canary.asked_at is None)
        if not self.settled and proven and now - self._ready_since >= self.timings.settle:
            self.settled = True
            self.reports.settled(self.condition.evidence)

    def _tell(self, progress: Progress, now: float) -> None:
        percent = None if progress.percent is None else round(progress.percent)
        mark = (self.condition.state, percent)
        # The evidence ages: it is written again now and then although the state stays.
        if mark == self._told and now - self._told_at < self.timings.ask_ready:
            return
        self._told, self._told_at = mark, now
        pace = self._pace.describe() if self.condition.state is ServerState.LOADING else None
        self.reports.state(self.condition.state, "; ".join(filter(None, (pace, self.condition.evidence))), progress)

    def _rotate(self) -> None:
        if self.tail.offset < self.timings.log_limit or self.tail.offset < self.tail.size:
            return
        behind = self.passing is not None and not self.passing.caught_up(0)
        # A terminal that stands still must not make the log grow without end.
        if behind and self.tail.size < 2 * self.timings.log_limit:
            return
        with contextlib.suppress(OSError):
            if rotate(self.tail.path, self.timings.log_limit):
                self.start = 0


def _fatal_cause(diagnosis: Diagnosis) -> str | None:
    known = [cause for cause in diagnosis.causes if cause.category is not Category.UNKNOWN and cause.trusted]
    return known[0].title if diagnosis.outcome is Outcome.FAILED and known else None
