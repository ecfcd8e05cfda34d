"""Brings the database to the newest schema.

Alembic is imported only when there is something to do: `wait` and `status` must answer at once.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine

from app.core.errors import StoreError

MIGRATIONS = Path(__file__).parent / "migrations"
HEAD = "0003"  # the newest revision; a test holds it to the files


def bring_up_to_date(engine: Engine, state: Path) -> None:
    """Runs the migrations that are missing. Of several processes at once one does it, the others wait."""
    if _revision(engine) == HEAD:
        return
    with _alone(state):
        found = _revision(engine)  # another may have been faster
        if found != HEAD:
            _migrate(engine, found)


def _revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        known = connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").first()
        row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").first() if known else None
    return None if row is None else str(row[0])


def _migrate(engine: Engine, found: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise StoreError(
            f"The state folder was written by a newer Crashcart (its database is at revision {found}).",
            mend="Update crashcart, or choose another folder with --state DIR.",
        )
    # One transaction: a process that is killed in the middle leaves the old schema as it was.
    with engine.execution_options(immediate=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    with (state / ".upgrade.lock").open("w", encoding="ascii") as file:
        (state / ".upgrade.lock").chmod(0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
