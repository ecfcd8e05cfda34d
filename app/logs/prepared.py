"""Keeps compiled scanners on disk: compiling some hundred patterns takes a second, loading them a few milliseconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app import __version__
from app.core.keeping import is_private, keep
from app.logs import filterform, scanner

_MOST_FILES = 8  # rule folders come and go; each set of patterns has a file
_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compiled database, and the numbers of patterns that it does not serve."""

    database: bytes
    everywhere: tuple[int, ...]


def key_of(texts: Iterable[str], engine_version: str) -> str:
    """Names what a database was compiled from: the patterns, and the code that compiled them."""
    made = [Path(str(module.__file__)).stat() for module in (filterform, scanner)]
    facts = [__version__, engine_version, *((one.st_mtime_ns, one.st_size) for one in made), *texts]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def read(folder: Path, key: str) -> Prepared | None:
    """What was kept under this key; None when nothing was, or nothing that can be read."""
    try:
        path = folder / f"{key}.db"
        if not is_private(folder) or path.stat().st_size > _LARGEST:
            return None
        head, _, database = path.read_bytes().partition(b"\n")
        everywhere = json.loads(head)["everywhere"]
        return Prepared(database, tuple(int(number) for number in everywhere))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(folder: Path, key: str, prepared: Prepared) -> None:
    """Keeps it for the next process. Where that can't be done, the next process compiles again."""
    data = json.dumps({"everywhere": prepared.everywhere}).encode() + b"\n" + prepared.database
    keep(folder, f"{key}.db", data, most=_MOST_FILES, pattern="*.db")
