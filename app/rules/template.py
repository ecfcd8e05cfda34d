"""Texts and values with captures in braces: `--tp {argv.--tp} needs {gpus} GPUs`.

What was captured comes from a log, whose authors are strangers: it is put in once, as data, and never read as a
template itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Only what looks like a name counts, so JSON in an explanation stays as it is.
_PLACE = re.compile(r"\{(argv\.[^{}\s]+|(?:env|probe)\.\w+|[A-Za-z_]\w*)\}")
_LONGEST = 300


def names(text: str) -> frozenset[str]:
    """The captures that a text uses."""
    return frozenset(_PLACE.findall(text))


def expand(text: str, captures: Mapping[str, str]) -> str:
    """A text for people: a missing capture shows as `?`, a long or multi-line one is shortened to one line."""
    return _PLACE.sub(lambda place: _shown(captures.get(place[1])), text)


def expand_exactly(text: str, captures: Mapping[str, str]) -> str | None:
    """A value for a command line: None when a capture is missing or holds a control character."""
    wanted = names(text)
    if any(name not in captures or not captures[name].isprintable() for name in wanted):
        return None
    return _PLACE.sub(lambda place: captures[place[1]], text)


def _shown(value: str | None) -> str:
    if value is None:
        return "?"
    line = " ".join(value.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
