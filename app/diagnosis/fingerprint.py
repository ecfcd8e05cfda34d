"""What makes two failures the same, whatever the time, machine, rank or size of things."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from app.core.model import Event, Frame, Raised
from app.core.vocabulary import Category, Engine

_LONGEST = 600  # characters of the root line that count
_FRAMES = 3  # innermost frames that count

# First the forms with inner structure, then plain numbers. Numbers that are names (errno, signals) are kept.
_STEPS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\"]+"), "<url>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<host>"),
    (re.compile(r"\b\d+(?:[.,]\d+)?\s?[KMGT]i?B\b"), "<size>"),
    (re.compile(r"(?<![\w.-])(?:[A-Za-z]:\\|\.{0,2}/)[^\s'\",;:()\[\]]+|(?<![\w./-])[\w.-]+/[\w./-]+"), "<path>"),
    (re.compile(r"\b((?:errno|exitcode|exit code|error code|signal|status)[ =:]*)(-?\d+)", re.IGNORECASE), r"\1<\2>"),
    (re.compile(r"(?<![\w<])-?\d+(?:[.,_]\d+)*(?:[eE][+-]?\d+)?(?![\d>])"), "<n>"),
    (re.compile(r"\b(TP|DP|PP|EP|rank|cuda|Worker_TP|EngineCore_|DP|GPU)[ _:]?\d+\b", re.IGNORECASE), r"\1<n>"),
    (re.compile(r"\s+"), " "),
)


def normalise(text: str) -> str:
    """The text without what differs from run to run."""
    text = text[:_LONGEST]
    for pattern, replacement in _STEPS:
        text = pattern.sub(replacement, text)
    return text.strip()


def root_of(event: Event | None) -> Raised | None:
    """The exception that started a traceback event: the first one raised of its chain."""
    return event.chain[0] if event is not None and event.chain else None


def fingerprint(
    *,
    engine: Engine | None,
    category: Category,
    rule: str,
    root: str | None = None,
    frames: Iterable[Frame] = (),
) -> str:
    """A short stable name of a failure: engine, category, rule, root line and innermost functions.

    Line numbers and folders of frames do not count: the same failure on another version or machine is the same.
    """
    functions = [f"{_file_name(frame.file)}:{frame.function}" for frame in frames][-_FRAMES:]
    parts = [engine.value if engine else "", category.value, rule, normalise(root or ""), *functions]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]
