"""Between which wordings a whole pattern chooses."""

from __future__ import annotations

import pytest

from app.rules.alternatives import alternatives


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("^one thing", ()),
        ("^a|^b", ("^a", "^b")),
        ("^(?:a|b)", ("^(?:a)", "^(?:b)")),
        (r"^\s*(?P<why>a|b)$", (r"^\s*(?:a)$", r"^\s*(?:b)$")),
        ("^x (?:a|b)", ()),
        ("^(?:a|b) y", ()),
        (r"^[|(]\|x", ()),
        ("^(?:a(?:1|2)|b)", ("^(?:a(?:1|2))", "^(?:b)")),
        ("^(?:a|b)|^c", ("^(?:a)", "^(?:b)", "^c")),
        ("^(?!a|b)c", ()),
        ("^[]|]", ()),
    ],
)
def test_only_choices_of_the_whole_pattern_count(pattern: str, parts: tuple[str, ...]) -> None:
    assert alternatives(pattern) == parts
