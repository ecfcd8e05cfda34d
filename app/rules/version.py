"""Engine versions and the ranges that rules name: `>=0.4`, `>=0.5.3,<0.6`, `==0.5.*`."""

from __future__ import annotations

import re
from typing import NamedTuple

_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)(.*)", re.DOTALL)
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*v?(\d+(?:\.\d+)*)(\.\*)?\s*")
_PRERELEASE = re.compile(r"[.\-_]?(a|b|c|rc|alpha|beta|dev|pre)\d*", re.IGNORECASE)


class Version(NamedTuple):
    """A version as far as ranges need it: its release numbers, and whether it is before or at that release."""

    release: tuple[int, ...]
    final: bool = True


def read_version(text: str) -> Version | None:
    """`0.5.9.post1` → release 0.5.9; None when the text begins with no number (`dev`, a commit)."""
    found = _VERSION.match(text.strip())
    if found is None:
        return None
    release = tuple(int(part) for part in found.group(1).split("."))
    return Version(_trim(release), final=not _PRERELEASE.match(found.group(2)))


def valid_range(spec: str) -> bool:
    """Whether a range can be read. An empty one and `*` mean any version."""
    return spec.strip() in ("", "*") or all(_CLAUSE.fullmatch(clause) for clause in spec.split(","))


def in_range(version: Version, spec: str) -> bool:
    """Whether a version lies in a valid range."""
    return spec.strip() in ("", "*") or all(_holds(version, clause) for clause in spec.split(","))


def _holds(version: Version, clause: str) -> bool:
    found = _CLAUSE.fullmatch(clause)
    if found is None:
        return False
    operator, number, series = found.groups()
    bound = tuple(int(part) for part in number.split("."))
    if series:
        padded = version.release + (0,) * max(0, len(bound) - len(version.release))
        same = padded[: len(bound)] == bound
        return same if operator == "==" else not same
    left, right = version, Version(_trim(bound))
    return {
        ">=": left >= right,
        "<=": left <= right,
        ">": left > right,
        "<": left < right,
        "==": left == right,
        "!=": left != right,
    }[operator]


def _trim(release: tuple[int, ...]) -> tuple[int, ...]:
    """0.5 and 0.5.0 are one version."""
    while len(release) > 1 and release[-1] == 0:
        release = release[:-1]
    return release
