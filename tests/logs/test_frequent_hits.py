"""Hits that come often are not looked at one by one: what is said of them must not tell."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.model import LogDigest
from app.logs.digest import Limits, LogDigester
from app.logs.patterns import PatternSet

PATTERNS = PatternSet(
    [r"^Decode batch (?P<n>\d+)", r"batch \d*[02468]$", r"^GET /(?P<path>\w+)", r"rare", r"^ready"], [r"^launch"]
)
FEW = Limits(hits_first=2, hits_last=3, counted=6, head=2, tail=4)
ALL = replace(FEW, counted=1_000_000)
LINES = st.sampled_from(
    [
        b"Decode batch 12",
        b"[2026-01-12 10:00:00 TP1] Decode batch 7, x",
        b"Decode batch none",
        b"GET /health",
        b"rare",
        b"ready",
        b"launch",
        b"launch rare",
        b"",
        b"\xef\xbb\xbfDecode batch 4",
        b"Decode batch 1\rDecode batch 2",
        b"Traceback (most recent call last):",
        b'  File "a.py", line 1, in f',
        b"ValueError: no",
        b"x" * 200,
    ]
)
RUNS = st.lists(st.tuples(LINES, st.integers(1, 12)), max_size=25)


def digest(data: bytes, limits: Limits, *sizes: int) -> LogDigest:
    digester = LogDigester(PATTERNS, limits=limits)
    at = 0
    for size in sizes:
        digester.feed(data[at : at + size])
        digester.digest()
        at += size
    digester.feed(data[at:])
    digester.close()
    return digester.digest()


@settings(max_examples=150, deadline=None)
@given(RUNS, st.lists(st.integers(1, 400), max_size=6))
def test_the_first_and_last_hits_are_those_of_looking_at_each_line(
    runs: list[tuple[bytes, int]], sizes: list[int]
) -> None:
    data = b"".join((line + b"\n") * times for line, times in runs)
    every = digest(data, ALL)
    few = digest(data, FEW, *sizes)
    assert few.hits == {name: replace(hits, total=min(hits.total, 6)) for name, hits in every.hits.items()}
    assert replace(few, hits={}) == replace(every, hits={})


def test_the_last_hits_are_found_far_behind_the_first_ones() -> None:
    data = b"".join(b"Decode batch %d\n" % number for number in range(400_000))
    hits = digest(data, FEW, *[65_536] * 80).hits[r"^Decode batch (?P<n>\d+)"]
    assert [hit.groups["n"] for hit in hits.kept] == ["0", "1", "399997", "399998", "399999"]
    assert [hit.line.number for hit in hits.kept] == [1, 2, 399_998, 399_999, 400_000]


def test_a_rare_hit_among_frequent_ones_keeps_its_place() -> None:
    data = b"Decode batch 1\n" * 50_000 + b"rare\n" + b"Decode batch 2\n" * 50_000
    hits = digest(data, FEW, *[30_000] * 40).hits
    assert [hit.line.number for hit in hits["rare"].kept] == [50_001]


def test_an_old_frequent_hit_is_found_behind_many_blocks_without_one() -> None:
    data = b"Decode batch 1\n" * 10 + b"Decode batch 9\n" + b"GET /x\n" * 300_000
    hits = digest(data, FEW, *[100_000] * 30).hits
    assert [hit.line.number for hit in hits[r"^Decode batch (?P<n>\d+)"].kept] == [1, 2, 9, 10, 11]
    assert hits[r"^GET /(?P<path>\w+)"].kept[-1].line.number == 300_011
