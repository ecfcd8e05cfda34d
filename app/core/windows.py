"""Weekly spans of time as people write them: `22:00-06:00`, `Sat 02:00-06:00`, `Mon-Fri 08:00-18:00`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.core.errors import UsageError

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FORM = re.compile(
    r"(?:(?P<first>[A-Za-z]{3})(?:-(?P<last>[A-Za-z]{3}))?\s+)?"
    r"(?P<from>\d{1,2}:\d\d)\s*-\s*(?P<to>\d{1,2}:\d\d)"
)
_DAY = 24 * 60  # minutes


@dataclass(frozen=True, slots=True)
class Window:
    """A span that comes again every week. It begins on each of `days` (0 is Monday) and may end on the next day."""

    text: str
    days: frozenset[int]
    begin: int  # minutes of the day
    length: int  # minutes

    def covers(self, at: datetime) -> bool:
        """Whether a moment, in the time zone in which the window is meant, lies in it."""
        minute = at.hour * 60 + at.minute
        today = at.weekday() in self.days and self.begin <= minute < self.begin + self.length
        before = (at - timedelta(days=1)).weekday()
        return today or (before in self.days and minute + _DAY < self.begin + self.length)


def window(text: str) -> Window:
    """Reads one; UsageError says how it is written."""
    found = _FORM.fullmatch(text.strip())
    days = _days(found["first"], found["last"]) if found else None
    begin, end = (_minutes(found["from"]), _minutes(found["to"])) if found else (None, None)
    if days is None or begin is None or end is None or begin in (end, _DAY):
        raise UsageError(f"{text!r} is no weekly span.", mend="Write it like 22:00-06:00 or Sat 02:00-06:00.")
    return Window(text.strip(), days, begin, end - begin if end > begin else end + _DAY - begin)


def _days(first: str | None, last: str | None) -> frozenset[int] | None:
    if first is None:
        return frozenset(range(7))
    if first.lower() not in _DAYS or (last or first).lower() not in _DAYS:
        return None
    begin, end = _DAYS.index(first.lower()), _DAYS.index((last or first).lower())
    return frozenset((begin + step) % 7 for step in range((end - begin) % 7 + 1))


def _minutes(text: str) -> int | None:
    hours, minutes = map(int, text.split(":"))
    total = hours * 60 + minutes
    return total if minutes < 60 and total <= _DAY else None
