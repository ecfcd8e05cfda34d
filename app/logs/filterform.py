"""The filter form of a pattern: a simpler one on bytes that holds wherever the pattern may hold.

A scanner runs the filter forms over whole blocks; only lines where one held are looked at again with the pattern
itself. So a filter form may hold too often but never too seldom:

- anchors, word boundaries, look-arounds are left out (a body begins after prefixes), back-references match anything;
- nothing matches a line feed, so a filter never runs from one line into the next;
- a character that may lie outside ASCII is one to four bytes;
- runs at either end are cut to their minimum: at the end they would call back once per byte;
- long counted runs become unbounded, which compiles fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Node = tuple[Any, Any]

_ENDS = ((op.AT, op.AT_END), (op.AT, op.AT_END_STRING))
_TAIL = "tail"  # (bytes, nodes): a last node cut to its least length; its first bytes suffice
_LONGEST_RUN = 64  # counted runs above are taken as unbounded
_ASCII = frozenset(range(128)) - {ord("\n")}
_DIGIT = frozenset(range(ord("0"), ord("9") + 1))
_WORD = _DIGIT | {ord("_")} | {code for code in range(128) if chr(code).isalpha()}
_SPACE = frozenset(b" \t\r\f\v\x1c\x1d\x1e\x1f")  # Python and `regex` differ in the last four
_CATEGORIES = {
    op.CATEGORY_DIGIT: _DIGIT,
    op.CATEGORY_NOT_DIGIT: _ASCII - _DIGIT,
    op.CATEGORY_WORD: _WORD,
    op.CATEGORY_NOT_WORD: _ASCII - _WORD,
    op.CATEGORY_SPACE: _SPACE,
    op.CATEGORY_NOT_SPACE: _ASCII - frozenset(b" \t\r\f\v"),
}


# Fuzzy matching `{e<=1}` and named sets `[[:alpha:]]`: valid in both, but not the same.
_READ_OTHERWISE = re.compile(r"(?<!\\)\{[\d\s<=+]*[eids]\s*[<=+,:}]|\[:\^?\w+:\]")


class FilterError(ValueError):
    """No useful filter form exists: the pattern must be tried on every line."""


def filter_form(pattern: str) -> str:
    """The filter form as an ASCII regex over bytes; it needs no flags but multi-line `$`."""
    if _READ_OTHERWISE.search(pattern):
        raise FilterError("`re`, which reads the pattern here, takes its syntax otherwise than `regex`")
    try:
        parsed = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:  # syntax of `regex` that `re` lacks
        raise FilterError(str(error)) from error
    nodes = _trim_end(_trim_start(list(parsed)))
    form = _sequence(nodes, parsed.state.flags)
    if _minimum(nodes) == 0:
        raise FilterError("it can match nothing at all")
    return form


def _trim_start(nodes: list[Node]) -> list[Node]:
    """Leaves out what may be empty at the beginning and cuts a first run to its minimum."""
    while nodes and _width(nodes[0])[0] == 0 and nodes[0][0] is not op.SUBPATTERN and nodes[0] not in _ENDS:
        nodes = nodes[1:]
    if nodes and _is_run(nodes[0][0]):
        least, _, inner = nodes[0][1]
        nodes = [(op.MAX_REPEAT, (least, least, inner)), *nodes[1:]]
    return nodes


def _trim_end(nodes: list[Node]) -> list[Node]:
    """Leaves out what may be empty at the end and cuts the last run to its minimum."""
    while nodes:
        kind, value = nodes[-1]
        if nodes[-1] in _ENDS:
            if len(nodes) > 1 and _is_any_run(nodes[-2]):
                nodes = nodes[:-1]
                continue
            return nodes
        if _is_run(kind):
            least, _, inner = value
            if least:
                return [*nodes[:-1], (_TAIL, (min(int(least), _LONGEST_RUN), inner))]
            nodes = nodes[:-1]
        elif _minimum([nodes[-1]]) == 0 and kind is not op.SUBPATTERN:
            nodes = nodes[:-1]
        else:
            return [*nodes[:-1], _trim_inside(nodes[-1])]
    return nodes


def _trim_inside(node: Node) -> Node:
    kind, value = node
    if kind in (op.NOT_LITERAL, op.IN, op.ANY):
        return _TAIL, (1, [node])
    if kind is op.SUBPATTERN:
        group, added, removed, inner = value
        return kind, (group, added, removed, _trim_end(list(inner)))
    if kind is op.BRANCH:
        return kind, (value[0], [_trim_end(list(branch)) for branch in value[1]])
    return node


def _is_run(kind: Any) -> bool:
    return kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)


def _is_any_run(node: Node) -> bool:
    kind, value = node
    if kind is op.SUBPATTERN:
        return len(value[3]) == 1 and _is_any_run(value[3][0])
    return _is_run(kind) and value[1] is op.MAXREPEAT and len(value[2]) == 1 and value[2][0][0] is op.ANY


def _minimum(nodes: Iterable[Node]) -> int:
    return sum(_width(node)[0] for node in nodes)


def _width(node: Node) -> tuple[int, bool]:
    """The least length of what a node's filter form matches, and whether it is one character exactly."""
    kind, value = node
    if kind in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
        return 1, True
    if _is_run(kind) or kind == _TAIL:
        least = min(int(value[0]), _LONGEST_RUN)
        return least * _minimum(value[-1]), False
    if kind is op.SUBPATTERN:
        return _minimum(value[3]), False
    if kind is op.ATOMIC_GROUP:
        return _minimum(value), False
    if kind is op.BRANCH:
        return min(_minimum(branch) for branch in value[1]), False
    if kind is op.GROUPREF_EXISTS:
        return min(_minimum(value[1]), _minimum(value[2] or ())), False
    return 0, False


