"""What a server's own past says about a death: the command that ran healthily before, held against this one."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.model import Evidence
from app.core.redact import redact_words
from app.core.wording import changes

_MOST_CHANGES = 12


def since_last_healthy(good: Sequence[str] | None, words: Sequence[str]) -> Evidence | None:
    """What differs from the last command that became healthy and stayed so; None where none ever did.

    `good` is as stored, so secrets are redacted on both sides: another token is no difference that may be shown.
    """
    if good is None:
        return None
    differing = list(changes(good, redact_words(words)))
    if not differing:
        return Evidence("history", "This very command ran healthily before: something else has changed.")
    more = f" and {len(differing) - _MOST_CHANGES} more" if len(differing) > _MOST_CHANGES else ""
    shown = ", ".join(f"{change!r}" for change in differing[:_MOST_CHANGES])
    return Evidence("history", f"Since the last healthy launch: {shown}{more}")
