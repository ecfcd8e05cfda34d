"""Several launches in one log: the digest tells of the last one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.model import LogDigest
from app.logs.digest import digest_file
from app.logs.patterns import PatternSet

Digest = Callable[..., LogDigest]

BANNER, ARGUMENTS, LOADING = "^server version ", "^arguments: ", "^loading$"
CRASH = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\nValueError: no\n'
REFUSED = "usage: srv [-h]\nsrv: error: unrecognized arguments: --foo\n"


def spans(digest: LogDigest) -> list[tuple[int, int]]:
    return [(span.first, span.last) for span in digest.earlier]


def test_the_lines_that_begin_one_launch_stay_together(digest: Digest) -> None:
    found = digest("server version 1\narguments: x\nloading\n", [LOADING], [BANNER, ARGUMENTS])
    assert (spans(found), found.hits[LOADING].total) == ([], 1)


def test_the_same_beginning_again_is_another_launch(digest: Digest) -> None:
    log = "server version 1\nloading\n" + CRASH + "server version 1\narguments: y\nloading\n"
    found = digest(log, [LOADING], [BANNER, ARGUMENTS])
    assert (spans(found), found.events, found.hits[LOADING].total) == ([(1, 6)], (), 1)
    assert [line.number for line in found.head] == [7, 8, 9]
    assert [line.number for line in found.tail] == [7, 8, 9]


@pytest.mark.parametrize("death", [CRASH, REFUSED])
def test_a_beginning_behind_a_death_is_another_launch(digest: Digest, death: str) -> None:
    found = digest(death + "server version 1\nloading\n", [LOADING], [BANNER])
    assert (len(spans(found)), found.events) == (1, ())


@pytest.mark.parametrize("second", [REFUSED, CRASH])
def test_refused_arguments_end_a_launch_though_nothing_begins_the_next(digest: Digest, second: str) -> None:
    found = digest(REFUSED + "srv exited with code 2\n" + second, [LOADING], [BANNER])
    assert spans(found) == [(1, 3)]
    assert [event.first.number for event in found.events] == [4]


SERVER_REFUSED = "usage: launch_server.py [-h]\n  [--foo]\nlaunch_server.py: error: unrecognized arguments: --bar\n"


@pytest.mark.parametrize(
    "program", ["launch_server.py", "vllm serve", "api_server.py", "python -m sglang.launch_server"]
)
def test_arguments_refused_after_others_were_taken_are_those_of_another_launch(digest: Digest, program: str) -> None:
    log = "arguments: x\nloading\n" + SERVER_REFUSED.replace("launch_server.py", program)
    found = digest(log, [LOADING], [ARGUMENTS])
    assert (spans(found), found.hits) == ([(1, 4)], {})
    assert [(event.kind, event.first.number, event.last.number) for event in found.events] == [("usage", 3, 5)]


def test_a_helper_program_that_refuses_its_arguments_begins_no_launch(digest: Digest) -> None:
    found = digest("arguments: x\nloading\n" + REFUSED, [LOADING], [ARGUMENTS])
    assert (spans(found), found.hits[LOADING].total) == ([], 1)


def test_a_usage_that_was_asked_for_begins_no_launch(digest: Digest) -> None:
    log = "arguments: x\nloading\n" + SERVER_REFUSED.rpartition("launch")[0]
    assert spans(digest(log, [LOADING], [ARGUMENTS])) == []


def test_what_follows_refused_arguments_belongs_to_them(digest: Digest) -> None:
    found = digest(REFUSED + "srv exited with code 2\n", [], [BANNER])
    assert [event.kind for event in found.events] == ["usage", "error"]


def test_a_traceback_that_a_live_program_logged_ends_no_launch(digest: Digest) -> None:
    logged = CRASH.replace("Traceback", "[2026-01-12 10:00:00] import failed: Traceback", 1)
    found = digest("server version 1\n" + logged + "arguments: x\n", [], [BANNER, ARGUMENTS])
    assert (spans(found), len(found.events)) == ([], 1)


def test_servers_that_share_a_log_do_not_end_each_other(digest: Digest) -> None:
    found = digest("a-1  | server version 1\nb-1  | server version 1\n", [], [BANNER])
    assert spans(found) == []


def test_the_same_container_with_another_process_begins_anew(digest: Digest) -> None:
    found = digest("(API pid=1) server version 1\n(API pid=2) server version 1\n", [], [BANNER])
    assert spans(found) == [(1, 1)]


def test_a_crash_loop_of_thousands_stays_bounded(digest: Digest) -> None:
    found = digest("server version 1\nloading\n" * 5000, [LOADING], [BANNER])
    assert (len(found.earlier), found.earlier[0].first, found.earlier[-1].last) == (200, 1, 9998)


def test_an_export_with_the_newest_line_first_is_turned_round(tmp_path: Path) -> None:
    lines = ["server version 1", "loading", *CRASH.splitlines(), "server version 1", "loading", *CRASH.splitlines()]
    stamped = [f"2026-01-12T10:00:{second:02}.5Z {line}" for second, line in enumerate(lines)]
    path = tmp_path / "export.log"
    path.write_text("\n".join(reversed(stamped)) + "\n")

    found = digest_file(path, PatternSet([LOADING], [BANNER]))

    assert (found.newest_first, found.lines, spans(found)) == (True, 12, [(7, 12)])
    (event,) = found.events
    assert (event.first.number, event.last.number, event.chain[0].message) == (4, 1, "no")
    assert [hit.line.number for hit in found.hits[LOADING].kept] == [5]


def test_a_log_in_order_is_not_turned_round(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("".join(f"2026-01-12T10:00:{n % 60:02}Z loading\n" for n in range(120)))
    found = digest_file(path, PatternSet([LOADING]))
    assert (found.newest_first, found.hits[LOADING].total) == (False, 120)
