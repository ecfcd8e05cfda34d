"""What is stored of a command: its words without secrets, and a keyed hash that tells two commands apart."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SIZE = 32


@dataclass(frozen=True, slots=True)
class CommandKey:
    """Hashes commands with a random key of this state folder: without it nobody can guess secrets by trying."""

    key: bytes

    @classmethod
    def load(cls, path: Path) -> CommandKey:
        """Reads the key; makes it on first use. Of two processes at once both end with the same key."""
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            key = b""
        if len(key) != _SIZE:
            _place(path, replace=bool(key))
            key = path.read_bytes()
        return cls(key)

    def hash(self, words: Sequence[str]) -> str:
        """The same for the same words only."""
        return hmac.new(self.key, "\0".join(words).encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def _place(path: Path, *, replace: bool) -> None:
    """Writes a fresh key whole: a half-written file is never seen under its name."""
    fresh = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(_SIZE))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if replace:
        fresh.replace(path)
        return
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass  # another process was first: its key counts
    finally:
        fresh.unlink()
