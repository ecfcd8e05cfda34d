"""Finds in a block of bytes where filter forms hold: Hyperscan where it is installed, plain regexes elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence, Set
from typing import Protocol

import regex

try:
    import hyperscan
except ImportError:  # no wheel for this machine
    hyperscan = None  # type: ignore[assignment]

Form = tuple[int, str]  # number, filter form; several forms may share a number
Found = list[tuple[int, int]]  # (offset of the end, number) in order

_PARTS = 8  # a block with hits is searched again in so many parts
_SMALL = 1536  # bytes; a smaller one is searched line by line


class Scanner(Protocol):
    """Finds all filter forms in one pass."""

    @property
    def refused(self) -> tuple[int, ...]:
        """Numbers of forms that could not be compiled."""

    def scan(self, block: bytes, *, ignored: Set[int] = frozenset(), only: Set[int] | None = None) -> Found:
        """Where forms hold, at least once for each line and number; `block` is whole lines."""

    def present(self, block: bytes) -> frozenset[int]:
        """The numbers of the forms that hold anywhere in a block."""


def make_scanner(forms: Sequence[Form]) -> Scanner:
    """The fastest scanner that this machine has."""
    return RegexScanner(forms) if hyperscan is None else HyperscanScanner(forms)


def can_be_kept() -> str:
    """The version of the scanner whose databases can be kept on disk; empty where there is none."""
    return "" if hyperscan is None else str(hyperscan.__version__)  # type: ignore[attr-defined]


class HyperscanScanner:
    """One automaton for all forms: the time hardly grows with their number."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.refused: tuple[int, ...] = ()
        try:
            self._database = self._compile(forms)
        except hyperscan.error:
            good = [form for form in forms if self._compiles(form)]
            self.refused = tuple(sorted({number for number, _ in forms} - {number for number, _ in good}))
            self._database = self._compile(good)
        self._local = threading.local()

    @classmethod
    def loaded(cls, data: bytes) -> HyperscanScanner | None:
        """A scanner that was kept by `dump`; None when it was made for another processor or is damaged."""
        scanner = cls.__new__(cls)
        scanner.refused = ()
        try:
            scanner._database = hyperscan.loadb(data, hyperscan.HS_MODE_BLOCK)
        except (hyperscan.error, ValueError, TypeError):
            return None
        scanner._local = threading.local()
        return scanner

    def dump(self) -> bytes:
        """The compiled database, for `loaded` in a later process on this machine."""
        return bytes(hyperscan.dumpb(self._database))

    @staticmethod
    def _compile(forms: Sequence[Form]) -> hyperscan.Database:
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(
            expressions=[form.encode("ascii") for _, form in forms],
            ids=[number for number, _ in forms],
            flags=[hyperscan.HS_FLAG_MULTILINE | hyperscan.HS_FLAG_SINGLEMATCH] * len(forms),
        )
        return database

    def _compiles(self, form: Form) -> bool:
        try:
            self._compile([form])
        except hyperscan.error:
            return False
        return True

    def scan(self, block: bytes, *, ignored: Set[int] = frozenset(), only: Set[int] | None = None) -> Found:
        found: Found = []
        self._search(block, 0, ignored, only, found)
        return found

    def _search(self, block: bytes, base: int, ignored: Set[int], only: Set[int] | None, found: Found) -> None:
        """Looks closer and closer at the parts in which something holds.

        The automaton says once for each block what holds in it: a call into Python for each hit would take longer
        than to scan the few parts with hits again.
        """
        ends = self._ends(block)
        wanted = [(base + end, number) for number, end in ends.items() if number not in ignored]
        if only is not None:
            wanted = [hit for hit in wanted if hit[1] in only]
        if not wanted:
            return
        if block.find(b"\n", 0, len(block) - 1) < 0:  # one line, ended or not
            found.extend(sorted(wanted))
            return
        for start, stop in _parts(block):
            self._search(block[start:stop], base + start, ignored, only, found)

    def present(self, block: bytes) -> frozenset[int]:
        return frozenset(self._ends(block))

    def _ends(self, block: bytes) -> dict[int, int]:
        """The forms that hold in a block, each with the end of one match."""
        if not hasattr(self._local, "scratch"):
            self._local.scratch = hyperscan.Scratch(self._database)  # one per thread: a shared one raises
        ends: dict[int, int] = {}

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            ends[number] = end

        self._database.scan(block, match_event_handler=on_match, scratch=self._local.scratch)
        return ends


def _parts(block: bytes) -> Iterator[tuple[int, int]]:
    """Cuts a block of whole lines into some smaller ones, the smallest of one line each."""
    size = len(block) // _PARTS if len(block) > _SMALL else 0
    start = 0
    while start < len(block):
        stop = block.find(b"\n", start + size) + 1 or len(block)
        if stop - start == len(block):  # a long line behind short ones: those go first, as each part must be smaller
            stop = block.rfind(b"\n", 0, len(block) - 1) + 1
        yield start, stop
        start = stop


class RegexScanner:
    """Each form by itself, for machines without Hyperscan: right, but slow."""

    timeout = 0.5  # seconds of processor time for one form on one block

    def __init__(self, forms: Sequence[Form]) -> None:
        self._forms: list[tuple[int, regex.Pattern[bytes]]] = []
        refused: set[int] = set()
        for number, form in forms:
            try:
                self._forms.append((number, regex.compile(form.encode("ascii"), regex.MULTILINE)))
            except regex.error:
                refused.add(number)
        self.refused = tuple(sorted(refused))

    def scan(self, block: bytes, *, ignored: Set[int] = frozenset(), only: Set[int] | None = None) -> Found:
        found: Found = []
        for number, pattern in self._forms:
            if number in ignored or (only is not None and number not in only):
                continue
            found.extend((end, number) for end in self._ends(pattern, block))
        found.sort()
        return found

    def present(self, block: bytes) -> frozenset[int]:
        return frozenset(number for number, pattern in self._forms if self._holds(pattern, block))

    def _holds(self, pattern: regex.Pattern[bytes], block: bytes) -> bool:
        try:
            return pattern.search(block, timeout=self.timeout) is not None
        except TimeoutError:
            return True

    def _ends(self, pattern: regex.Pattern[bytes], block: bytes) -> list[int]:
        """One match's end for each line in which the form holds; every line's where it takes too long."""
        ends = []
        at = 0
        try:
            while match := pattern.search(block, at, timeout=self.timeout):
                ends.append(match.end())
                at = block.find(b"\n", match.end() - 1) + 1 or len(block)
        except TimeoutError:
            return [end for end in range(1, len(block)) if block[end] == 10]
        return ends
