"""Amounts of data as people write them: "200 MiB", "5GiB", "20MB", "1048576"."""

from __future__ import annotations

import re

from app.core.errors import UsageError

_UNITS = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?")


def size(text: str) -> int:
    """The amount in bytes; a plain number is bytes."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(f"{text!r} is no amount of data.", mend="Write it like 200MiB, 5GiB or 20MB.")
    return int(float(found[1]) * _UNITS[found[2] or ""])
