"""The digest depends on the bytes of a log, not on how they arrive or what wraps them."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import UsageError
from app.core.model import LogDigest
from app.logs.digest import LogDigester, digest_file, digest_stream
from app.logs.patterns import PatternSet
from app.logs.reader import LONG

Digest = Callable[..., LogDigest]

PATTERNS = PatternSet(
    [r"(?P<percent>\d+)% Completed", r"^ValueError: (?P<what>.+)$", r"rank(?=s)", "needle", r"^Grüße"],
    [r"^server_args=", r"^banner$"],
)
PIECES = (
    "[2026-01-12 10:00:00] server_args=x",
    "banner",
    "[2026-01-12 10:00:00 TP1] hit an exception: Traceback (most recent call last):",
    "Traceback (most recent call last):",
    '  File "/a/b.py", line 12, in run',
    "    run(x)",
    "    ^^^^^^",
    "ValueError: bad",
    "During handling of the above exception, another exception occurred:",
    "",
    "Loading shards:  33% Completed | 1/3\rLoading shards:  66% Completed | 2/3",
    "\rdone",
    "usage: srv [-h]",
    "           [--foo FOO]",
    "srv: error: unrecognized arguments: --bar",
    "\x1b[31mred\x1b[0m needle \x1b]0;title\x07",
    "Grüße 漢字",
    "(Worker_TP0 pid=7) ERROR 11-30 20:54:23 [x.py:1] ranks failed",
    "terminate called after throwing an instance of 'X'",
    "plain words",
)
LOG = st.lists(
    st.tuples(st.sampled_from(PIECES), st.sampled_from(["\n", "\n", "\r\n", "\r\r\n", "\r"])).map("".join), max_size=40
).map(lambda lines: "".join(lines).encode())


def digest_of(chunks: Iterable[bytes]) -> LogDigest:
    digester = LogDigester(PATTERNS)
    for chunk in chunks:
        digester.feed(chunk)
    digester.close()
    return digester.digest()


def told(digest: LogDigest) -> object:
    """What a digest says, without the prefixes."""
    return (
        digest.lines,
        {
            pattern: [(hit.line.number, hit.line.body, hit.groups) for hit in hits.kept]
            for pattern, hits in digest.hits.items()
        },
        [(event.kind, [(line.number, line.body) for line in event.lines]) for event in digest.events],
        digest.earlier,
        [line.body for line in (*digest.head, *digest.tail)],
    )


@settings(max_examples=150, deadline=None)
@given(LOG, st.data())
def test_any_cutting_of_the_bytes_gives_the_same_digest(log: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(log)), max_size=12)))
    chunks = [log[start:end] for start, end in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    whole = digest_of([log])
    assert digest_of(chunks) == whole
    assert digest_of(log[at : at + 1] for at in range(len(log))) == whole


WRAPPERS = {
    "carriage returns": lambda line: line + b"\r",
    "colours": lambda line: b"\x1b[36m" + line + b"\x1b[0m",
    "compose": lambda line: b"srv-1  | " + line,
    "CRI": lambda line: b"2026-01-12T10:00:00.1Z stderr F " + line,
    "journald": lambda line: b"Jan 12 10:00:00 host srv[12]: " + line,
    "Ray": lambda line: b"(RayWorkerWrapper pid=12, ip=1.2.3.4) " + line,
    "two at once": lambda line: b"2026-01-12T10:00:00.1Z stdout F srv-1  | " + line,
}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([piece for piece in PIECES if "\r" not in piece]), max_size=30))
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_wraps_a_log_does_not_change_what_it_tells(wrapper: str, lines: list[str]) -> None:
    raw = [line.encode() for line in lines]
    wrapped = [WRAPPERS[wrapper](line) for line in raw]
    assert told(digest_of([b"".join(line + b"\n" for line in wrapped)])) == told(
        digest_of([b"".join(line + b"\n" for line in raw)])
    )


@settings(max_examples=60, deadline=None)
@given(LOG)
def test_lines_are_counted_as_editors_do(log: bytes) -> None:
    assert digest_of([log]).lines == log.count(b"\n") + (bool(log) and not log.endswith(b"\n"))


def test_states_of_a_progress_bar_are_hits_of_one_line(digest: Digest) -> None:
    found = digest(b"start\nbar: 33% Completed\rbar: 66% Completed\r\nend\n", [r"(?P<percent>\d+)% Completed"])
    (hits,) = found.hits.values()
    assert [(hit.line.number, hit.line.text, hit.groups["percent"]) for hit in hits.kept] == [
        (2, "bar: 33% Completed", "33"),
        (2, "bar: 66% Completed", "66"),
    ]
    assert [line.number for line in found.tail] == [1, 2, 2, 3]


def test_a_log_that_stops_inside_a_progress_bar_is_seen_to_its_end(digest: Digest) -> None:
    found = digest(b"bar: 33%\rbar: 67%", [r"(?P<percent>\d+)%"])
    assert ([hit.groups["percent"] for hit in found.hits[r"(?P<percent>\d+)%"].kept], found.lines) == (["33", "67"], 1)


def test_a_half_line_is_looked_at_only_when_the_log_ends() -> None:
    digester = LogDigester(PATTERNS)
    digester.feed(b"hay\nnee")
    digester.feed(b"dle")
    before = digester.digest()
    digester.close()
    assert ("needle" in before.hits, before.lines) == (False, 1)
    assert (digester.digest().hits["needle"].total, digester.digest().lines) == (1, 2)


def test_a_digest_taken_on_the_way_changes_nothing() -> None:
    log = "".join(f"{piece}\n" for piece in PIECES).encode()
    digester = LogDigester(PATTERNS)
    for at in range(len(log)):
        digester.feed(log[at : at + 1])
        if at % 7 == 0:
            digester.digest()
    digester.close()
    assert digester.digest() == digest_of([log])


def test_a_digest_on_the_way_has_the_event_that_is_still_open() -> None:
    digester = LogDigester(PATTERNS)
    digester.feed(b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\nValueError: bad\n')
    (event,) = digester.digest().events
    assert (event.chain[0].message, event.truncated) == ("bad", False)


def test_invalid_bytes_are_shown_replaced(digest: Digest) -> None:
    (hits,) = digest(b"needle \xff\xfe\n", ["needle"]).hits.values()
    assert hits.kept[0].line.text == "needle ��"


def test_a_file_of_two_byte_characters_is_read(digest: Digest) -> None:
    found = digest("ValueError: bad\r\n".encode("utf-16-le"), ["^ValueError: (?P<what>.*)$"])
    assert found.hits["^ValueError: (?P<what>.*)$"].kept[0].groups == {"what": "bad"}


@pytest.mark.parametrize("at", [0, 70_000, LONG - 3, LONG * 3 + 17, 10_000_000])
def test_a_line_of_ten_megabytes_is_scanned_whole_and_kept_short(at: int, digest: Digest) -> None:
    line = b"x" * at + b"needle" + b"y" * (10_000_100 - at)
    found = digest(b"before\n" + line + b"\nafter needle\n", ["needle"])
    hits = found.hits["needle"]
    assert ([hit.line.number for hit in hits.kept], found.lines) == ([2, 3], 3)
    assert len(hits.kept[0].line.text) < 66_000
    assert "characters cut" in hits.kept[0].line.text


def test_an_anchored_pattern_holds_at_the_beginning_of_a_long_line_only(digest: Digest) -> None:
    filler = b"x" * (3 * LONG)
    found = digest(b"needle" + filler + b"\n" + filler + b"needle" + filler + b"\n", ["^needle", "needle"])
    assert [found.hits[pattern].total for pattern in ("^needle", "needle")] == [1, 2]


@settings(max_examples=15, deadline=None)
@given(st.integers(-3, 3), st.integers(2_000, 200_000), st.sampled_from(["\n", "\r\n", "\r"]))
def test_a_long_line_may_be_cut_anywhere(near: int, size: int, end: str) -> None:
    log = b"a" * (LONG + near) + end.encode() + b"needle\n" + b"b" * (2 * LONG + near) + b"needle"
    assert digest_of(log[at : at + size] for at in range(0, len(log), size)) == digest_of([log])


def test_hits_beyond_their_bound_leave_the_first_and_the_last(digest: Digest) -> None:
    hits = digest("".join(f"needle {n}\n" for n in range(1000)), ["needle"]).hits["needle"]
    numbers = [hit.line.number for hit in hits.kept]
    assert (hits.total, len(numbers), numbers[0], numbers[49], numbers[50], numbers[-1]) == (
        1000,
        100,
        1,
        50,
        951,
        1000,
    )


def test_memory_stays_bounded_over_a_long_stream() -> None:
    healthy = "".join(f"[2026-01-12 10:00:00 TP{n % 8}] Decode batch. #running-req: {n}\n" for n in range(40_000))
    block = (healthy + "".join(f"{piece}\n" for piece in PIECES) + "\rbar: 5% Completed" * 50).encode()
    digester = LogDigester(PATTERNS)
    digester.feed(block)
    tracemalloc.start()
    try:
        for _ in range(50_000_000 // len(block)):
            digester.feed(block)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12_000_000


def test_a_file_and_a_stream_without_readinto_give_the_same(tmp_path: Path) -> None:
    log = "".join(f"{piece}\n" for piece in PIECES).encode() * 300
    path = tmp_path / "server.log"
    path.write_bytes(log)

    class Piped(io.RawIOBase):
        """A source that gives little at a time."""

        def __init__(self) -> None:
            self._rest = io.BytesIO(log)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            return self._rest.readinto(memoryview(buffer)[:1000])

    assert digest_file(path, PATTERNS) == digest_stream(Piped(), PATTERNS)  # type: ignore[arg-type]


def test_a_file_that_is_not_there_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.log can't be read: No such file") as caught:
        digest_file(tmp_path / "nowhere.log", PATTERNS)
    assert caught.value.mend is not None


def test_an_empty_log_says_nothing(digest: Digest) -> None:
    assert digest("") == LogDigest()
