"""Failures in a log that never ends: each is told once, the moment its line is there.

What is found depends on the bytes alone, not on how they were cut: so a log can be read again from `anchor`, the
beginning of the open context, and the state is the same as before. The service builds its exactly-once on that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from app.core.arguments import ARGUMENT_ERROR_PATTERNS
from app.core.command import Command
from app.core.errors import CrashcartError
from app.core.model import Cause, Diagnosis, Event, Line, LogDigest, Progress
from app.core.vocabulary import Category, Origin, Outcome, Phase, Role
from app.diagnosis.findings import Context, FailureSeen, Finding, Last, LaunchSeen, ProgressSeen
from app.diagnosis.pipeline import Pipeline, Session
from app.logs.prefix import parse_line

_TRACEBACK = "Traceback (most recent call last)"
_CHAINS = ("During handling of the above exception", "The above exception was the direct cause")
_EVENT_LINES = 400
_CONTEXT = 8 << 20  # bytes of healthy log after which older lines are let go
_LONG_LINE = 256 * 1024
_AFTERSHOCK_LINES = 500
_AFTERSHOCK_SECONDS = 10.0
_ALWAYS = 8  # so many hits of one pattern are looked at each; of more only every doubling


@dataclass
class _Told:
    """A failure was told; what belongs to its event is still to be passed by."""

    rank: str | None
    lines: int = 0
    chained: bool = False
    inside: bool = False  # a traceback that follows in the chain, before its exception

    def ends_before(self, body: str, rank: str | None) -> bool:
        """Whether the line is none of the event's any more."""
        self.lines += 1
        if self.lines > _EVENT_LINES:
            return True
        if rank != self.rank or not body.strip() or body[:1].isspace():
            return False
        if body.startswith(_CHAINS):
            self.chained = True
            return False
        if self.chained and body.startswith(_TRACEBACK):
            self.inside = True
            return False
        if self.inside:
            self.chained = self.inside = False
            return False
        return True


