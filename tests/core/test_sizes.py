from __future__ import annotations

import pytest

from app.core.errors import UsageError
from app.core.sizes import size


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("1048576", 1048576), ("200 MiB", 209715200), ("5GiB", 5368709120), ("20MB", 20000000), ("1.5k", 1500)],
)
def test_an_amount_is_read_as_people_write_it(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "much", "-1", "3 parsecs", "MiB", "1e3"])
def test_what_is_no_amount_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is no amount of data") as raised:
        size(text)

    assert "200MiB" in (raised.value.mend or "")
