"""What the tests of log reading share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from app.core.model import LogDigest
from app.logs.digest import LogDigester
from app.logs.patterns import PatternSet

Digest = Callable[..., LogDigest]


@pytest.fixture
def digest() -> Digest:
    """Digests a text in one go."""

    def of(text: str | bytes, patterns: Iterable[str] = (), boundaries: Iterable[str] = ()) -> LogDigest:
        digester = LogDigester(PatternSet(patterns, boundaries))
        digester.feed(text if isinstance(text, bytes) else text.encode())
        digester.close()
        return digester.digest()

    return of