class LiveLog:
    """One followed log. `feed` gives what was found in order; `anchor`, `context` and `offset` are its state."""

    def __init__(self, pipeline: Pipeline, context: Context | None = None, anchor: int = 0) -> None:
        self.pipeline = pipeline
        self.context = context or Context()
        self.anchor = anchor
        self.offset = anchor  # behind the last whole line that was looked at
        self._half = b""
        self._wanted = _wanted(pipeline)
        self._found: list[Finding] = []
        self._told: _Told | None = None
        self._expecting: str | None = None  # the rank whose traceback is open
        self._expected = 0
        self._hits: dict[int, int] = {}
        self._start()

    @property
    def pending(self) -> int:
        """Bytes of a line without its end yet."""
        return len(self._half)

    @property
    def unfinished(self) -> bool:
        """Whether a half line or a half event waits for the rest."""
        return bool(self._half) or self._expecting is not None

    @property
    def phase(self) -> Phase:
        return self._phase

    def feed(self, data: bytes) -> list[Finding]:
        """Takes the next bytes, cut anywhere."""
        data = self._half + data
        end = data.rfind(b"\n") + 1
        if not end and len(data) > _LONG_LINE:
            end = len(data)  # the digester knows how to hold a line without end
        self._half = data[end:]
        if end:
            self._lines(data[:end])
            self._look_at_progress()
        return self._given()

    def flush(self) -> list[Finding]:
        """Nothing more comes for now: what waits for its rest is looked at as it is. A rest that comes later stands
        alone."""
        if not self.unfinished:
            return []
        if self._half:
            half, self._half = self._half, b""
            self._lines(half + b"\n", shown=len(half))
        if self._expecting is not None:
            self._judge(whole=False)
        self._restart(self._now(), self.offset)
        return self._given()

    def turn_over(self) -> list[Finding]:
        """The file ends here and another one follows; a half traceback goes on in it."""
        seed = ""
        if self._expecting is not None:
            seed = "\n".join(line.text for line in self._open_event())[-16384:]
        found: list[Finding] = []
        if self._half:
            half, self._half = self._half, b""
            self._lines(half + b"\n", shown=len(half))
            found = self._given()
        self.context = replace(self._now(), mid=True, lines=0, seed=seed)
        self.anchor = self.offset = 0
        self._start()
        return found

    # -- inside

    def _start(self) -> None:
        """A new session at `anchor`."""
        context = self.context
        self._found = []
        self._count = 0  # lines of this session that were looked at
        self._told, self._expecting, self._expected = None, None, 0
        self._phase, self._percent = context.phase, context.percent
        self._last = context.last
        self._failed = context.failed
        self._progressed = False
        self._hits = {}
        command = _command(context.command)
        self._session: Session = self.pipeline.session(engine=context.engine, command=command, origin=Origin.REBUILT)
        self._known = (context.engine, context.command)
        self._seeded = 0
        if context.seed:
            seed = context.seed.encode("utf-8", "replace") + b"\n"
            self._seeded = seed.count(b"\n")
            self._session.feed(seed)
            self._expecting = parse_line(1, context.seed.split("\n", 1)[0]).line.rank or ""

    def _now(self) -> Context:
        """The context for a session that begins here."""
        engine, command = self._known
        return Context(
            engine=engine,
            command=command,
            mid=self.context.mid or self._count > 0,
            failed=self._failed,
            lines=self.context.lines + self._count,
            phase=self._phase,
            percent=self._percent,
            last=self._last,
        )

    def _given(self) -> list[Finding]:
        found, self._found = self._found, []
        return found

    def _lines(self, data: bytes, shown: int | None = None) -> None:
        """Looks at whole lines: at those where something may be, the others pass."""
        hits = self._hit_lines(data)
        begin, at, size = self.offset, 0, len(data)
        index = 0
        while at < size:
            while index < len(hits) and hits[index][0] < at:
                index += 1
            if self._told is None and self._expecting is None:
                start = hits[index][0] if index < len(hits) else size
                self._pass(data[at:start], begin + at)
                at = start
                if at >= size:
                    break
            stop = data.find(b"\n", at) + 1 or size
            numbers = hits[index][1] if index < len(hits) and hits[index][0] == at else frozenset()
            self._line(data[at:stop], begin + at, numbers)
            at = stop
        self.offset = begin + (size if shown is None else shown)

    def _hit_lines(self, data: bytes) -> list[tuple[int, frozenset[int]]]:
        """Where lines begin on which a launch or a failure may show, and the patterns that may hold there.

        A server that serves shows progress in each of its lines: those pass in blocks.
        """
        wanted = self._wanted.boundaries | self._wanted.causes
        lines: dict[int, set[int]] = {}
        for end, number in self.pipeline.patterns.scanner.scan(data.replace(b"\r", b"\n")):
            if number not in wanted:
                self._progressed |= number in self._wanted.progress
                continue
            start = data.rfind(b"\n", 0, max(0, end - 1)) + 1
            lines.setdefault(start, set()).add(number)
        return [(start, frozenset(lines[start])) for start in sorted(lines)]

    def _pass(self, data: bytes, offset: int) -> None:
        if not data:
            return
        self._session.feed(data)
        self._count += data.count(b"\n")
        if offset + len(data) - self.anchor > _CONTEXT:
            self._restart(replace(self._now(), mid=True), offset + len(data))

    def _restart(self, context: Context, anchor: int) -> None:
        """A new session that begins at `anchor`."""
        found, progressed = self._found, self._progressed
        self.context, self.anchor = context, anchor
        self._start()
        self._found, self._progressed = found, progressed

    def _line(self, raw: bytes, offset: int, numbers: frozenset[int]) -> None:
        parsed = parse_line(1, raw[:4096].decode("utf-8", "replace").rstrip("\r\n")).line
        if self._told is not None and self._told.ends_before(parsed.body, parsed.rank):
            self._restart(self._now(), offset)
        self._session.feed(raw)
        self._count += 1
        if numbers & self._wanted.boundaries and self._begins_launch():
            self._new_launch(raw, offset, parsed)
        if self._told is not None:
            return
        if _TRACEBACK in parsed.body:
            if self._expecting is None:
                self._expecting, self._expected = parsed.rank or "", 0
            return
        if self._expecting is not None:
            self._await_exception(parsed)
        elif self._worth(numbers):
            self._judge()

    def _await_exception(self, line: Line) -> None:
        """A traceback is open: a line that is not indented may be its exception, or one that was printed in between.

        Often only the first line of a traceback carries the rank.
        """
        self._expected += 1
        own = line.rank is None or line.rank == self._expecting
        if own and line.body.strip() and not line.body[:1].isspace() and self._complete():
            self._expecting = None
            self._judge()
        elif self._expected > _EVENT_LINES:
            self._expecting = None

    def _complete(self) -> bool:
        """Whether the newest traceback has its exception."""
        events = [event for event in self._session.digest().events if event.kind == "traceback"]
        return not events or (bool(events[-1].chain) and bool(events[-1].chain[-1].name))

    def _worth(self, numbers: frozenset[int]) -> bool:
        """Whether a look is worth its milliseconds: a line that comes a thousand times brings nothing new."""
        worth = False
        for number in numbers & self._wanted.causes:
            count = self._hits[number] = self._hits.get(number, 0) + 1
            worth = worth or count <= _ALWAYS or count & (count - 1) == 0
        return worth

    def _begins_launch(self) -> bool:
        digest = self._session.digest()
        if digest.earlier:
            return True
        if not (self.context.failed or self.context.mid):
            return False
        number = self._seeded + self._count
        return self._count > 0 and any(
            hits.kept and hits.kept[-1].line.number == number
            for pattern, hits in digest.hits.items()
            if pattern in self.pipeline.patterns.boundaries
        )

    def _new_launch(self, raw: bytes, offset: int, line: Line) -> None:
        lines = self.context.lines + self._count - 1
        self._restart(Context(engine=self._known[0], lines=lines), offset)
        self._session.feed(raw)
        self._count = 1
        self._progressed = True
        self._found.append(LaunchSeen(replace(line, number=lines + 1)))

    def _look_at_progress(self) -> None:
        if not self._progressed or self._told is not None:
            return
        self._progressed = False
        if self._phase is Phase.READY:
            return  # nothing lies beyond, and a server that serves shows it in each of its lines
        progress = self._session.progress()
        further = progress.phase.order > self._phase.order or (
            progress.phase is self._phase and progress.percent is not None and progress.percent != self._percent
        )
        if further and self._counts(progress):
            self._come_to(self._session.diagnose())

    def _counts(self, progress: Progress) -> bool:
        """What failed comes back only by being ready."""
        return not self._failed or progress.phase is Phase.READY

    def _come_to(self, diagnosis: Diagnosis) -> None:
        progress = diagnosis.progress
        self._learn(diagnosis)
        self._phase, self._percent = progress.phase, progress.percent
        self._found.append(ProgressSeen(self._numbered(progress), *self._known))

    def _learn(self, diagnosis: Diagnosis) -> None:
        engine, command = self._known
        self._known = (diagnosis.engine or engine, diagnosis.command or command)

    def _judge(self, *, whole: bool = True) -> None:
        """Is this a failure?"""
        diagnosis = self._session.diagnose()
        top = diagnosis.causes[0] if diagnosis.outcome is Outcome.FAILED and diagnosis.causes else None
        if top is None or top.line is None:
            return
        digest = self._session.digest()
        event = _event_of(digest, top.line)
        if top.category is Category.UNKNOWN and not _proves(event, whole=whole):
            return  # a line that complains, without more, is no death yet
        if event is not None and event.kind == "usage" and (digest.earlier or self._failed):
            self._begin_refused(top.line)
        if diagnosis.progress.phase.order > self._phase.order and self._counts(diagnosis.progress):
            self._come_to(diagnosis)  # it came so far in what was read at once, and failed there
        self._learn(diagnosis)
        line = self._at(top.line)
        last, self._last = self._last, Last(top.rule, top.rank or line.rank, line.number, line.time)
        self._told = _Told(event.rank if event is not None else line.rank)
        self._expecting, self._failed = None, True
        if _echo(top, line, event, last):
            return
        self._found.append(FailureSeen(self._renumbered(diagnosis), line, aftershock=_soon(top, line, last)))

    def _begin_refused(self, line: Line) -> None:
        """A launch that refuses its arguments begins with that: it prints no banner."""
        self._phase, self._percent, self._failed, self._last = Phase.STARTING, None, False, None
        self._found.append(LaunchSeen(self._at(line)))

    def _open_event(self) -> tuple[Line, ...]:
        events = [event for event in self._session.digest().events if event.kind == "traceback" and not event.chain]
        return events[-1].lines if events else ()

    # -- line numbers of the file, not of the session

    def _at(self, line: Line) -> Line:
        return replace(line, number=max(1, line.number - self._seeded + self.context.lines))

    def _numbered(self, progress: Progress) -> Progress:
        return replace(progress, line=self._at(progress.line)) if progress.line is not None else progress

    def _renumbered(self, diagnosis: Diagnosis) -> Diagnosis:
        def moved(one: Any) -> Any:
            return one if one.line is None else replace(one, line=self._at(one.line))

        phase = max(diagnosis.phase, self._phase, key=lambda phase: phase.order)
        return replace(
            diagnosis,
            phase=phase,
            causes=tuple(map(moved, diagnosis.causes)),
            symptoms=tuple(map(moved, diagnosis.symptoms)),
            evidence=tuple(map(moved, diagnosis.evidence)),
            progress=self._numbered(diagnosis.progress),
        )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Numbers of the patterns that begin a launch, show progress, or may show a cause."""

    boundaries: frozenset[int]
    progress: frozenset[int]
    causes: frozenset[int]


@lru_cache(maxsize=4)
def _wanted(pipeline: Pipeline) -> _Wanted:
    patterns = pipeline.patterns
    number = {pattern: at for at, pattern in enumerate(patterns.patterns)}
    causes = {len(patterns.patterns)} | {number[pattern] for pattern in ARGUMENT_ERROR_PATTERNS if pattern in number}
    progress: set[int] = set()
    for rule in pipeline.ruleset.rules:
        kind = causes if rule.role is Role.CAUSE else progress if rule.role is Role.PROGRESS else None
        if kind is not None:
            kind.update(number[pattern] for pattern in rule.when.line_patterns() if pattern in number)
    boundaries = frozenset(number[pattern] for pattern in patterns.boundaries)
    return _Wanted(boundaries, frozenset(progress), frozenset(causes) | frozenset(patterns.everywhere))


def _event_of(digest: LogDigest, line: Line) -> Event | None:
    events = [one for one in digest.events if one.first.number <= line.number <= one.last.number]
    events = [one for one in events if any(each.number == line.number for each in one.lines)]
    return events[-1] if events else None


def _proves(event: Event | None, *, whole: bool) -> bool:
    if event is None:
        return False
    if event.kind == "traceback":
        return not whole or (bool(event.chain) and bool(event.chain[-1].name))
    return event.kind in ("usage", "native")


def _near(line: Line, last: Last) -> bool:
    if line.time is not None and last.time is not None:
        return abs(line.time - last.time) <= _AFTERSHOCK_SECONDS
    return 0 <= line.number - last.line <= _AFTERSHOCK_LINES


def _echo(top: Cause, line: Line, event: Event | None, last: Last | None) -> bool:
    """The same failure in another rank, or a bare complaint right behind a failure: nothing new to tell."""
    if last is None or not _near(line, last):
        return False
    rank = top.rank or line.rank
    if top.rule == last.rule and rank is not None and last.rank is not None:
        return rank != last.rank
    return top.category is Category.UNKNOWN and (event is None or event.kind != "traceback")


def _soon(top: Cause, line: Line, last: Last | None) -> bool:
    """Another failure so soon after one is rather its consequence: it doesn't give the incident its name."""
    return last is not None and top.rule != last.rule and _near(line, last)


def _command(words: tuple[str, ...]) -> Command | None:
    try:
        return Command.parse(words) if words else None
    except CrashcartError:
        return None
