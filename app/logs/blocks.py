"""Puts the simpler events together: usage blocks, native crash reports, error lines with what belongs to them."""

from __future__ import annotations

from typing import Literal

from app.core.model import Event, Line
from app.logs.kept import FirstAndLast, cut_line
from app.logs.prefix import Parsed
from app.logs.shapes import ARGPARSE, HEADER, NATIVE, NATIVE_MORE, USAGE, USAGE_END, begins_record, opening
from app.logs.traceback import Answer

_PATIENCE = 40  # lines of others between two of its own
_STRANGE_LINES = 5  # lines of its own stream that it can't place, before it gives up


class BlockBuilder:
    """What the builders of simple events share: lines of one stream, kept within bounds."""

    kind: Literal["usage", "native", "error"] = "error"

    def __init__(self, first: Parsed, kept_lines: int) -> None:
        self.stream = first.stream
        self.rank = first.line.rank
        self.header = first.header
        self.closed = False  # complete: no further line is wanted
        self._idle = 0
        self._strange = 0
        self._kept: FirstAndLast[Line] = FirstAndLast(kept_lines // 2, kept_lines - kept_lines // 2)
        self._keep(first)

    @property
    def uncaught(self) -> bool:
        return False

    @property
    def wants_frames(self) -> bool:
        return False

    @property
    def complete(self) -> bool:
        return True

    def accept(self, parsed: Parsed) -> Answer:
        """Takes a line, or says why not."""
        answer = self._own(parsed) if parsed.stream == self.stream else Answer.PASS
        if answer is Answer.TAKE:
            self._idle = 0
            return self._keep(parsed)
        self._idle += 1
        return Answer.END if self._idle > _PATIENCE else answer

    def _own(self, parsed: Parsed) -> Answer:
        raise NotImplementedError

    def _stranger(self) -> Answer:
        self._strange += 1
        return Answer.END if self._strange > _STRANGE_LINES else Answer.PASS

    def _keep(self, parsed: Parsed) -> Answer:
        self._kept.append(cut_line(parsed.line, 16_000 if self._kept.total < 40 else 2000))
        return Answer.TAKE

    def build(self) -> Event:
        """The event as far as it came; the builder stays usable."""
        lines = list(self._kept)
        while len(lines) > 1 and not lines[-1].body.strip():
            lines.pop()
        return Event(
            self.kind,
            tuple(lines),
            source=self.stream,
            rank=self.rank,
            truncated=not (self._kept.complete and self.complete),
            ranks=(self.rank,) if self.rank else (),
        )


class UsageBuilder(BlockBuilder):
    """A usage block, up to `program: error: …`; without that it was asked for and is no event."""

    kind = "usage"

    def __init__(self, first: Parsed, kept_lines: int) -> None:
        super().__init__(first, kept_lines)
        self._failed = self.closed = bool(ARGPARSE.match(first.body)) and not USAGE.match(first.body)

    @property
    def complete(self) -> bool:
        return self._failed

    def _own(self, parsed: Parsed) -> Answer:
        body = parsed.body
        if parsed.header is not None:
            return self._stranger()
        if USAGE_END.match(body):
            self._failed = self.closed = True
            return Answer.TAKE
        if not body.strip() or body[0].isspace() or body[0] in "[{(<|-╭│╰":
            return Answer.TAKE
        if body.startswith(("Try ", "For ")):
            return Answer.TAKE
        if USAGE.match(body) or HEADER.match(body):
            return Answer.END
        return self._stranger()


class NativeBuilder(BlockBuilder):
    """A crash report of native code: what died, then its stack."""

    kind = "native"

    def _own(self, parsed: Parsed) -> Answer:
        body = parsed.body
        if parsed.header is not None or HEADER.match(body):
            return Answer.END
        if NATIVE_MORE.match(body) or NATIVE.match(body):
            return Answer.TAKE
        if not body.strip():
            return self._blank()
        if begins_record(body):
            return Answer.END
        if body[0].isspace():
            return Answer.TAKE
        return self._stranger()

    def _blank(self) -> Answer:
        self._strange += 1
        return Answer.END if self._strange > _STRANGE_LINES else Answer.TAKE


class ErrorBuilder(BlockBuilder):
    """One line of level error or worse, with the lines that continue it."""

    kind = "error"
    _room = 20
    _gap = False  # a blank line with the record's header: the next ones are the same record

    def _own(self, parsed: Parsed) -> Answer:
        body = parsed.body
        same = parsed.header is not None and parsed.header == self.header and parsed.line.rank == self.rank
        if same and not body.strip():
            self._gap = True
            return Answer.TAKE
        if self._kept.total > self._room or not body.strip() or begins_record(body):
            return Answer.END
        if same or parsed.header is None:
            continued = (
                body[0].isspace()
                or (same and self._gap)
                or (parsed.header is None and self.header is not None and opening(parsed) is None)
            )
            return Answer.TAKE if continued else Answer.END
        return Answer.END
