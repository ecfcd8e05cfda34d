from __future__ import annotations

import itertools
import os
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.core.errors import NotFoundError
from app.core.vocabulary import Engine, IncidentStatus
from app.service.config import RetentionConfig
from app.service.retention import Swept, sweep
from app.store.store import Store
from tests.conftest import Dying

LATER = datetime.now(UTC) + timedelta(days=100)
KEEP = RetentionConfig(days=90)


SERVERS = itertools.count()


def over(store: Store, dies: Dying, fingerprint: str = "fp-1") -> int:
    """An incident that is over, with evidence, on a server of its own that has been launched again since."""
    server = f"server-{next(SERVERS)}"
    _, incident = dies(fingerprint=fingerprint, server=server)
    store.resolve(incident, "it stayed ready for 60 s")
    (store.evidence_folder(incident) / "log").write_text("evidence")
    store.begin_launch(server, ("serve",), Engine.SGLANG)
    return incident


def rows(store: Store, table: str) -> int:
    with closing(sqlite3.connect(store.state / "crashcart.db")) as raw:
        count: int = raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return count


def test_an_old_resolved_incident_goes_with_its_evidence(store: Store, dies: Dying) -> None:
    old, _ = over(store, dies), over(store, dies)
    swept = sweep(store, KEEP, LATER)
    assert swept.incidents == 1
    assert not (store.state / "incidents" / str(old)).exists()
    with pytest.raises(NotFoundError):
        store.incident(old)


def test_nothing_of_it_is_left_in_any_table(store: Store, dies: Dying) -> None:
    over(store, dies)
    kept = over(store, dies)
    sweep(store, KEEP, LATER)
    left = {table: rows(store, table) for table in ("incident", "diagnosis", "proposal", "attempt", "alert")}
    assert left == {"incident": 1, "diagnosis": 1, "proposal": 0, "attempt": 0, "alert": 0}
    assert store.incident(kept).status is IncidentStatus.RESOLVED


def test_the_newest_incident_of_a_fingerprint_stays(store: Store, dies: Dying) -> None:
    rare, common, newest = over(store, dies, "fp-rare"), over(store, dies), over(store, dies)
    sweep(store, KEEP, LATER)
    assert [one.id for one in store.incidents()] == [newest, rare]
    assert common not in [one.id for one in store.incidents()]


def test_an_incident_that_is_not_over_stays(store: Store, dies: Dying) -> None:
    _, still = dies(fingerprint="fp-1")
    dies(fingerprint="fp-1", server="other")
    assert sweep(store, KEEP, LATER).incidents == 0
    assert store.incident(still).id == still


def test_a_young_incident_stays(store: Store, dies: Dying) -> None:
    over(store, dies), over(store, dies)
    assert sweep(store, KEEP, datetime.now(UTC) + timedelta(days=89)) == Swept()


def test_a_folder_that_grew_too_large_loses_its_oldest_first(store: Store, dies: Dying) -> None:
    oldest, middle, newest = (over(store, dies) for _ in range(3))
    for incident in (oldest, middle, newest):
        (store.evidence_folder(incident) / "log").write_bytes(b"\0" * (4 << 20))
    swept = sweep(store, RetentionConfig(days=90, max_gib=10 / 1024), datetime.now(UTC))
    assert (swept.incidents, swept.too_large) == (1, False)
    assert [one.id for one in store.incidents()] == [newest, middle]


def test_what_may_not_go_makes_the_folder_too_large(store: Store, dies: Dying) -> None:
    incident = over(store, dies)
    (store.evidence_folder(incident) / "log").write_bytes(b"\0" * (4 << 20))
    assert sweep(store, RetentionConfig(days=90, max_gib=1 / 1024), datetime.now(UTC)).too_large


def with_room(store: Store, mib: int) -> None:
    """Leaves that much room in the database file, as many deletions would."""
    with closing(sqlite3.connect(store.state / "crashcart.db")) as raw:
        raw.execute("CREATE TABLE ballast (held BLOB)")
        raw.execute("INSERT INTO ballast VALUES (zeroblob(?))", (mib << 20,))
        raw.commit()
        raw.execute("DROP TABLE ballast")
        raw.commit()
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_room_in_the_database_goes_back_to_the_disk(store: Store) -> None:
    with_room(store, 70)
    before = (store.state / "crashcart.db").stat().st_size >> 20
    sweep(store, KEEP)
    after = (store.state / "crashcart.db").stat().st_size >> 20
    assert (before >= 70, after) == (True, 0)


def test_room_in_the_database_costs_no_incident(store: Store, dies: Dying) -> None:
    oldest, newest = over(store, dies), over(store, dies)
    with_room(store, 20)
    swept = sweep(store, RetentionConfig(days=90, max_gib=10 / 1024), datetime.now(UTC))
    assert (swept.incidents, swept.too_large) == (0, False)
    assert [one.id for one in store.incidents()] == [newest, oldest]


def test_evidence_without_an_incident_goes_once_it_is_settled(store: Store) -> None:
    orphan = store.state / "incidents" / "4711"
    orphan.mkdir(parents=True)
    assert sweep(store, KEEP).folders == 0
    os.utime(orphan, (time.time() - 7200, time.time() - 7200))
    assert sweep(store, KEEP).folders == 1
    assert not orphan.exists()


def test_history_of_healthy_launches_goes_but_not_the_newest_launch(store: Store) -> None:
    for _ in range(3):
        store.settled(store.begin_launch("kimi", ("serve",), Engine.SGLANG), "ready")
    sweep(store, KEEP, LATER)
    assert (rows(store, "launch"), rows(store, "transition")) == (1, 0)


def test_what_was_decided_stays_in_the_audit_trail(store: Store, dies: Dying) -> None:
    over(store, dies), over(store, dies)
    before = rows(store, "audit")
    sweep(store, KEEP, LATER)
    assert rows(store, "audit") == before


def test_a_sweep_that_was_cut_short_goes_on(store: Store, dies: Dying, tmp_path: Path) -> None:
    old, _ = over(store, dies), over(store, dies)
    store.forget(old)  # and then it was killed: the evidence is still there
    evidence = store.state / "incidents" / str(old)
    os.utime(evidence, (time.time() - 7200, time.time() - 7200))
    assert evidence.exists()
    assert sweep(store, KEEP).folders == 1
