"""Plain values that flow between the floors: lines → hits and events → matches → diagnosis."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.core.vocabulary import Action, Category, Confidence, Engine, Origin, Outcome, Phase, Safety


@dataclass(frozen=True, slots=True)
class Line:
    """One physical log line, as shown and as matched.

    `number` is 1-based in its file. `text` has no ANSI codes and no line end, invalid UTF-8 is replaced; it keeps
    every prefix. `body` is `text` without wrapper prefixes (compose, CRI, journald, ...) and engine prefixes
    (time, rank, process, level). `source` names the stream that wrote it (container, process, rank): lines
    of one source are in order, lines of different sources interleave.
    """

    number: int
    text: str
    body: str
    source: str = ""
    rank: str | None = None
    level: str | None = None
    time: float | None = None  # seconds since the epoch as far as the prefix tells, for differences only


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a Python traceback; `line` is the log line that names it, `code` what Python printed below."""

    file: str
    lineno: int
    function: str
    code: str
    line: Line
    code_line: Line | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception of a chain: `type` may be dotted; `message` may span lines; `line` is its `Type: message` line."""

    type: str
    message: str
    frames: tuple[Frame, ...]
    line: Line
    relation: Literal["first", "cause", "context"] = "first"  # how the one printed before it led to this one
    message_lines: tuple[Line, ...] = ()

    @property
    def name(self) -> str:
        """The type without its module: `torch.OutOfMemoryError` → `OutOfMemoryError`."""
        return self.type.rsplit(".", 1)[-1]


@dataclass(frozen=True, slots=True)
class Event:
    """Log lines that belong together.

    `kind`: `traceback` (then `chain` is in printed order, the first raised first), `usage` (an argparse usage
    block with the error line that ended it as the last line), `native` (C++ stack, segfault report), `error`
    (one line of level error or worse, with its continuation lines).
    """

    kind: Literal["traceback", "usage", "native", "error"]
    lines: tuple[Line, ...]
    source: str = ""
    rank: str | None = None
    chain: tuple[Raised, ...] = ()
    truncated: bool = False  # lines were dropped to stay in bounds, or the log begins or ends inside it
    repeats: int = 1  # how many times the same event was printed (other ranks, doubled tracebacks)
    ranks: tuple[str, ...] = ()

    @property
    def first(self) -> Line:
        return self.lines[0]

    @property
    def last(self) -> Line:
        return self.lines[-1]

    @property
    def text(self) -> str:
        return "\n".join(line.body for line in self.lines)


@dataclass(frozen=True, slots=True)
class Hit:
    """A line pattern that held on a line; `groups` are its named captures that took part."""

    pattern: str
    line: Line
    groups: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Hits:
    """All hits of one pattern: `kept` holds the first and the last ones in log order, `total` is their number.

    Counting ends at 1,000: a total of that means "so many or more".
    """

    total: int
    kept: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class LaunchSpan:
    """One launch's part of a file: its first and last line number."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LogDigest:
    """What was seen in a log: everything that rules and diagnosis look at, for the last launch in it."""

    lines: int = 0  # physical lines of the whole input
    hits: Mapping[str, Hits] = field(default_factory=dict)  # by pattern text
    events: tuple[Event, ...] = ()  # in log order
    head: tuple[Line, ...] = ()  # the first lines of the last launch
    tail: tuple[Line, ...] = ()  # the last lines
    earlier: tuple[LaunchSpan, ...] = ()  # launches before the last one
    newest_first: bool = False
    timeouts: Mapping[str, int] = field(default_factory=dict)  # patterns that ran out of time, how often
    suspended: tuple[str, ...] = ()  # patterns no longer tried after repeated time-outs


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: an exit code, or the signal that ended it. At most one of both is set."""

    code: int | None = None
    signal: str | None = None  # "SIGKILL"

    @classmethod
    def from_code(cls, code: int | None) -> Exit:
        """Reads `subprocess`'s −9 and a shell's 137 alike."""
        if code is None:
            return cls()
        number = -code if code < 0 else code - 128
        if code < 0 or 128 < code <= 128 + 64:
            try:
                return cls(signal=signal.Signals(number).name)
            except ValueError:
                return cls(code=code)
        return cls(code=code)

    @property
    def known(self) -> bool:
        return self.code is not None or self.signal is not None

    @property
    def shell_code(self) -> int | None:
        """0–255 as a shell reports it: 128+n for a signal."""
        if self.signal is not None:
            return 128 + signal.Signals[self.signal].value
        return self.code

    def __str__(self) -> str:
        if self.signal is not None:
            return f"killed by {self.signal}"
        return "still running or unknown" if self.code is None else f"exit code {self.code}"


FlagValue = str | Literal[True] | None


@dataclass(frozen=True, slots=True)
class Fix:
    """A change to arguments or environment. `set`: True for a bare flag. Flags are spelt with their dashes."""

    set: Mapping[str, str | Literal[True]] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    env_set: Mapping[str, str] = field(default_factory=dict)
    env_unset: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.set or self.remove or self.rename or self.env_set or self.env_unset)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A fact that supports the diagnosis: a log line, a source statement, a probe's answer."""

    kind: str  # "log", "source", "probe", "catalogue", "exit", "history"
    text: str
    line: Line | None = None
    path: str | None = None  # source file, for kind "source"
    number: int | None = None  # its line number


@dataclass(frozen=True, slots=True)
class Cause:
    rule: str
    category: Category
    title: str
    explanation: str
    confidence: Confidence
    line: Line | None = None
    rank: str | None = None
    action: Action = Action.NONE
    fix: Fix | None = None
    safety: Safety = Safety.MANUAL
    loses: tuple[str, ...] = ()
    command: tuple[str, ...] | None = None  # the whole corrected argv, env assignments first
    trusted: bool = False  # from a stable rule or a built-in reader: may act alone where mode and safety allow it
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Symptom:
    rule: str
    title: str
    line: Line | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a launch came: `percent` of weights where the log tells."""

    phase: Phase = Phase.STARTING
    percent: float | None = None
    text: str | None = None  # the line that says so
    line: Line | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    outcome: Outcome
    phase: Phase
    engine: Engine | None = None
    engine_version: str | None = None
    command: tuple[str, ...] | None = None  # env assignments first
    origin: Origin = Origin.NONE
    causes: tuple[Cause, ...] = ()
    symptoms: tuple[Symptom, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    progress: Progress = Progress()
    exit: Exit = Exit()
    fingerprint: str | None = None
    elapsed_ms: float = 0.0
