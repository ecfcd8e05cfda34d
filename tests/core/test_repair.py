"""What a wrong value was to say, where that shows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.repair import json_meant, means_the_default, number_meant


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("{'a': 1}", '{"a": 1}'),
        ("{'a': True, 'b': None, 'c': false}", '{"a": true, "b": null, "c": false}'),
        ('{"a": 1,}', '{"a": 1}'),
        ("{method:ngram,num_speculative_tokens:3}", '{"method": "ngram", "num_speculative_tokens": 3}'),
        ("{“a”: 1}", '{"a": 1}'),
        ("{'a': {'b': [1, 2.5, 'x']}}", '{"a": {"b": [1, 2.5, "x"]}}'),
        ('{"path": "True, it\'s null"}', None),
        ("image=4,video=1", '{"image": 4, "video": 1}'),
        ('{"a": 1}', None),
        ('{"a": 1', None),
        ("nothing", None),
        ("__import__('os').system('id')", None),
        ("{'a': __import__('os')}", None),
        ("{" * 5000, None),
    ],
)
def test_json_is_made_of_what_was_to_be_json(typed: str, meant: str | None) -> None:
    assert json_meant(typed) == meant


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=8))
def test_a_python_literal_comes_out_as_the_same_value(value: object) -> None:
    meant = json_meant(repr({"key": value}))

    assert meant is None or json.loads(meant) == {"key": value}


@pytest.mark.parametrize(
    ("typed", "whole", "meant"),
    [
        ("85%", False, "0.85"),
        ("85%", True, None),
        ("120%", False, None),
        ("0,9", False, "0.9"),
        ("4x", True, "4"),
        ("256.0", True, "256"),
        ("256.5", True, None),
        ("4,096", True, "4096"),
        ("1_000_000", True, "1000000"),
        ("128K", True, "131072"),
        ("1k", True, "1000"),
        ("4GB", False, "4"),
        ("1e3", True, "1000"),
        ("256tokens", True, "256"),
        ("4", True, None),
        ("lucky", True, None),
        ("-3", True, None),
        ("", True, None),
    ],
)
def test_a_number_is_read_as_it_was_meant(typed: str, whole: bool, meant: str | None) -> None:
    assert number_meant(typed, whole=whole) == meant


@pytest.mark.parametrize(("typed", "free"), [("auto", True), ("Unlimited", True), ("half", False)])
def test_some_words_leave_the_choice_to_the_program(typed: str, free: bool) -> None:
    assert means_the_default(typed) is free
