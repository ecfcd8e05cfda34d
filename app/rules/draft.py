"""Drafts a rule from one line of a log: a pattern that fits the line's kind, and examples that prove it.

What differs from run to run (numbers, paths, sizes, addresses) becomes a bounded class; the words stay. It is a
beginning: what the failure means and what mends it is for the rule's author to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

from app.core.redact import redact_text
from app.core.vocabulary import Category

_LONGEST = 160  # characters of the line that the pattern asks for
_TITLE = 100

_CLASSES: tuple[tuple[str, str], ...] = (
    (r"\[redacted\]", r"\S{1,200}"),
    (r"0x[0-9a-fA-F]+", "0x[0-9a-fA-F]{1,16}"),
    (r"[a-z][a-z0-9+.-]*://[^\s'\"]+", r"[a-z][a-z0-9+.-]{1,12}://[^\s'\x22]{1,300}"),
    (r"(?<![\w.-])\.{0,2}/[^\s'\",;:()\[\]]+", r"[^\s'\x22,;:()\[\]]{1,300}"),
    (r"(?<![\w.])-?\d+(?:[.,]\d+)*", r"-?\d[\d.,]{0,20}"),
)
_VARIES = re.compile("|".join(f"({shape})" for shape, _ in _CLASSES))


def pattern_of(body: str) -> str:
    """A pattern that is anchored at the line's beginning and fits lines of the same words."""
    text = redact_text(body.strip())
    cut = text if len(text) <= _LONGEST else text[:_LONGEST].rpartition(" ")[0] or text[:_LONGEST]
    parts: list[str] = []
    at = 0
    for found in _VARIES.finditer(cut):
        parts += [_escaped(cut[at : found.start()]), _CLASSES[(found.lastindex or 1) - 1][1]]
        at = found.end()
    parts.append(_escaped(cut[at:]))
    return "^" + "".join(parts)


def drafted(rule_id: str, body: str, example: Sequence[str], other: str, category: Category) -> str:
    """The text of a rule file. `example` are the log's lines that show it, `other` one that must not match."""
    title = redact_text(" ".join(body.split()))[:_TITLE].replace("{", "(").replace("}", ")")
    rule = {
        "id": rule_id,
        "title": title,
        "status": "experimental",
        "category": category.value,
        "role": "cause",
        "confidence": "low",
        "when": {"line": pattern_of(body)},
        "explain": "Drafted from a log: this line is what failed. What it means and what mends it is not said yet.",
        "examples": [
            {"text": "".join(f"{redact_text(line)}\n" for line in example)},
            {"text": f"{redact_text(other)}\n", "match": False},
        ],
    }
    return yaml.safe_dump(rule, sort_keys=False, allow_unicode=True, width=118)


def _escaped(text: str) -> str:
    return re.escape(text).replace(r"\ ", " ")
