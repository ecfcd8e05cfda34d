from __future__ import annotations

import stat
from collections.abc import Callable

import pytest

from app.core.errors import NotFoundError
from app.core.vocabulary import Category, IncidentStatus
from app.store.store import Store

Dying = Callable[..., tuple[int, int]]


@pytest.fixture
def three(dies: Dying, store: Store) -> list[int]:
    """Incidents of three servers; the first is resolved."""
    ids = [dies(server=server)[1] for server in ("a", "b", "c")]
    store.resolve(ids[0], "ready for 30 s")
    return ids


def test_incidents_come_newest_first(store: Store, three: list[int]) -> None:
    assert [view.id for view in store.incidents()] == three[::-1]


def test_incidents_are_found_by_status(store: Store, three: list[int]) -> None:
    assert [view.id for view in store.incidents(status=IncidentStatus.RESOLVED)] == [three[0]]


def test_incidents_are_found_by_server(store: Store, three: list[int]) -> None:
    assert [view.id for view in store.incidents(server="b")] == [three[1]]


def test_incidents_are_found_by_any_category_they_had(store: Store, dies: Dying) -> None:
    _, incident = dies(category=Category.UNKNOWN_ARGUMENT)
    dies(category=Category.PORT_IN_USE)

    assert [view.id for view in store.incidents(category=Category.UNKNOWN_ARGUMENT)] == [incident]
    assert store.incidents(category=Category.HANG) == ()


def test_incidents_come_in_pages(store: Store, three: list[int]) -> None:
    page = store.incidents(limit=2)

    assert [view.id for view in store.incidents(limit=2, before=page[-1].id)] == [three[0]]


def test_the_episode_of_a_server_is_found(store: Store, three: list[int]) -> None:
    assert store.unresolved_incident("a") is None
    episode = store.unresolved_incident("b")
    assert episode is not None
    assert (episode.id, len(episode.launches)) == (three[1], 1)


def test_resolving_twice_is_told_once(store: Store, three: list[int]) -> None:
    store.resolve(three[1], "by hand", by="ann")
    store.resolve(three[1], "by hand", by="ann")

    assert [line.kind for line in store.timeline(three[1])] == ["died", "resolved"]


def test_an_id_is_never_given_twice(store: Store, dies: Dying) -> None:
    _, incident = dies()
    with store.write() as session:
        for table in ("diagnosis", "transition", "launch", "incident"):
            session.connection().exec_driver_sql(f"DELETE FROM {table}")

    assert dies()[1] == incident + 1


def test_an_unknown_incident_is_an_error_with_a_mend(store: Store) -> None:
    with pytest.raises(NotFoundError, match="There is no incident 7") as raised:
        store.incident(7)

    assert raised.value.mend == "See `crashcart incidents list`."


def test_evidence_lies_in_a_private_folder_of_the_incident(store: Store) -> None:
    folder = store.evidence_folder(7)

    assert folder == store.state / "incidents" / "7"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
