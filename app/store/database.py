"""The database file: opening it, short transactions, and errors that say what to do."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlmodel import Session

from app.core.errors import StoreError
from app.core.resources import state_folder
from app.store.secrets import CommandKey
from app.store.upgrade import bring_up_to_date

# Longer than any of our transactions by far: who waits this long waits for something that hangs.
_BUSY_SECONDS = 10


class Database:
    """The open state folder.

    Writes begin with BEGIN IMMEDIATE, so that a read-then-write never fails halfway because another process wrote;
    they are short, and nothing slow happens inside. Reads see one consistent moment and never wait.
    """

    def __init__(self, state: Path, engine: Engine, key: CommandKey) -> None:
        self.state = state
        self.key = key
        self._engine = engine
        self._writer = engine.execution_options(immediate=True)

    @classmethod
    def open(cls, state: Path | None = None) -> Self:
        """Opens the state folder, making it and bringing its database up to date where needed."""
        try:
            state = state_folder(state).absolute()
            path = state / "crashcart.db"
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            key = CommandKey.load(state / "key")
        except OSError as error:
            raise _unusable(state, error) from error
        engine = _engine(path)
        try:
            with translated(path):
                bring_up_to_date(engine, state)
        except BaseException:
            engine.dispose()
            raise
        return cls(state, engine, key)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One short transaction that may change things: all of it is stored, or nothing."""
        with (
            translated(self.state / "crashcart.db"),
            Session(self._writer, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One consistent look."""
        with translated(self.state / "crashcart.db"), Session(self._engine) as session:
            yield session

    def folder(self, *parts: str) -> Path:
        """A private folder below the state folder, made on first use."""
        folder = self.state
        for part in parts:
            folder = folder / part
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise _unusable(folder, error) from error
        return folder


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": _BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves, below
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns what SQLite reports about the file into errors that a person can mend."""
    try:
        yield
    except IntegrityError:
        raise
    except (DatabaseError, sqlite3.DatabaseError) as error:
        text = str(getattr(error, "orig", None) or error)
        for sign, (what, mend) in _TROUBLES.items():
            if sign in text:
                raise StoreError(f"The database {path} {what} ({text}).", mend=mend) from error
        raise


_MOVE_AWAY = (
    "Move the file (with its -wal and -shm) away and start again; `sqlite3 FILE .recover` can save what is in it."
)
_TROUBLES = {
    "malformed": ("is damaged", _MOVE_AWAY),
    "not a database": ("is damaged or is no SQLite file", _MOVE_AWAY),
    "readonly": ("can't be written", "Give the user that runs crashcart the right to write it, or choose --state DIR."),
    "unable to open": ("can't be opened", "Check the rights of its folder, or choose another with --state DIR."),
    "is full": ("can't grow: the disk is full", "Free some space, or choose a folder elsewhere with --state DIR."),
    "disk I/O error": ("can't be read or written", "Check the disk, or choose a folder elsewhere with --state DIR."),
    "locked": (
        f"was held by another process for more than {_BUSY_SECONDS} s",
        "Look for a hanging crashcart or sqlite3 process (`fuser FILE`), and don't keep the folder on NFS.",
    ),
}


def _unusable(state: Path | None, error: OSError) -> StoreError:
    where = error.filename or state
    return StoreError(
        f"The state folder can't be used: {where}: {error.strerror}.",
        mend="Check its rights and free space, or choose another with --state DIR.",
    )
