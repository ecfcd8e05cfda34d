"""Holds patterns against bodies, each within its time."""

from __future__ import annotations

from app.logs.patterns import PatternSet

TIMEOUT = 0.1  # seconds of processor time for one search
STRIKES = 3  # time-outs after which a pattern is no longer tried


class Confirmer:
    """Runs the patterns themselves where a filter held; a pattern too slow is suspended, never fatal."""

    def __init__(self, patterns: PatternSet) -> None:
        self._patterns = patterns
        self.timeouts: dict[str, int] = {}
        self.suspended: list[str] = []

    def groups(self, number: int, body: str, start: int = 0) -> dict[str, str | None] | None:
        """The named captures of a pattern that holds on a body (searched from `start`), else None."""
        text = self._patterns.patterns[number]
        if self.timeouts.get(text, 0) >= STRIKES:
            return None
        try:
            found = self._patterns.compiled(number).search(body, start, timeout=TIMEOUT)
        except TimeoutError:
            self.timeouts[text] = self.timeouts.get(text, 0) + 1
            if self.timeouts[text] >= STRIKES:
                self.suspended.append(text)
            return None
        return None if found is None else found.groupdict()
