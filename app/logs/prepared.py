"""Keeps compiled scanners on disk: compiling some hundred patterns takes a second, loading them a few milliseconds."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app import __version__
from app.logs import filterform

_MOST_FILES = 8  # rule folders come and go; each set of patterns has a file
_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compiled database, and the numbers of patterns that it does not serve."""

    database: bytes
    everywhere: tuple[int, ...]


def key_of(texts: Iterable[str], engine_version: str) -> str:
    """Names what a database was compiled from: the patterns, and the code that compiled them."""
    made = Path(filterform.__file__).stat()
    facts = [__version__, engine_version, made.st_mtime_ns, made.st_size, *texts]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def read(folder: Path, key: str) -> Prepared | None:
    """What was kept under this key; None when nothing was, or nothing that can be read."""
    try:
        path = folder / f"{key}.db"
        if path.stat().st_size > _LARGEST:
            return None
        head, _, database = path.read_bytes().partition(b"\n")
        everywhere = json.loads(head)["everywhere"]
        return Prepared(database, tuple(int(number) for number in everywhere))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(folder: Path, key: str, prepared: Prepared) -> None:
    """Keeps it for the next process. Where that can't be done, the next process compiles again."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".new", delete=False) as file:
            file.write(json.dumps({"everywhere": prepared.everywhere}).encode() + b"\n" + prepared.database)
        Path(file.name).replace(folder / f"{key}.db")
        _drop_oldest(folder)


def _drop_oldest(folder: Path) -> None:
    kept = sorted(folder.glob("*.db"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in kept[_MOST_FILES:]:
        path.unlink(missing_ok=True)
