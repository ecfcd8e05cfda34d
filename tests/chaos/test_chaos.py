"""Every fault of the scenarios, one test each; `make chaos` plays the same ones and prints a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.play import detected, extra, good, play, row, sums
from tests.chaos.scenarios import SCENARIOS, Scenario, came
from tests.chaos.stage import Result

_CASES = [pytest.param(one, id=one.name, marks=() if one.short else (pytest.mark.slow,)) for one in SCENARIOS]


@pytest.mark.parametrize("scenario", _CASES)
def test_a_fault_ends_as_it_must(scenario: Scenario, tmp_path: Path) -> None:
    # How soon is for the table of `make chaos`, on a machine of its own: here it is asked what comes of it.
    scenario = replace(scenario, seconds=4 * scenario.seconds)
    result = play(scenario, tmp_path)

    assert good(scenario, result), f"{row(scenario, result)}\n{result.said}"


# -- the suite itself: what it must not let pass

KILLED = Scenario("killed", "a kill", came("ready", "killed-by-signal", "restarted", 2), 9.0)


def as_expected(**other: object) -> Result:
    return Result(**{"seen": KILLED.expected, "seconds": 1.0, **other})  # type: ignore[arg-type]


def test_a_result_as_expected_is_good() -> None:
    assert good(KILLED, as_expected())


@pytest.mark.parametrize(
    "result",
    [
        as_expected(seconds=9.1),
        as_expected(wrong=["--port 1 --other"]),
        as_expected(doubled=1),
        as_expected(orphans=["7 of 1"]),
        as_expected(trouble=["Crashcart did not end"]),
        as_expected(seen=came("ready", "killed-by-signal", "restarted", 3)),
    ],
    ids=["late", "wrong command", "two servers at once", "orphan", "trouble", "one start too many"],
)
def test_a_result_with_a_fault_is_not_good(result: Result) -> None:
    assert not good(KILLED, result)


def test_the_sums_count_what_went_wrong() -> None:
    bad = as_expected(seen=came("ready", "-", "restarted", 3), doubled=2, orphans=["7 of 1"])

    assert sums([(KILLED, as_expected()), (KILLED, bad)]) == (
        "2 scenarios, 1 as expected; detected 1 of 2 (50 %); "
        "wrong relaunches 1, doubled relaunches 1, orphan processes 1"
    )


def test_another_verdict_is_not_detected() -> None:
    assert not detected(KILLED, as_expected(seen=came("ready", "unknown", "restarted", 2)))


def test_a_start_too_many_is_extra() -> None:
    assert extra(KILLED, as_expected(seen=came("ready", "killed-by-signal", "restarted", 3))) == 1


def test_names_are_unique_and_forty_or_more() -> None:
    names = [one.name for one in SCENARIOS]

    assert len(names) == len(set(names))
    assert len(names) >= 40
