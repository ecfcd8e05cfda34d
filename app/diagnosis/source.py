"""Reads a failed condition as an engineer would: which settings it tests, and how.

The statement comes from the engine's own source where that is safe to read, else from the code line that Python
printed into the log. Source is parsed, never imported, and only files below the launch interpreter's own prefix are
opened: a path that only a log names proves nothing, and its author is a stranger.
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from app.core.command import Command
from app.core.model import Frame

CheckKind = Literal["is-none", "is-not-none", "member", "not-member", "compare", "modulo", "true", "false"]

_LARGEST_FILE = 4 * 1024 * 1024
_LARGEST_CODE = 4000

_SAME = {"upper", "lower", "strip"}
_MEASURES = {"int", "float", "len", "abs", "min", "max", "set", "sum", "sorted"}

# Names that hold settings, as against an object's working state.
_HOLDERS = {"self", "cfg", "config", "args", "server_args", "engine_args", "opts", "options", "params"}


@dataclass(frozen=True, slots=True)
class Check:
    """What must hold of one setting: `attribute` is its name in the source, `values` the literals it is held against.

    `certain` is false below an `or`: then another part may be the one that failed.
    """

    attribute: str
    kind: CheckKind
    text: str
    values: tuple[str, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition that had to hold and did not, with the conditions (`guards`) under which it is asked at all."""

    text: str
    checks: tuple[Check, ...]
    guards: tuple[Check, ...] = ()
    path: str | None = None
    number: int | None = None


def launch_prefixes(command: Command | None) -> tuple[Path, ...]:
    """The `sys.prefix` of the interpreter that a command starts, told from its place on disk without running it."""
    program = command.interpreter or command.program if command is not None else None
    found = shutil.which(program) if program else None
    if found is None:
        return ()
    prefix = Path(found).absolute().parent.parent
    if not (prefix / "pyvenv.cfg").is_file() and not any(prefix.glob("lib*/python3*")):
        return ()
    return (prefix.resolve(),)


def read_requirement(frame: Frame, prefixes: Sequence[Path]) -> Requirement | None:
    """The condition of the `assert` or `raise` at a frame, from its source file; None where that may not be read.

    A file that no longer holds the line which the log shows has changed since: it is not believed.
    """
    source = _own_source(frame.file, prefixes)
    if source is None:
        return None
    lines = source.splitlines()
    if not 0 < frame.lineno <= len(lines):
        return None
    if frame.code and frame.code.strip() != lines[frame.lineno - 1].strip():
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    path = _path_to(tree, frame.lineno)
    return _requirement(path, frame.file, frame.lineno) if path else None


def requirement_of_code(code: str) -> Requirement | None:
    """The condition in a code line of a log: a whole `assert`, or the last part of one (`and self.x is None`)."""
    code = code.strip()[:_LARGEST_CODE]
    expression = _fragment(code)
    if expression is None:
        return None
    checks = tuple(_checks(expression, holds=True))
    return Requirement(text=ast.unparse(expression), checks=checks)


def _own_source(name: str, prefixes: Sequence[Path]) -> str | None:
    """The text of a source file if it really lies below one of the prefixes."""
    if not name.endswith(".py") or not Path(name).is_absolute():
        return None
    try:
        real = Path(name).resolve(strict=True)
        if not any(real.is_relative_to(prefix) for prefix in prefixes):
            return None
        if not real.is_file() or real.stat().st_size > _LARGEST_FILE:
            return None
        return real.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError, RuntimeError):
        return None


def _path_to(tree: ast.Module, lineno: int) -> list[ast.stmt]:
    """The statements around a line, outermost first."""
    path: list[ast.stmt] = []
    body: Iterator[ast.stmt] | None = iter(tree.body)
    while body is not None:
        inside = next((node for node in body if node.lineno <= lineno <= (node.end_lineno or node.lineno)), None)
        if inside is None:
            break
        path.append(inside)
        body = _statements(inside)
    return path


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
            yield from child.body


def _requirement(path: list[ast.stmt], file: str, lineno: int) -> Requirement | None:
    statement = path[-1]
    function = max(
        (at for at, node in enumerate(path) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))), default=0
    )
    conditions = list(_conditions(path[function:]))
    if isinstance(statement, ast.Assert):
        text, checks = ast.unparse(statement.test), tuple(_checks(statement.test, holds=True))
    elif isinstance(statement, ast.Raise) and conditions:
        # It was raised because the nearest condition held: the contrary was required.
        test, held = conditions.pop()
        text = _said(test, not held)
        checks = tuple(_checks(test, holds=not held))
    else:
        return None
    guards = tuple(check for test, held in conditions for check in _checks(test, holds=held))
    return Requirement(text=text, checks=checks, guards=guards, path=file, number=lineno)


def _conditions(path: list[ast.stmt]) -> Iterator[tuple[ast.expr, bool]]:
    """The `if`s around a statement, and whether each held."""
    for outer, inner in pairwise(path):
        if isinstance(outer, (ast.If, ast.While)):
            yield outer.test, inner in outer.body


