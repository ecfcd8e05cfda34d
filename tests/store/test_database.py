from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from app.core.errors import StoreError
from app.core.vocabulary import Engine, ServerState
from app.store.store import Store


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_is_made_private(tmp_path: Path) -> None:
    Store.open(tmp_path / "deep" / "state").close()

    assert mode(tmp_path / "deep" / "state") == 0o700


def test_all_files_are_private_while_the_database_is_in_use(state: Path, store: Store) -> None:
    with store.lock_server("kimi"):
        store.begin_launch("kimi", ["serve"], Engine.SGLANG)
        files = {path.name: mode(path) for path in state.rglob("*") if path.is_file()}
        folders = {mode(path) for path in state.rglob("*") if path.is_dir()}

    assert set(files.values()) == {0o600}
    assert {"crashcart.db", "crashcart.db-wal", "key", "kimi.lock"} <= set(files)
    assert folders == {0o700}


def test_the_key_stays_the_same(state: Path) -> None:
    with Store.open(state) as first, Store.open(state) as second:
        assert first.key.hash(["a", "b"]) == second.key.hash(["a", "b"])


def test_another_folder_has_another_key(state: Path, tmp_path: Path) -> None:
    with Store.open(state) as one, Store.open(tmp_path / "other") as other:
        assert one.key.hash(["a"]) != other.key.hash(["a"])


def test_the_hash_sees_where_words_end(store: Store) -> None:
    assert store.key.hash(["a", "bc"]) != store.key.hash(["ab", "c"])


def test_a_key_that_was_cut_short_is_made_anew(state: Path) -> None:
    (state / "key").write_bytes(b"short")

    Store.open(state).close()

    assert len((state / "key").read_bytes()) == 32


def test_a_failed_write_leaves_nothing(store: Store) -> None:
    launch = store.begin_launch("kimi", ["serve"], Engine.SGLANG)
    with pytest.raises(IntegrityError):
        store.add_transition("kimi", "note", "told of an incident that is not there", incident_id=99, launch_id=launch)

    with sqlite3.connect(store.state / "crashcart.db") as raw:
        found = raw.execute("SELECT count(*) FROM transition WHERE kind = 'note'").fetchone()
    raw.close()
    assert found == (0,)


@pytest.mark.parametrize("content", [b"this is a text file, honestly" * 100, b"SQLite format 3\0" + b"\xff" * 8192])
def test_a_damaged_database_is_an_error_with_a_mend(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "crashcart.db").write_bytes(content)

    with pytest.raises(StoreError, match="is damaged") as raised:
        Store.open(tmp_path)

    assert "Move the file" in (raised.value.mend or "")


def test_pages_damaged_later_are_an_error_with_a_mend(state: Path) -> None:
    with sqlite3.connect(state / "crashcart.db") as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    database = state / "crashcart.db"
    content = database.read_bytes()
    database.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))

    with pytest.raises(StoreError, match="is damaged"), Store.open(state) as store:
        store.list_servers()


def test_a_folder_that_is_a_file_is_an_error_with_a_mend(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")

    with pytest.raises(StoreError, match="can't be used") as raised:
        Store.open(tmp_path / "state")

    assert "--state DIR" in (raised.value.mend or "")


_OPEN = textwrap.dedent(
    """
    import os, sys
    from app.core.errors import StoreError
    from app.store.store import Store
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    try:
        with Store.open(__import__("pathlib").Path(sys.argv[1])) as store:
            store.begin_launch("kimi", ["serve"], None)
    except StoreError as error:
        print(error, "|", error.mend)
    """
)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can put a user without rights to the test")
@pytest.mark.parametrize("folder_mode", [0o700, 0o555])
def test_a_user_without_rights_gets_an_error_with_a_mend(state: Path, folder_mode: int) -> None:
    for parent in state.parents:
        if parent.name.startswith("pytest-") or parent.parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    for path in state.iterdir():
        path.chmod(0o444)
    state.chmod(folder_mode)

    done = subprocess.run([sys.executable, "-c", _OPEN, str(state)], capture_output=True, text=True, check=False)

    assert "can't be" in done.stdout, done.stderr
    assert "--state DIR" in done.stdout


def test_a_full_disk_is_an_error_with_a_mend(store: Store) -> None:
    store.begin_launch("kimi", ["serve"], Engine.SGLANG)
    with store._engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StoreError, match="disk is full") as raised:
        store.add_transition("kimi", "note", "all that was said " * 50_000)

    assert "Free some space" in (raised.value.mend or "")


def test_what_was_written_before_the_disk_was_full_is_there(store: Store) -> None:
    store.begin_launch("kimi", ["serve"], Engine.SGLANG)
    with store._engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="disk is full"):
        store.set_state("kimi", ServerState.LOADING, "x" * 1_000_000)

    server = store.get_server("kimi")

    assert server is not None
    assert server.state is ServerState.STARTING


_WRITE = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from app.store.store import Store
    with Store.open(Path(sys.argv[1])) as store:
        store.begin_launch(sys.argv[2], ["serve"], None)
        for number in range(100):
            store.add_transition(sys.argv[2], "note", str(number))
    """
)


def test_several_processes_write_at_once_and_lose_nothing(tmp_path: Path) -> None:
    """They also meet while the folder is new: one migrates, all get the same key."""
    state = tmp_path / "state"
    writers = [subprocess.Popen([sys.executable, "-c", _WRITE, str(state), f"server-{number}"]) for number in range(4)]

    assert [writer.wait(timeout=50) for writer in writers] == [0, 0, 0, 0]
    with sqlite3.connect(state / "crashcart.db") as raw:
        found = raw.execute("SELECT server, count(*) FROM transition WHERE kind = 'note' GROUP BY server").fetchall()
    raw.close()
    assert found == [(f"server-{number}", 100) for number in range(4)]


@pytest.mark.parametrize(
    "statement", ["UPDATE audit SET actor = 'nobody'", "DELETE FROM audit", "UPDATE transition SET text = 'all well'"]
)
def test_history_can_not_be_rewritten(store: Store, statement: str) -> None:
    store.begin_launch("kimi", ["serve"], Engine.SGLANG)
    store.add_transition("kimi", "note", "something happened")
    with sqlite3.connect(store.state / "crashcart.db") as raw:
        raw.execute("INSERT INTO audit (at, actor, action, text) VALUES ('2026-01-01', 'me', 'approve', '')")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw.execute(statement)
    raw.close()
