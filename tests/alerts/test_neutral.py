from __future__ import annotations

import pytest

from app.alerts.message import message
from app.alerts.neutral import neutral
from app.alerts.webhook import is_public, retry_after


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("<!channel> & <@U1>", "&lt;!channel&gt; &amp; &lt;@\u2060U1&gt;"),
        ("ask @here", "ask @\u2060here"),
        ("```end", "\u02cb\u02cb\u02cbend"),
        ("\x1b[31mred\x1b[0m\x07", "red"),
        ("a\u202eb\ud800", "ab"),
        ("key hf_abcdefghijklmnopqrst", "key [redacted]"),
    ],
)
def test_log_text_is_harmless(hostile: str, harmless: str) -> None:
    assert neutral(hostile, 100) == harmless


def test_an_escape_is_never_cut() -> None:
    assert neutral("<" * 10, 10) == "&lt;&lt;…"


def test_a_message_of_hostile_facts_stays_within_the_limits() -> None:
    long = "<`@here " * 5000
    facts = {"server": long, "title": long, "category": long, "text": long, "explanation": long}
    facts |= {"line": {"number": 1, "text": long}, "before": ["a"], "after": [long], "command": [long]}  # type: ignore[dict-item]

    blocks = message(1, "opened", facts, "http://x")["blocks"]

    assert len(blocks[0]["text"]["text"]) <= 150
    assert max(len(block["text"]["text"]) for block in blocks if "text" in block) <= 3000
    assert max(len(field["text"]) for field in blocks[1]["fields"]) <= 2000


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fe80::1%eth0"]
)
def test_private_addresses_are_known(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(("text", "seconds"), [("7", 7.0), ("999999", 3600.0), ("soon", 60.0), ("", 60.0)])
def test_retry_after_is_read_within_bounds(text: str, seconds: float) -> None:
    assert retry_after({"retry-after": text}) == seconds
