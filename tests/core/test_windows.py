"""Weekly spans of time: how they are written, and what they cover."""

from __future__ import annotations

from datetime import datetime

import pytest

from app.core.errors import UsageError
from app.core.windows import window

MONDAY = "2026-01-12"


@pytest.mark.parametrize(
    ("text", "at", "covered"),
    [
        ("08:00-18:00", f"{MONDAY} 08:00", True),
        ("08:00-18:00", f"{MONDAY} 17:59", True),
        ("08:00-18:00", f"{MONDAY} 18:00", False),
        ("22:00-06:00", f"{MONDAY} 23:00", True),
        ("22:00-06:00", f"{MONDAY} 05:59", True),
        ("22:00-06:00", f"{MONDAY} 06:00", False),
        ("00:00-24:00", f"{MONDAY} 23:59", True),
        ("Mon 22:00-06:00", f"{MONDAY} 23:00", True),
        ("Mon 22:00-06:00", "2026-01-13 05:00", True),
        ("Mon 22:00-06:00", f"{MONDAY} 05:00", False),
        ("Mon-Fri 08:00-18:00", "2026-01-16 09:00", True),
        ("Mon-Fri 08:00-18:00", "2026-01-17 09:00", False),
        ("Sat-Mon 08:00-18:00", f"{MONDAY} 09:00", True),
        ("Sat-Mon 08:00-18:00", "2026-01-13 09:00", False),
        ("sun 8:00 - 9:00", "2026-01-18 08:30", True),
    ],
)
def test_a_moment_lies_in_a_window_or_not(text: str, at: str, covered: bool) -> None:
    assert window(text).covers(datetime.fromisoformat(at)) is covered


@pytest.mark.parametrize(
    "text", ["", "8-18", "25:00-26:00", "08:60-09:00", "08:00-08:00", "Day 08:00-09:00", "24:00-06:00"]
)
def test_what_is_no_window_is_refused_with_the_way_to_write_one(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        window(text)

    assert refused.value.mend == "Write it like 22:00-06:00 or Sat 02:00-06:00."
