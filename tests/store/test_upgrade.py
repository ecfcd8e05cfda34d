from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlmodel import SQLModel

from app.core.errors import StoreError
from app.store.store import Store
from app.store.upgrade import HEAD, MIGRATIONS


@pytest.fixture
def config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def revisions(config: Config) -> list[str]:
    """All revisions, oldest first."""
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]


def indexes(database: Path) -> dict[str, str]:
    with closing(sqlite3.connect(database)) as raw:
        rows = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall()
    return {name: " ".join(sql.split()) for name, sql in rows}


def test_the_migrations_end_at_the_tables_of_the_models(state: Path) -> None:
    engine = create_engine(f"sqlite:///{state / 'crashcart.db'}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = compare_metadata(context, SQLModel.metadata)
    engine.dispose()

    assert differences == []


def test_the_migrations_end_at_the_indexes_of_the_models(state: Path, tmp_path: Path) -> None:
    """Alembic does not compare the conditions of partial indexes: these hold our promises of never twice."""
    engine = create_engine(f"sqlite:///{tmp_path / 'models.db'}")
    SQLModel.metadata.create_all(engine)
    engine.dispose()

    assert indexes(state / "crashcart.db") == indexes(tmp_path / "models.db")


def test_the_known_head_is_the_newest_revision(config: Config) -> None:
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_an_up_to_date_database_opens_without_alembic(state: Path) -> None:
    """`wait` and `status` must answer at once."""
    code = (
        "import sys, pathlib; from app.store.store import Store; Store.open(pathlib.Path(sys.argv[1])).close();"
        "print('alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(state)], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_rows_of_every_older_database_survive_the_upgrade(config: Config, tmp_path: Path) -> None:
    for revision in revisions(config):
        state = tmp_path / revision
        state.mkdir()
        before = _made_at(revision, config, state / "crashcart.db")

        Store.open(state).close()

        assert _counts(state / "crashcart.db", before) == before


def _made_at(revision: str, config: Config, database: Path) -> dict[str, int]:
    """A database as that revision made it, one row in each of its tables."""
    engine = create_engine(f"sqlite:///{database}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()
    with closing(sqlite3.connect(database)) as raw, raw:
        tables = [
            name
            for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if name != "alembic_version" and not name.startswith("sqlite_")
        ]
        for table in tables:
            columns = raw.execute(f"PRAGMA table_info({table})").fetchall()
            values = [_value(kind, name) for _, name, kind, *_ in columns]
            raw.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
    return dict.fromkeys(tables, 1)


def _value(kind: str, column: str) -> object:
    if column in ("server", "name"):
        return "kimi"
    if kind in ("INTEGER", "BOOLEAN", "FLOAT"):
        return 1
    return {"JSON": "[]", "DATETIME": "2026-01-12 10:00:00"}.get(kind, "open")


def _counts(database: Path, tables: dict[str, int]) -> dict[str, int]:
    with closing(sqlite3.connect(database)) as raw:
        return {table: raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


def test_a_database_of_a_newer_crashcart_is_an_error_with_a_mend(state: Path) -> None:
    with closing(sqlite3.connect(state / "crashcart.db")) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(StoreError, match="newer Crashcart") as raised:
        Store.open(state)

    assert "Update crashcart" in (raised.value.mend or "")


def test_a_migration_that_fails_leaves_the_old_database_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, broken)
    first = next((broken / "versions").glob("0001*.py"))
    first.write_text(first.read_text().replace("    _launch()\n", "    raise RuntimeError('power cut')\n"))
    monkeypatch.setattr("app.store.upgrade.MIGRATIONS", broken)
    with pytest.raises(RuntimeError, match="power cut"):
        Store.open(tmp_path / "state")
    monkeypatch.undo()

    with Store.open(tmp_path / "state") as store:
        assert store.list_servers() == ()


def test_a_folder_with_a_percent_sign_works(tmp_path: Path) -> None:
    with Store.open(tmp_path / "50%(state)s") as store:
        assert store.list_servers() == ()
