"""Values that are wrong as they were typed, but whose meaning shows: `85%`, `4,096`, a Python dict in place of JSON.

What comes out is a proposal for a person: a typed value is never rewritten by the machine alone.
"""

from __future__ import annotations

import ast
import json
import re

_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'"})
# Strings stay as they are; words outside of them are JSON's or Python's constants, or texts without quotes.
_TOKEN = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|(?P<word>[A-Za-z_][\w./-]*)")
_CONSTANTS = {"true": "True", "false": "False", "null": "None", "True": "True", "False": "False", "None": "None"}
_LONGEST = 20_000
_OLD_PAIRS = re.compile(r"\w+=\d+(?:,\w+=\d+)*")
_LEFT_TO_THE_PROGRAM = frozenset({"auto", "none", "null", "max", "default", "unlimited", "inf", "infinite"})
_NUMBER = re.compile(r"(?P<digits>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z%]*)")
_UNITS = {"k": 1000, "ki": 1024, "m": 1000**2, "mi": 1024**2}
_LARGER = {"K": 1024, "M": 1024**2}


def json_meant(text: str) -> str | None:
    """JSON that says what a text was to say; None when that can't be told, or when it is JSON already."""
    if len(text) > _LONGEST or _is_json(text):
        return None
    if _OLD_PAIRS.fullmatch(text):
        return json.dumps({name: int(value) for name, value in (pair.split("=") for pair in text.split(","))})
    plain = text.translate(_QUOTES).strip()
    if _is_json(plain):
        return plain
    if plain[:1] not in ("{", "["):
        return None
    try:
        value = ast.literal_eval(_TOKEN.sub(_as_python, plain))
        return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def number_meant(text: str, *, whole: bool) -> str | None:
    """The number that a text was to say, as the program takes it; None when that can't be told.

    `whole`: an integer is wanted. Small units count in thousands, `K` and `M` in powers of 1024, as engines do.
    """
    plain = text.strip()
    if not whole and re.fullmatch(r"\d,\d+", plain):
        return plain.replace(",", ".")
    if re.fullmatch(r"\d{1,3}(?:[,_' ]\d{3})+", plain):
        plain = re.sub(r"[,_' ]", "", plain)
    if re.fullmatch(r"\d+(?:\.\d+)?[eE]\+?\d{1,2}", plain):
        plain = f"{float(plain):.10f}".rstrip("0").rstrip(".")
    found = _NUMBER.fullmatch(plain)
    if found is None:
        return None
    number, unit = float(found["digits"]), found["unit"]
    if unit == "%":
        return None if whole or number > 100 else f"{number / 100:g}"
    number *= _LARGER.get(unit) or _UNITS.get(unit.lower(), 1)
    meant = (str(int(number)) if number == int(number) else None) if whole else f"{number:g}"
    return None if meant == text else meant


def means_the_default(text: str) -> bool:
    """Whether a text leaves the choice to the program, in a flag that knows no such word."""
    return text.strip().lower() in _LEFT_TO_THE_PROGRAM


def _as_python(token: re.Match[str]) -> str:
    word = token["word"]
    if word is None:
        return token[0]
    return _CONSTANTS.get(word) or json.dumps(word)


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), (dict, list))
    except (ValueError, RecursionError):
        return False
