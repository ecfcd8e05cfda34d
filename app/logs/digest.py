"""From the bytes of a log to its digest: hits of all patterns, events, launches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.core.model import LogDigest
from app.logs.patterns import PatternSet


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a log is kept; what lies beyond is counted only."""

    hits_first: int = 50
    hits_last: int = 50
    events_first: int = 100
    events_last: int = 200
    event_lines: int = 400
    usage_lines: int = 1500
    line_characters: int = 64 * 1024
    head: int = 40
    tail: int = 40


class LogDigester:
    """Digests a log that comes in pieces; the digest does not depend on where the pieces were cut."""

    def __init__(self, patterns: PatternSet, *, limits: Limits | None = None) -> None:
        self._patterns = patterns
        self._limits = limits or Limits()

    def feed(self, data: bytes) -> None:
        """Takes in the next bytes; a line is looked at when its end has come."""

    def close(self) -> None:
        """Says that no more bytes come: a last line without its end is looked at, open events end."""

    def digest(self) -> LogDigest:
        """What was seen so far; may be asked at any time and changes nothing."""
        return LogDigest()


def digest_file(path: Path | str, patterns: PatternSet, *, limits: Limits | None = None) -> LogDigest:
    """Digests a whole file, or standard input for `-`; exports with the newest line first are turned round."""
    digester = LogDigester(patterns, limits=limits)
    with Path(path).open("rb") as stream:
        while chunk := stream.read(128 * 1024):
            digester.feed(chunk)
    digester.close()
    return digester.digest()
