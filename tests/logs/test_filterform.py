"""A filter form holds wherever its pattern may hold."""

from __future__ import annotations

import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from app.logs.filterform import FilterError, filter_form

ATOMS = [
    "a", "b", "E", "é", "漢", ".", r"\d", r"\w", r"\s", r"\S", "[^a]", "[a-c]", "[^\\s\"]", r"\.", "[é-ü]", r"\W",
    "(?:ab|b.)", "(?P<x>a)", "(?=b)", "(?<!a)", "(?i:e)", r"\b", "(?>ab?)", "(?:)",
]  # fmt: skip
TIMES = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "+?", "*?", "{0,200}", "++"]
ATOM = st.tuples(st.sampled_from(ATOMS), st.sampled_from(TIMES)).map(
    lambda pair: pair[0] + (pair[1] if not pair[0].startswith(("(?=", "(?<", r"\b", "(?P", "(?:)")) else "")
)
PATTERN = st.builds(
    lambda start, atoms, end: start + "".join(dict.fromkeys(atoms)) + end,
    st.sampled_from(["", "^", "(?i)", r"\A"]),
    st.lists(ATOM, min_size=1, max_size=5).filter(lambda atoms: sum("(?P" in atom for atom in atoms) <= 1),
    st.sampled_from(["", "$", ".*$", r"\Z", "(?:a|b.*)"]),
)
BODY = st.text(st.sampled_from('abceE1 é漢.\t"x\u2028'), max_size=12)


@given(PATTERN, BODY)
def test_where_a_pattern_holds_its_filter_form_holds(pattern: str, body: str) -> None:
    try:
        form = filter_form(pattern)
    except FilterError:
        return
    if regex.search(pattern, body):
        line = f"some prefix: {body}\n".encode()
        assert re.search(form.encode(), line, re.MULTILINE), form


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        (r"^error: (?P<what>.+)$", r"error: (?:[\x00-\x09\x0b-\x7f\x80-\xff])"),
        (r"^.*Killed.*$", "Killed"),
        (r"^[ab]{2,200}: done", r"[a-b]{2,2}: done"),
        (r"took (?P<seconds>\d+)", r"took (?:[0-9\x80-\xff])"),
        (r"\bFATAL\b", "FATAL"),
        ("ends$", "ends$"),
    ],
)
def test_what_costs_time_is_cut_off_the_ends(pattern: str, form: str) -> None:
    assert filter_form(pattern) == form


def test_a_filter_form_never_runs_into_the_next_line() -> None:
    form = filter_form(r"(?s)begin[^x]*\s+end")
    assert re.search(form.encode(), b"begin\n end") is None


@pytest.mark.parametrize("pattern", [".*", "a?", "^$", "(?=a)", r"(?<name>a\p{L})", "(?:ab){e<=1}", "[[:alpha:]]"])
def test_a_pattern_without_a_useful_form_is_refused(pattern: str) -> None:
    with pytest.raises(FilterError):
        filter_form(pattern)
