"""How alike two flag names are, and when one of many is clearly what a person meant to type."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

RELATED = 0.5  # below this, a suggestion confuses more than it helps


def likeness(typed: str, known: str) -> float:
    """0 to 1: the better of how alike the letters are and how many words the two names share."""
    left, right = plain(typed), plain(known)
    if left == right:
        return 1.0
    letters = SequenceMatcher(None, left, right, autojunk=False)
    if letters.real_quick_ratio() < RELATED:
        return 0.0
    words, others = set(left.split("-")), set(right.split("-"))
    shared = 2 * len(words & others) / (len(words) + len(others))
    return max(letters.ratio(), 0.95 * shared)


def plain(name: str) -> str:
    """Without leading dashes, in small letters, words joined by dashes."""
    return name.lstrip("-").replace("_", "-").lower()


def distance(left: str, right: str, limit: int) -> int:
    """Keys slipped between two words (one missing, added, wrong, or two swapped); `limit` + 1 when more than that."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        older, before, row = before, row, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def clearly_meant(typed: str, spellings: Mapping[str, str]) -> str | None:
    """The only spelling within a slip or two of `typed`; None when none is near or a second one nearly is.

    `spellings` maps each accepted spelling to what it means: several spellings of one meaning do not compete.
    """
    name = plain(typed)
    allowed = 2 if len(name) >= 9 else 1
    if len(name) < 4 or not typed.startswith("-"):
        return None
    found = [(distance(name, plain(text), allowed + 2), text) for text in spellings if text.startswith("--")]
    found.sort(key=lambda entry: (entry[0], entry[1]))
    if not found or found[0][0] > allowed:
        return None
    best, winner = found[0]
    if not _is_slip(name, plain(winner), spellings):
        return None
    rivals = [(far, text) for far, text in found if spellings[text] != spellings[winner]]
    if rivals and not _clearly_better(name, best, plain(winner), *rivals[0]):
        return None
    return winner


def _is_slip(name: str, winner: str, spellings: Mapping[str, str]) -> bool:
    """Whether the words that differ can be slips of the finger.

    A word that other flags use (`min` for `max`, `decode` for `encode`) or one with a digit (`fp4` for `fp8`) was
    meant as typed: then the two flags are two things, however near their letters are. One and many (`layer`, `layers`)
    are no two things.
    """
    words, others = name.split("-"), winner.split("-")
    if len(words) != len(others):
        return distance(name.replace("-", ""), winner.replace("-", ""), 1) <= 1
    vocabulary = {word for text in spellings for word in plain(text).split("-")}
    pairs = zip(words, others, strict=True)
    differing = [(word, other) for word, other in pairs if word.removesuffix("s") != other.removesuffix("s")]
    return all(word not in vocabulary and not _digits(word) and not _digits(other) for word, other in differing)


def _digits(word: str) -> bool:
    return any(letter.isdigit() for letter in word)


def _clearly_better(name: str, best: int, winner: str, far: int, rival: str) -> bool:
    """A rival two slips further, or one that differs in a whole word more, is no rival."""
    if far >= best + 2:
        return True
    return far > best and _words_apart(name, winner) < _words_apart(name, plain(rival))


def _words_apart(left: str, right: str) -> int:
    words, others = left.split("-"), right.split("-")
    if len(words) != len(others):
        return abs(len(words) - len(others)) + 1
    return sum(a != b for a, b in zip(words, others, strict=True))