def _checks(node: ast.expr, *, holds: bool, certain: bool = True) -> Iterator[Check]:
    """What a condition says about settings when it holds (or does not)."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _checks(node.operand, holds=not holds, certain=certain)
    elif isinstance(node, ast.BoolOp):
        together = isinstance(node.op, ast.And) == holds
        for value in node.values:
            yield from _checks(value, holds=holds, certain=certain and together)
    elif isinstance(node, ast.Compare):
        yield from _comparison(node, holds=holds, certain=certain)
    elif (attribute := _setting(node)) is not None:
        yield Check(attribute, "true" if holds else "false", _said(node, holds), certain=certain)
    elif (attribute := _begun(node)) is not None:
        yield Check(attribute, "compare", _said(node, holds), certain=certain)
    # Other calls (isinstance, hasattr, a helper of the engine) say nothing that can be told from here.


def _begun(node: ast.expr) -> str | None:
    """`cfg.device.startswith("cuda")`: the name of the setting."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _setting(node.func.value) if node.func.attr in ("startswith", "endswith") else None
    return None


def _comparison(node: ast.Compare, *, holds: bool, certain: bool) -> Iterator[Check]:
    text = _said(node, holds)
    if len(node.ops) == 1:
        kind = _kind(node.ops[0], node.comparators[0], holds=holds)
        attribute = _setting(node.left)
        if kind is not None and attribute is not None:
            values = _literals(node.comparators[0]) if kind != "compare" else ()
            yield Check(attribute, kind, text, values, certain)
            for other in _settings(node.comparators[0]):
                yield Check(other, "compare", text, certain=certain)
            return
    modulo = any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in ast.walk(node))
    seen: set[str] = set()
    for operand in (node.left, *node.comparators):
        for attribute in _settings(operand):
            if attribute not in seen:
                seen.add(attribute)
                yield Check(attribute, "modulo" if modulo else "compare", text, certain=certain)


def _kind(op: ast.cmpop, right: ast.expr, *, holds: bool) -> CheckKind | None:
    none = isinstance(right, ast.Constant) and right.value is None
    if none and isinstance(op, (ast.Is, ast.Eq)):
        return "is-none" if holds else "is-not-none"
    if none and isinstance(op, (ast.IsNot, ast.NotEq)):
        return "is-not-none" if holds else "is-none"
    if isinstance(op, (ast.In, ast.NotIn)):
        return "member" if isinstance(op, ast.In) == holds else "not-member"
    if isinstance(op, (ast.Eq, ast.NotEq)) and isinstance(right, ast.Constant):
        return "member" if isinstance(op, ast.Eq) == holds else "not-member"
    return "compare"


def _literals(node: ast.expr) -> tuple[str, ...]:
    """The values of a literal or of a list of literals."""
    items = node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else [node]
    return tuple(str(item.value) for item in items if isinstance(item, ast.Constant) and item.value is not None)


def _setting(node: ast.expr) -> str | None:
    """`self.x`, `cfg.x`, `self.server_args.x`, or a plain local `x`: the name x. `x.upper()` is x too."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
        node = node.func.value
    if isinstance(node, ast.Name):
        return node.id
    if not isinstance(node, ast.Attribute):
        return None
    holder = node.value
    name = holder.attr if isinstance(holder, ast.Attribute) else holder.id if isinstance(holder, ast.Name) else ""
    return node.attr if name.lstrip("_") in _HOLDERS or name.endswith(("_args", "_config", "args")) else None


def _settings(node: ast.expr) -> Iterator[str]:
    """All settings that an operand is made of; a call says nothing, but for one that measures or converts."""
    if (attribute := _setting(node)) is not None:
        yield attribute
    elif not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in _MEASURES):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _settings(child)


def _said(node: ast.expr, holds: bool) -> str:
    while not holds and isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node, holds = node.operand, True
    return ast.unparse(node if holds else ast.UnaryOp(ast.Not(), node))


# -- a code line of a log: often only a part of the condition

_LEADING = re.compile(r"^(?:assert\b|and\b|or\b|elif\b|if\b)\s*")
_NAMED = re.compile(r"\b((?:\w+\.)+\w+|\w+)\s+(is\s+not|is)\s+None\b")


def _fragment(code: str) -> ast.expr | None:
    """The expression in a piece of code that may begin or end anywhere."""
    text = _LEADING.sub("", code).rstrip(":\\").strip()
    text = re.sub(r"\s(?:and|or)$", "", text)
    for candidate in (text, _balanced(text)):
        tree = _parse(candidate)
        if tree is not None:
            # `assert x, "message"` reads as a pair when `assert` is gone.
            return tree.elts[0] if isinstance(tree, ast.Tuple) and tree.elts else tree
    found = _NAMED.search(text)
    return _parse(found.group(0)) if found else None


def _parse(text: str) -> ast.expr | None:
    if not text:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _balanced(text: str) -> str:
    """The text with the brackets added that the lines before and after it hold."""
    opened: list[str] = []
    missing = ""
    for char in text:
        if char in "([{":
            opened.append({"(": ")", "[": "]", "{": "}"}[char])
        elif char in ")]}":
            if opened and opened[-1] == char:
                opened.pop()
            else:
                missing = {")": "(", "]": "[", "}": "{"}[char] + missing
    inner = text.rstrip(",")
    return missing + inner + "".join(reversed(opened))


def uncertain(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The same checks, none of them known to be the one that failed."""
    return tuple(replace(check, certain=False) for check in checks)
