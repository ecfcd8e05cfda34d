"""A server's newest output as a page shows it: a window of bounded size over a file of any size."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from app.core.redact import redact_text
from app.core.text import neutralise, strip_ansi
from app.logs.prefix import parse_line

LINES = 2_000
_WINDOW = 1024 * 1024  # bytes that are read at once
_LINE_SHOWN = 2_000
_TONES = {"ERROR": "error", "CRITICAL": "fatal", "FATAL": "fatal", "WARNING": "warn", "WARN": "warn"}


@dataclass(frozen=True, slots=True)
class LogRow:
    """One line, safe to show; `found` marks those that were searched for."""

    text: str
    tone: str
    found: bool


@dataclass(frozen=True, slots=True)
class LogPage:
    """A window. `older` is where the window before it ends; `missing` says why there is nothing."""

    rows: tuple[LogRow, ...] = ()
    older: int | None = None
    newest: bool = True
    size: int = 0
    missing: str | None = None


def log_page(path: Path | None, before: int | None = None, search: str = "") -> LogPage:
    """The last lines of a file that end at `before` bytes (its end, when not given)."""
    if path is None:
        return LogPage(missing="No log of it is known yet.")
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            end = size if before is None else min(before, size)
            start = max(0, end - _WINDOW)
            file.seek(start)
            data = file.read(end - start)
    except OSError as error:
        return LogPage(missing=f"{path} can't be read: {error.strerror}.")
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if start > 0 and len(lines) > 1:
        start += len(lines[0]) + 1  # its beginning lies before the window
        lines = lines[1:]
    left_out = lines[: max(0, len(lines) - LINES)]
    start += sum(len(line) + 1 for line in left_out)
    rows = tuple(_row(line, search.lower()) for line in lines[len(left_out) :])
    return LogPage(rows, start if start > 0 else None, newest=before is None, size=size)


def _row(raw: bytes, search: str) -> LogRow:
    whole = raw[: 4 * _LINE_SHOWN].decode("utf-8", "replace").rpartition("\r")[2]
    text = redact_text(strip_ansi(whole))
    level = parse_line(1, text).line.level or ""
    shown = neutralise(text[:_LINE_SHOWN]) + (" […]" if len(text) > _LINE_SHOWN else "")
    return LogRow(shown, _TONES.get(level, ""), bool(search) and search in text.lower())
