"""What followed logs say becomes the server's state and history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.core.model import Diagnosis, Progress
from app.core.vocabulary import Phase, ServerState
from app.store.positions import Began, Failed, Position, Reached
from app.store.reports import Told
from app.store.store import Store

Diagnosing = Callable[..., Diagnosis]


def at(name: str, launch: int | None = None) -> Position:
    return Position(Path(f"/var/log/{name}"), 1, 1, launch_id=launch)


def ready(store: Store, name: str) -> None:
    reached = Reached(ServerState.READY, "ready by its log", Progress(Phase.READY))
    store.take_in("box", [Began(), reached], at(name))


def state(store: Store) -> tuple[ServerState, str]:
    server = store.get_server("box")
    assert server is not None
    return server.state, server.evidence


def test_the_newest_failure_is_the_servers_state_whichever_of_its_logs_shows_it(
    store: Store, diagnosed: Diagnosing
) -> None:
    store.watch_server("box")
    first, _ = store.take_in("box", [Failed(diagnosed("one"), "one fails")], at("a.log"))
    store.take_in("box", [Failed(diagnosed("two"), "two fails")], at("b.log"))
    store.take_in("box", [Failed(diagnosed("one"), "one fails again")], at("a.log", first))
    assert state(store) == (ServerState.EXITED, "its log shows a failure: one fails again")


def test_a_failure_in_one_log_leaves_a_server_degraded_that_serves_by_another(
    store: Store, diagnosed: Diagnosing
) -> None:
    store.watch_server("box")
    other, _ = store.take_in("box", [Began()], at("b.log"))
    ready(store, "a.log")
    store.take_in("box", [Failed(diagnosed(), "it fails")], at("b.log", other))
    assert state(store)[0] is ServerState.DEGRADED


def test_a_report_that_joins_another_servers_incident_says_of_which_server_it_is(
    store: Store, diagnosed: Diagnosing
) -> None:
    one, _ = store.tell(Told("box", diagnosed()))
    two, new = store.tell(Told("crate", diagnosed(), by="ci"))
    assert (two, new) == (one, False)
    texts = [entry.text for entry in store.incident(one).timeline]
    assert texts[-1] == "reported by ci of crate: EAGLE needs --speculative-num-steps"
