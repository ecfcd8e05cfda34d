"""The alternatives of a pattern that are failures of their own: `^this|^that`, `^(?:this|that)$`.

Alternatives deep inside (an ending, a synonym) are details of one wording and stay out.
"""

from __future__ import annotations

import re

_GROUP = re.compile(r"\((?:\?(?:P?<\w+>|[imsx-]*:|>))?(?!\?)")
_AROUND = re.compile(r"(?:\^|\\A|\\s\*|\\b|\$|\\Z|\(\?[imsx]+\))*")


def alternatives(pattern: str) -> tuple[str, ...]:
    """The parts between which a whole pattern chooses, each as a pattern of its own; empty where it has no choice."""
    parts = _split(pattern)
    if len(parts) > 1:
        return tuple(part for branch in parts for part in alternatives(branch) or (branch,))
    opening = _AROUND.match(pattern)
    start = opening.end() if opening else 0
    group = _GROUP.match(pattern, start)
    if group is None:
        return ()
    end = _end_of_group(pattern, start)
    if end is None or _AROUND.fullmatch(pattern, end + 1) is None:
        return ()
    inner = _split(pattern[group.end() : end])
    if len(inner) < 2:
        return ()
    return tuple(pattern[:start] + f"(?:{branch})" + pattern[end + 1 :] for branch in inner)


def _split(pattern: str) -> list[str]:
    """The pattern cut at the bars that stand in no group."""
    parts, begin, depth, at = [], 0, 0, 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif character == "[":
            at = _end_of_class(pattern, at)
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "|" and depth == 0:
            parts.append(pattern[begin:at])
            begin = at + 1
        at += 1
    return [*parts, pattern[begin:]]


def _end_of_group(pattern: str, start: int) -> int | None:
    depth, at = 0, start
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif character == "[":
            at = _end_of_class(pattern, at)
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return None


def _end_of_class(pattern: str, start: int) -> int:
    at = start + 1
    at += pattern[at : at + 1] == "^"
    at += pattern[at : at + 1] == "]"
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at
