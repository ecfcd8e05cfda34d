"""Both scanners find the same lines."""

from __future__ import annotations

import threading
from functools import cache

import hyperscan
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import RuleError
from app.core.model import LogDigest
from app.logs import patterns as patterns_module
from app.logs import scanner
from app.logs.confirm import STRIKES
from app.logs.digest import LogDigester
from app.logs.patterns import PatternSet
from app.logs.scanner import HyperscanScanner, RegexScanner, make_scanner

ODD = (
    r"^ValueError: (?P<what>.+)$",
    r"(?<=TP)(?P<rank>\d)",
    r"(?P<word>\w+) (?P=word)",
    r"out of memory(?! handler)",
    r"(?i)KILLED",
    r"^$",
    r".*",
    r"(?P<tail>\S+)$",
    r"é+[^a-z]*漢",
    r"^.{1,5000}x",
    r"(?:a|ab)*+c",
    r"\d{3,}$",
)
ALL_ODD = PatternSet(ODD)
WORDS = (
    "ValueError: bad",
    "[2026-01-12 10:00:00 TP3] ",
    "again again",
    "out of memory",
    "out of memory handler",
    "killed",
    "éé 漢",
    "ababc",
    "12345",
    "x",
    "",
    " ",
)
LINE = st.lists(st.sampled_from(WORDS), max_size=4).map("".join)
LOG = st.lists(LINE, max_size=12).map(lambda lines: "".join(f"{line}\n" for line in lines).encode())


@cache
def odd_patterns(made: type) -> PatternSet:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns_module, "make_scanner", made)
        patterns = PatternSet(ODD, boundaries=[r"^12345$"])
        assert isinstance(patterns.scanner, made)
    return patterns


def digest_with(made: type, log: bytes) -> LogDigest:
    digester = LogDigester(odd_patterns(made))
    digester.feed(log)
    digester.close()
    return digester.digest()


@settings(max_examples=60, deadline=None)
@given(LOG)
def test_hyperscan_and_plain_regexes_give_the_same_digest(log: bytes) -> None:
    assert digest_with(HyperscanScanner, log) == digest_with(RegexScanner, log)


@settings(max_examples=60, deadline=None)
@given(LOG)
def test_the_hits_are_those_of_the_patterns_on_each_body(log: bytes) -> None:
    digester = LogDigester(ALL_ODD)
    digester.feed(log)
    digester.close()
    hits = digester.digest().hits
    bodies = [line.removeprefix("[2026-01-12 10:00:00 TP3] ") for line in log.decode().split("\n")[:-1]]
    for pattern in ODD:
        expected = [number for number, body in enumerate(bodies, 1) if regex.search(pattern, body)]
        assert [hit.line.number for hit in hits[pattern].kept] == expected if expected else pattern not in hits


def test_a_machine_without_hyperscan_gets_the_plain_scanner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "hyperscan", None)
    assert isinstance(make_scanner([(0, "a")]), RegexScanner)


@pytest.mark.parametrize("made", [HyperscanScanner, RegexScanner])
def test_a_form_that_does_not_compile_spoils_no_other(made: type) -> None:
    found = made([(0, "good"), (1, "(bad")])
    assert found.refused == (1,)
    assert found.scan(b"a good line\n") == [(6, 0)]


def test_threads_share_one_compiled_set() -> None:
    patterns = PatternSet(["needle"])
    failures: list[hyperscan.error] = []

    def scan() -> None:
        try:
            for _ in range(200):
                patterns.scanner.scan(b"hay needle hay\n" * 500)
        except hyperscan.error as error:
            failures.append(error)

    threads = [threading.Thread(target=scan) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_pattern_that_takes_too_long_is_suspended_and_reported() -> None:
    slow = r"^(?:a|aa)+(?=x)!c$"
    digester = LogDigester(PatternSet([slow, "^a"]))
    digester.feed((b"a" * 60 + b"!c\n") * 6)
    digester.close()
    digest = digester.digest()
    assert digest.suspended == (slow,)
    assert digest.timeouts == {slow: STRIKES}
    assert digest.hits["^a"].total == 6


def test_a_pattern_that_is_no_regex_is_told_with_its_text() -> None:
    with pytest.raises(RuleError, match=r"\(unclosed"):
        LogDigester(PatternSet(["(unclosed"]))


@pytest.mark.parametrize(
    "block",
    [b"needle", b"first\nneedle", b"first\nneedle\n" + b"x" * 9000 + b"\n", b"needle\n" + b"x" * 200_000],
    ids=["no line end", "last line without end", "long line behind short ones", "long line without end"],
)
def test_a_block_that_cannot_be_cut_evenly_is_searched_to_its_end(block: bytes) -> None:
    assert HyperscanScanner([(0, "needle")]).scan(block) == [(block.index(b"needle") + 6, 0)]
