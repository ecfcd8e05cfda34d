"""Spans of time as people write them: "30", "30s", "2m", "1h30m"."""

from __future__ import annotations

import re

from app.core.errors import UsageError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_PLAIN = re.compile(r"\d+(?:\.\d+)?")


def seconds(text: str) -> float:
    """The span in seconds; a plain number is seconds."""
    words = text.strip().lower().replace(" ", "")
    if _PLAIN.fullmatch(words):
        return float(words)
    parts = _PART.findall(words)
    if not parts or "".join(number + unit for number, unit in parts) != words:
        raise UsageError(f"{text!r} is no span of time.", mend="Write it like 30, 30s, 2m or 1h30m.")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
