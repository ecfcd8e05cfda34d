from __future__ import annotations

import pytest

from app.core.durations import seconds
from app.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 30.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("30s", 30.0),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("500ms", 0.5),
        ("1 H", 3600.0),
    ],
)
def test_a_span_is_read_as_people_write_it(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "-3", "3x", "m", "3m2", "1e3", "nan", "inf"])
def test_what_is_no_span_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is no span of time") as raised:
        seconds(text)

    assert "2m" in (raised.value.mend or "")
