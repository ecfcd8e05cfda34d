"""One process acts per server: a lock file that the kernel frees when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.core.errors import StoreError, UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def checked_name(name: str) -> str:
    """The server's name if it can be one: it becomes part of file names and addresses."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} can't be a server's name.",
            mend="Use up to 64 letters, digits, dots, dashes and underscores, a letter or digit first.",
        )
    return name


@contextmanager
def locked(path: Path, server: str) -> Iterator[None]:
    """Holds the lock of a server, or says who does.

    The descriptor is not inherited by children, so a server that outlives its Crashcart does not keep the lock.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"The lock {path} can't be opened: {error.strerror}.",
            mend="Check the rights of the state folder, or choose another with --state DIR.",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise StoreError(
                f"Another Crashcart (pid {holder}) already acts for {server}.",
                mend=f"End it first (kill {holder}), or give this server another --name.",
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)
