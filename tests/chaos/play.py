"""Plays scenarios, and `make chaos`: all of them, with a table and its sums."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil

from app.core.errors import CrashcartError
from tests.chaos.scenarios import SCENARIOS, Scenario
from tests.chaos.stage import Result, Seen, Stage

_POLL = 0.1
_FAULTS = ("crash", "hang", "half-dead", "stall")
_NOTHING = Seen("-", "-", "none", 0)


def play(scenario: Scenario, folder: Path) -> Result:
    """Plays one scenario to its end; nothing of it is left afterwards."""
    env = {**scenario.env, "CHAOS": scenario.chaos, "CHAOS_TIMES": str(scenario.times)}
    stage = Stage(
        folder,
        env=env,
        mode=scenario.mode,
        flags=scenario.flags,
        server=scenario.server,
        options=scenario.options,
        serve=scenario.serve,
    )
    began = time.monotonic()
    seen = _NOTHING
    try:
        stage.start()
        try:
            for step in scenario.steps:
                step(stage)
            seen = _awaited(stage, scenario, began + scenario.seconds)
        except (AssertionError, CrashcartError, httpx.HTTPError, psutil.Error, OSError) as error:
            stage.trouble.append((str(error) or type(error).__name__).splitlines()[0])
            seen = stage.seen(scenario.expected.verdict)
        seconds = time.monotonic() - began
        if seen == scenario.expected:
            stage.calm()
            seen = stage.seen(scenario.expected.verdict)
        wrong = stage.wrong(scenario.changes)
        orphans = stage.end()
    finally:
        stage.clear_away()
    return Result(seen, seconds, wrong, stage.doubled, orphans, stage.trouble, stage.tail())


def _awaited(stage: Stage, scenario: Scenario, deadline: float) -> Seen:
    while (seen := stage.seen(scenario.expected.verdict)) != scenario.expected and time.monotonic() < deadline:
        stage.look()
        time.sleep(_POLL)
    return seen


def good(scenario: Scenario, result: Result) -> bool:
    """Whether all came as it must."""
    clean = not (result.wrong or result.doubled or result.orphans or result.trouble)
    return clean and result.seen == scenario.expected and result.seconds <= scenario.seconds


def detected(scenario: Scenario, result: Result) -> bool:
    """Whether the fault was seen for what it is, whatever was done about it."""
    return result.seen.verdict == (scenario.expected.verdict or result.seen.verdict)


def row(scenario: Scenario, result: Result) -> str:
    """One line of the table."""
    more = [*result.wrong, *(f"orphan {one}" for one in result.orphans), *result.trouble]
    more += [f"{result.doubled} times two servers"] if result.doubled else []
    expected = str(scenario.expected)
    seen = "as expected" if result.seen == scenario.expected else str(result.seen)
    told = "ok" if good(scenario, result) else f"NO  {'; '.join(more)}"
    return f"{scenario.name:33} {scenario.injected:60} {expected:55} {seen:45} {result.seconds:5.1f}  {told}"


def sums(played: Sequence[tuple[Scenario, Result]]) -> str:
    """What the table comes to."""
    faults = [(one, result) for one, result in played if one.kind in _FAULTS]
    found = sum(detected(one, result) for one, result in faults)
    results = [result for _, result in played]
    return (
        f"{len(played)} scenarios, {sum(good(*pair) for pair in played)} as expected; "
        f"detected {found} of {len(faults)} ({100 * found / max(1, len(faults)):.0f} %); "
        f"wrong relaunches {sum(len(one.wrong) + max(0, extra(*pair)) for pair in played for one in [pair[1]])}, "
        f"doubled relaunches {sum(1 for one in results if one.doubled)}, "
        f"orphan processes {sum(len(one.orphans) for one in results)}"
    )


def extra(scenario: Scenario, result: Result) -> int:
    """Starts that nobody expected."""
    return result.seen.starts - scenario.expected.starts


def tell(line: str) -> None:
    """A line of the table, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Plays those whose name has one of the given words in it; all when none is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of names; all scenarios when none is given")
    parser.add_argument("--side-by-side", type=int, default=2, help="how many are played at the same time")
    parser.add_argument("--verbose", action="store_true", help="what Crashcart said, where it is not as expected")
    args = parser.parse_args()
    chosen = [one for one in SCENARIOS if not args.words or any(word in one.name for word in args.words)]
    played = []
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(args.side_by_side) as pool:

        def one(scenario: Scenario) -> tuple[Scenario, Result]:
            folder = Path(place) / scenario.name
            folder.mkdir()
            return scenario, play(scenario, folder)

        tell(f"{'scenario':33} {'injected':60} {'expected':55} {'seen':45} {'s':>5}  ok")
        for scenario, result in pool.map(one, chosen):
            tell(row(scenario, result))
            if args.verbose and not good(scenario, result):
                tell(result.said)
            played.append((scenario, result))
    tell(sums(played))
    return 0 if all(good(*pair) for pair in played) else 1


if __name__ == "__main__":
    sys.exit(main())