def _sequence(nodes: Iterable[Node], flags: int) -> str:
    return "".join(_render(node, flags) for node in nodes)


def _render(node: Node, flags: int) -> str:
    kind, value = node
    if kind in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
        allowed, wide = _characters(node, flags)
        if kind is op.LITERAL and value > 127:
            return _literal(chr(value), flags)
        return _class(allowed, wide) + ("{1,4}" if wide else "")
    if _is_run(kind):
        return _run(value, flags)
    if kind == _TAIL:
        return _tail(value[0], value[1], flags)
    if kind is op.SUBPATTERN:
        _, added, removed, inner = value
        return f"(?:{_sequence(inner, (flags | added) & ~removed)})"
    if kind is op.ATOMIC_GROUP:
        return f"(?:{_sequence(value, flags)})"
    if kind is op.BRANCH:
        return f"(?:{'|'.join(_sequence(branch, flags) for branch in value[1])})"
    if kind is op.GROUPREF:
        return r"[^\n]*"
    if kind is op.GROUPREF_EXISTS:
        return f"(?:{_sequence(value[1], flags)}|{_sequence(value[2] or (), flags)})"
    if node in _ENDS:
        return "$"
    if kind in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return ""
    raise FilterError(f"{kind} has no filter form")


def _run(value: tuple[Any, Any, Sequence[Node]], flags: int) -> str:
    least, most, inner = int(value[0]), value[1], value[2]
    low = min(least, _LONGEST_RUN)
    if len(inner) == 1 and _width(inner[0])[1] and not (inner[0][0] is op.LITERAL and inner[0][1] > 127):
        allowed, wide = _characters(inner[0], flags)
        unit = _class(allowed, wide)
        high = "" if most is op.MAXREPEAT or int(most) > _LONGEST_RUN else str(int(most) * (4 if wide else 1))
    else:
        unit = f"(?:{_sequence(inner, flags)})"
        high = "" if most is op.MAXREPEAT or int(most) > _LONGEST_RUN else str(int(most))
    if high == "0":
        return ""
    return f"{unit}{{{low},{high}}}" if (low, high) != (1, "1") else unit


def _tail(least: int, inner: Sequence[Node], flags: int) -> str:
    unit = f"(?:{_sequence(inner, flags)})"
    if len(inner) == 1 and inner[0][0] in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
        allowed, wide = _characters(inner[0], flags)
        unit = _class(allowed, wide)
    return unit if least == 1 else f"{unit}{{{least}}}"


def _literal(character: str, flags: int) -> str:
    forms = {character}
    if flags & re.IGNORECASE:
        forms |= {character.lower(), character.upper()}
    coded = sorted("".join(f"\\x{byte:02x}" for byte in form.encode("utf-8", "replace")) for form in forms)
    return f"(?:{'|'.join(coded)})"


def _characters(node: Node, flags: int) -> tuple[frozenset[int], bool]:
    """The ASCII characters that a one-character node may match, and whether it may match others."""
    kind, value = node
    if kind is op.ANY:
        return _ASCII, True
    if kind is op.LITERAL:
        return _cased({value}, flags) & _ASCII, value > 127
    if kind is op.NOT_LITERAL:
        return _ASCII - _cased({value}, flags), True
    allowed: set[int] = set()
    wide = negated = False
    for part, detail in value:
        if part is op.NEGATE:
            negated = True
        elif part is op.LITERAL:
            allowed.add(detail)
        elif part is op.RANGE:
            allowed.update(range(detail[0], min(detail[1], 128) + 1))
            wide |= detail[1] > 127
        else:
            allowed |= _CATEGORIES[detail]
            wide = True
    wide |= any(code > 127 for code in allowed)
    cased = _cased(allowed, flags) & _ASCII
    if negated:
        # What differs between ASCII and Unicode reading of a negated class lies outside ASCII, but for \s.
        return _ASCII - (cased - (_SPACE - frozenset(b" \t\r\f\v"))), True
    return cased, wide


def _cased(codes: Iterable[int], flags: int) -> frozenset[int]:
    plain = frozenset(codes)
    if not flags & re.IGNORECASE:
        return plain
    swapped = (chr(code).swapcase() for code in plain if code < 128)
    return plain | {ord(character) for character in swapped}


def _class(allowed: frozenset[int], wide: bool) -> str:
    if len(allowed) == 1 and not wide:
        return _code(next(iter(allowed)))
    ranges: list[tuple[int, int]] = []
    for code in sorted(allowed):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    if wide:
        ranges.append((128, 255))
    if not ranges:
        raise FilterError("a class of it is empty")
    return "[" + "".join(_code(a) if a == b else f"{_code(a)}-{_code(b)}" for a, b in ranges) + "]"


def _code(code: int) -> str:
    character = chr(code)
    return character if code < 128 and (character.isalnum() or character in " _/:,;<>=!@%'\"`~") else f"\\x{code:02x}"
