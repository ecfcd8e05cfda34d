"""Puts a Python traceback together, line by line, while other lines cut in."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal

from app.core.model import Event, Frame, Line, Raised
from app.logs.kept import FirstAndLast, cut_line
from app.logs.prefix import Parsed
from app.logs.shapes import (
    CARETS,
    CHAIN,
    FRAME,
    GROUP_BARS,
    HEADER,
    PROGRESS,
    REPEATED,
    begins_record,
    exception,
    is_named_error,
)

_PATIENCE = 300  # lines of others between two of its own, while the exception is still to come
_PATIENCE_AFTER = 40  # the same behind the exception
_MESSAGE_LINES = 60
_MESSAGE_AFTER_BLANK = 12  # message lines behind a blank one: long advice has blank lines, a log has ends
_FRAMES_KEPT = 100
_CHAIN_KEPT = 40

Relation = Literal["first", "cause", "context"]


class Answer(Enum):
    """What an open event says to a line."""

    TAKE = auto()
    PASS = auto()  # not mine, but I wait for more
    END = auto()  # not mine, and I am complete


class State(Enum):
    FRAMES = auto()  # frames, then the exception
    MESSAGE = auto()  # behind the exception: more of its message, or a chain
    CHAIN = auto()  # behind "During handling …": a header


@dataclass(slots=True)
class _Frame:
    file: str
    lineno: int
    function: str
    line: Line
    code: Line | None = None

    def built(self, code: str) -> Frame:
        return Frame(self.file, self.lineno, self.function, code, self.line, self.code)


@dataclass(slots=True)
class _Raised:
    relation: Relation
    frames: FirstAndLast[_Frame] = field(default_factory=lambda: FirstAndLast(_FRAMES_KEPT, _FRAMES_KEPT))
    last_frame: _Frame | None = None
    type: str = ""
    first: str = ""
    line: Line | None = None
    silent: bool = False  # the type stands alone: there is no message to continue
    more: list[tuple[Line, str]] = field(default_factory=list)  # further lines of the message

    def built(self) -> Raised | None:
        frames = tuple(frame.built(frame.code.body.strip(" |") if frame.code else "") for frame in self.frames)
        line = self.line or (self.last_frame.line if self.last_frame else None)
        if line is None:
            return None
        more = self.more
        while more and not more[-1][1].strip():
            more = more[:-1]
        message = "\n".join((self.first, *(text for _, text in more)))
        return Raised(self.type, message, frames, line, self.relation, tuple(line for line, _ in more))


class TracebackBuilder:
    """One traceback with its chain, from its header (or its first frame seen) to the end of its last message."""

    kind: Literal["traceback"] = "traceback"

    def __init__(self, first: Parsed, kept_lines: int, *, logged: Line | None = None) -> None:
        """`logged` is the log record that ends on the line before, where the traceback is its exception text."""
        self.stream = first.stream
        self.rank = first.line.rank or (logged.rank if logged else None)
        self.logged = logged is not None
        self.header = first.header
        self.closed = False
        self._state = State.FRAMES
        self._kept: FirstAndLast[Line] = FirstAndLast(kept_lines // 2, kept_lines - kept_lines // 2)
        self._blanks: list[Parsed] = []
        self._chain: list[_Raised] = [_Raised("first")]
        self._dropped = False
        self._idle = 0
        self._message_room = _MESSAGE_LINES
        self._quotes_code = False
        self._each: bool | None = None if first.header is not None else False  # whether each line has the header
        found = HEADER.match(first.body)
        self.headless = found is None
        self.lead = ((found["lead"] or "") if found else "").strip()
        self._group = "Exception Group" in self.lead
        if self._group:
            self.lead = ""
        self._indent = found["indent"] if found and not self.lead and not self._group else ""
        if found:
            self._keep(first)
        else:
            self._content(first, first.body)

    @property
    def uncaught(self) -> bool:
        """Whether it looks like the interpreter's own last words: bare, complete."""
        bare = self.header is None and not self.lead and not self.logged and not self.headless
        return bare and self._state is State.MESSAGE

    @property
    def wants_frames(self) -> bool:
        return self._state is not State.MESSAGE

    def accept(self, parsed: Parsed) -> Answer:
        """Takes a line, or says why not."""
        answer = self._accept(parsed)
        if answer is Answer.TAKE:
            self._idle = 0
            return answer
        self._idle += 1
        patience = _PATIENCE_AFTER if self._state is State.MESSAGE else _PATIENCE
        return Answer.END if self._idle > patience else answer

    def _accept(self, parsed: Parsed) -> Answer:
        if parsed.stream != self.stream:
            return Answer.PASS
        if parsed.header is not None:
            if self._each is not False and self._same_header(parsed):
                return self._prefixed(parsed)
            return Answer.END if self._state is State.MESSAGE else Answer.PASS
        if self._each:
            return Answer.PASS
        return self._content(parsed, parsed.body)

    def _same_header(self, parsed: Parsed) -> bool:
        return parsed.header == self.header and parsed.line.rank == self.rank

    def _prefixed(self, parsed: Parsed) -> Answer:
        """A line with the header that the traceback began with: SGLang would begin another record with it."""
        if self._each is None and not (parsed.body[:1].isspace() or FRAME.match(parsed.body)):
            return Answer.PASS
        answer = self._content(parsed, parsed.body)
        if answer is Answer.TAKE:
            self._each = True
        return answer

    def _content(self, parsed: Parsed, body: str) -> Answer:
        content = body.removeprefix(self._indent)
        if self._group and (bars := GROUP_BARS.match(content)):
            content = content[bars.end() :]
        if self._state is State.FRAMES:
            answer = self._frames(parsed, content)
        elif self._state is State.MESSAGE:
            answer = self._message(parsed, content)
        else:
            answer = self._chained(parsed, content)
        if answer is Answer.TAKE and self._each is None and parsed.header is None:
            self._each = False
        return answer

    def _frames(self, parsed: Parsed, content: str) -> Answer:
        raised = self._chain[-1]
        if found := FRAME.match(content):
            frame = _Frame(found["file"], int(found["line"]), found["function"] or "", cut_line(parsed.line, 2000))
            raised.frames.append(frame)
            raised.last_frame = frame
            return self._keep(parsed)
        if not content.strip():
            return Answer.TAKE
        if HEADER.match(content):
            if self._group:
                return self._keep(parsed)
            return Answer.PASS  # another one's: theirs may run into each other
        if CHAIN.match(content):
            return self._chained(parsed, content)
        # Code stands four deep; what Python prints below a warning two deep.
        if content.startswith(("    ", "\t")) or CARETS.match(content) or REPEATED.match(content):
            return Answer.PASS if PROGRESS.match(content) else self._code(parsed, raised, content)
        if content[0].isspace():
            return Answer.PASS
        if self._is_flat_code(raised, content):
            return self._code(parsed, raised, content)
        if found := exception(content):
            raised.type, raised.first, raised.line = found["type"], found["message"] or "", parsed.line
            raised.silent = not content[found.end("type") :].strip()
            self._state, self._message_room = State.MESSAGE, _MESSAGE_LINES
            return self._keep(parsed)
        return Answer.PASS

    @staticmethod
    def _is_flat_code(raised: _Raised, content: str) -> bool:
        """A wrapper may have taken the indentation away: what follows a frame is then its code."""
        last = raised.last_frame
        flat = last is not None and last.code is None and not last.line.body[:1].isspace()
        return flat and not is_named_error(content)

    def _code(self, parsed: Parsed, raised: _Raised, content: str) -> Answer:
        frame = raised.last_frame
        if frame is None:
            return Answer.PASS
        if frame.code is None and not CARETS.match(content) and not REPEATED.match(content):
            frame.code = cut_line(parsed.line, 2000)
        return self._keep(parsed)

    def _message(self, parsed: Parsed, content: str) -> Answer:
        if CHAIN.match(content):
            return self._chained(parsed, content)
        if not content.strip():
            self._blanks.append(parsed)
            return Answer.TAKE if len(self._blanks) < 3 else Answer.END
        if self._nested(content):
            self._keep_blanks()
            self._begin("context")
            if HEADER.match(content):
                return self._keep(parsed)
            return self._frames(parsed, content)
        if not self._continues(content):
            return Answer.END
        if self._blanks:
            self._message_room = min(self._message_room, _MESSAGE_AFTER_BLANK)
            self._keep_blanks()
        self._quotes_code = FRAME.match(content) is not None or (self._quotes_code and content[0].isspace())
        if not content[0].isspace() and not content.startswith("frame #"):
            self._message_room -= 1
        if len(self._chain[-1].more) < 200:
            self._chain[-1].more.append((parsed.line, content))
        return self._keep(parsed)

    def _continues(self, content: str) -> bool:
        """Whether a line may belong to the message."""
        raised = self._chain[-1]
        if self._message_room <= 0 or raised.silent or HEADER.match(content):
            return False
        if FRAME.match(content):  # "from user code:", then its frames
            return self._quotes_code or (not self._blanks and (raised.more[-1][1] if raised.more else "").endswith(":"))
        return self._each is True or not begins_record(content)

    def _nested(self, content: str) -> bool:
        """Frames straight behind an exception: Ray prints the remote traceback in the message, groups their parts."""
        raised = self._chain[-1]
        if self._group:
            return HEADER.match(content) is not None
        return FRAME.match(content) is not None and ("ray" in raised.type.lower() or raised.first.startswith("ray::"))

    def _chained(self, parsed: Parsed, content: str) -> Answer:
        if found := CHAIN.match(content):
            self._begin("cause" if found["cause"] else "context")
            self._state = State.CHAIN
            return self._keep(parsed)
        if not content.strip():
            return Answer.TAKE
        if HEADER.match(content):
            self._state = State.FRAMES
            return self._keep(parsed)
        if FRAME.match(content):
            self._state = State.FRAMES
            return self._frames(parsed, content)
        return Answer.PASS

    def _begin(self, relation: Relation) -> None:
        self._blanks.clear()
        self._state = State.FRAMES
        if len(self._chain) >= _CHAIN_KEPT:
            del self._chain[_CHAIN_KEPT // 2]
            self._dropped = True
        self._chain.append(_Raised(relation))

    def _keep_blanks(self) -> None:
        for blank in self._blanks:
            self._kept.append(blank.line)
            self._chain[-1].more.append((blank.line, ""))
        self._blanks.clear()

    def _keep(self, parsed: Parsed) -> Answer:
        self._kept.append(cut_line(parsed.line, 16_000 if self._kept.total < 40 else 2000))
        return Answer.TAKE

    def build(self) -> Event:
        """The event as far as it came; the builder stays usable."""
        chain = tuple(raised for draft in self._chain if (raised := draft.built()) is not None)
        unfinished = self.headless or self._state is not State.MESSAGE or not self._chain[-1].type
        rank = self.rank
        return Event(
            "traceback",
            tuple(self._kept),
            source=self.stream,
            rank=rank,
            chain=chain,
            truncated=unfinished or self._dropped or not self._kept.complete,
            ranks=(rank,) if rank else (),
        )
