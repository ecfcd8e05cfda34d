"""What a server runs without since a fix held, until a person takes it back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.core.model import Diagnosis, Exit, Fix
from app.core.vocabulary import Engine, Phase, Safety
from app.store.store import Store
from app.store.words import AttemptKind

Diagnosing = Callable[..., Diagnosis]
GIVEN = ["sglang", "serve", "--model-path", "m"]
SLOWER = Fix(set={"--disable-overlap-schedule": True})
SMALLER = Fix(set={"--context-length": "4096"})


def fails(store: Store, diagnosed: Diagnosing, command: list[str], attempt: int | None = None) -> int:
    launch = store.begin_launch("kimi", command, Engine.SGLANG, attempt_id=attempt)
    return store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosed())


def mended(store: Store, diagnosed: Diagnosing, *fixes: tuple[Fix, tuple[str, ...]]) -> int:
    """A failure that only the last of these fixes, on top of each other, put an end to."""
    with store.lock_server("kimi", engine=Engine.SGLANG, command=GIVEN):
        incident = fails(store, diagnosed, GIVEN)
        command = GIVEN
        for at, (fix, loses) in enumerate(fixes):
            words = [f"--{name.strip('-')}" for name in fix.set]
            values = [value for value in fix.set.values() if isinstance(value, str)]
            command = [*command, *words, *values]
            attempt = store.begin_attempt(
                incident, AttemptKind.RELAUNCH, command, fix=fix, rule="r", safety=Safety.DEGRADING, loses=loses
            )
            if at < len(fixes) - 1:
                fails(store, diagnosed, command, attempt)
        store.settled(store.begin_launch("kimi", command, Engine.SGLANG, attempt_id=attempt), "ready")
    return incident


def what(store: Store) -> list[str]:
    return [one.what for one in store.missing("kimi")]


def test_what_a_fix_that_held_has_cost_is_missing(store: Store, diagnosed: Diagnosing) -> None:
    incident = mended(store, diagnosed, (SLOWER, ("overlap-schedule",)))

    [missing] = store.missing("kimi")
    assert (missing.what, missing.incident_id, missing.acknowledged) == ("overlap-schedule", incident, False)


def test_a_fix_that_cost_nothing_leaves_nothing_missing(store: Store, diagnosed: Diagnosing) -> None:
    mended(store, diagnosed, (SLOWER, ()))

    assert what(store) == []


def test_what_an_earlier_change_cost_that_is_still_in_the_command_is_missing_too(
    store: Store, diagnosed: Diagnosing
) -> None:
    mended(store, diagnosed, (SMALLER, ("context-length",)), (SLOWER, ("overlap-schedule",)))

    assert what(store) == ["context-length", "overlap-schedule"]


def test_an_incident_that_is_acknowledged_says_so_of_what_is_missing(store: Store, diagnosed: Diagnosing) -> None:
    incident = mended(store, diagnosed, (SLOWER, ("overlap-schedule",)))
    store.amend(incident, "Ann", acknowledged=True)

    assert [one.acknowledged for one in store.missing("kimi")] == [True]


@pytest.mark.parametrize("times", [1, 2])
def test_given_back_nothing_is_missing(store: Store, diagnosed: Diagnosing, times: int) -> None:
    mended(store, diagnosed, (SLOWER, ("overlap-schedule",)))
    for _ in range(times):
        store.give_back("kimi", "Ann")

    assert what(store) == []
    server = store.get_server("kimi")
    assert server is not None
    assert server.last_good_command is None
