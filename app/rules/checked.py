"""Keeps the rules of a folder as they came out of checking: a process that finds them unchanged reads no YAML.

The file is plain JSON. What it was made of is in its name: a changed, new or missing rule file, another version of
the program or of Python give another name. A file that can't be read, or that someone else could have written, is as
if there were none.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from app import __version__
from app.core import vocabulary
from app.core.keeping import is_private, keep
from app.rules import parts

if TYPE_CHECKING:
    from app.rules.schema import Rule

_MOST_FILES = 4
_SETTLED = 100_000_000  # ns between the last change of a rule file and keeping: clocks of file systems are coarse


def stamp_of(folder: Path) -> str | None:
    """Names the state of a folder of rules; None where it can't be told."""
    try:
        facts = [(str(path), *_facts(path)) for path in _files(folder)]
    except OSError:
        return None
    made = [_facts(path) for path in sorted(Path(__file__).parent.glob("*.py"))]
    about = [__version__, sys.version, str(folder), facts, made]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]


def read(cache: Path, stamp: str) -> tuple[Rule, ...] | None:
    """The rules kept under a stamp, without their examples; None where there are none that can be used."""
    try:
        if not is_private(cache):
            return None
        kept = json.loads((cache / f"rules-{stamp}.json").read_bytes())
        defaults = {name: _thawed_fields(fields, {}) for name, fields in kept["defaults"].items()}
        makers = {name: _maker(name, fields) for name, fields in defaults.items()}
        return tuple(cast("Rule", _thawed(rule, makers)) for rule in kept["rules"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def write(cache: Path, stamp: str, rules: Sequence[Rule], folder: Path, *, settled: int = _SETTLED) -> None:
    """Keeps rules for later processes. Where that can't be done, they are read and checked again.

    Nothing is kept within `settled` nanoseconds of the last change of a rule file.
    """
    defaults: dict[str, Any] = {}
    frozen = [_frozen(rule, defaults) for rule in rules]
    data = json.dumps({"defaults": defaults, "rules": frozen}, separators=(",", ":")).encode()
    newest = max((path.stat().st_ctime_ns for path in _files(folder)), default=0)
    keep(cache, f"rules-{stamp}.json", data, most=_MOST_FILES, pattern="rules-*.json", not_before=newest + settled)


def _files(folder: Path) -> list[Path]:
    """Everything in a folder that says what its rules are; the folders too, where a file may have gone."""
    found = [folder]
    for entry in os.scandir(folder):
        if entry.is_dir():
            found.append(Path(entry.path))
            found.extend(Path(below.path) for below in os.scandir(entry.path) if below.name.endswith((".yaml", ".yml")))
        elif entry.name.endswith((".yaml", ".yml")):
            found.append(Path(entry.path))
    return sorted(found)


def _facts(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


# -- as JSON: a value that is no plain one is a list that begins with what it is


def _frozen(value: object, defaults: dict[str, Any]) -> object:
    if isinstance(value, parts.RulePart) or hasattr(value, "model_fields_set"):
        return _frozen_part(value, defaults)
    if isinstance(value, Enum):
        return ["enum", type(value).__name__, value.value]
    if isinstance(value, Mapping):
        return ["map", *((_frozen(key, defaults), _frozen(item, defaults)) for key, item in value.items())]
    if isinstance(value, tuple | list):
        return [type(value).__name__, *(_frozen(item, defaults) for item in value)]
    return value


def _frozen_part(part: Any, defaults: dict[str, Any]) -> object:
    kind = type(part)
    if kind.__name__ not in defaults:
        fields = {
            name: field.get_default(call_default_factory=True)
            for name, field in kind.model_fields.items()
            if not field.is_required()
        }
        defaults[kind.__name__] = {name: _frozen(value, defaults) for name, value in fields.items()}
    given = sorted(part.model_fields_set - {"examples"})
    return ["part", kind.__name__, {name: _frozen(getattr(part, name), defaults) for name in given}]


def _thawed_fields(fields: Mapping[str, Any], makers: Mapping[str, Callable[..., object]]) -> dict[str, Any]:
    return {name: _thawed(value, makers) if type(value) is list else value for name, value in fields.items()}


def _thawed(value: Any, makers: Mapping[str, Callable[..., object]]) -> object:
    if type(value) is not list:
        return value
    kind, *rest = value
    if kind == "part":
        return makers[rest[0]](**_thawed_fields(rest[1], makers))
    if kind == "enum":
        return getattr(vocabulary, rest[0])(rest[1])
    if kind == "map":
        return {_thawed(key, makers): _thawed(item, makers) for key, item in rest}
    items = [_thawed(item, makers) for item in rest]
    return items if kind == "list" else tuple(items)


class _Plain:
    """A part of a rule as it came out of checking; what the file did not give is found in the class."""

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)

    @classmethod
    def model_construct(cls, **fields: object) -> _Plain:
        """Another one of the kind, with these fields."""
        return cls(**fields)


_METHODS: Mapping[str, type] = {
    "Condition": parts.ConditionPart,
    "Closest": parts.ClosestPart,
    "Floor": parts.FloorPart,
    "FixSpec": parts.FixPart,
    "Rule": parts.RulePart,
}
_COMPARING = ("Comparison", "ArgvLeaf", "EnvLeaf", "CaptureLeaf", "ProbeTest")


def _maker(name: str, defaults: Mapping[str, object]) -> Callable[..., object]:
    methods = parts.ComparisonPart if name in _COMPARING else _METHODS.get(name)
    return type(name, (_Plain, methods) if methods else (_Plain,), dict(defaults))
