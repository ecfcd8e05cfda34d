"""Reads what a program says about its arguments, whoever wrote its parser.

Known are argparse (Python 3.8 to 3.14, vLLM's variants), click and typer, llama.cpp, clap and Go's flag and cobra.
A line is read only when the complaint stands at its beginning, as a program writes it: a logged prompt may quote one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from app.core import complaints
from app.core.command import Command
from app.core.complaints import Context
from app.core.problems import ArgumentProblem, ProblemKind

__all__ = ["ARGUMENT_ERROR_PATTERNS", "ARGUMENT_TIP_PATTERN", "ArgumentProblem", "ProblemKind", "read_argparse_error"]

Reader = Callable[[re.Match[str], Context], list[ArgumentProblem]]

# `prog: error: ...` with a program name of one to three words, as argparse writes it; `Error: ...` of others.
_ARGPARSE = r"^(?:[\w./-]+(?: [\w./-]+){0,2}: )?error: "
_OTHERS = r"^(?:[\w./-]+: )?(?:[Ee]rror: |ERROR: )?"
_FLAG = r"--?[A-Za-z][\w.+-]*"

_READERS: tuple[tuple[str, Reader], ...] = (
    (_ARGPARSE + r"unrecognized arguments:(?P<words>.*)$", complaints.unrecognized),
    (_ARGPARSE + r"ambiguous option: (?P<flag>\S+?)(?:=(?P<value>.*))? could match (?P<all>.+)$", complaints.ambiguous),
    (_ARGPARSE + r"the following arguments are required: (?P<all>.+)$", complaints.required),
    (_ARGPARSE + r"one of the arguments (?P<all>.+?) is required", complaints.one_of),
    (_ARGPARSE + r"argument (?P<flag>[^\s:]+): (?P<what>.+)$", complaints.argument),
    (_ARGPARSE + rf"Invalid (?:JSON format|fields) for (?P<flag>{_FLAG}): ", complaints.not_json),
    # click, typer
    (_OTHERS + rf"No such option:? '?(?P<flag>{_FLAG})'?(?P<rest>.*)$", complaints.no_such_option),
    (_OTHERS + rf"Option '(?P<flag>{_FLAG})' (?P<what>requires|does not take)", complaints.option_value),
    (_OTHERS + rf"Invalid value for '(?P<flag>{_FLAG})[^']*'[^:]*: (?P<what>.+)$", complaints.invalid_value),
    (_OTHERS + rf"Missing option '(?P<flag>{_FLAG})'", complaints.missing_option),
    (_OTHERS + r"Got unexpected extra arguments? \((?P<words>.+)\)", complaints.unrecognized),
    # llama.cpp
    (r"^error: invalid argument: (?P<flag>\S+)\s*$", complaints.unknown),
    (rf'^error while handling argument "(?P<flag>{_FLAG})": (?P<what>.+)$', complaints.handling),
    # clap
    (rf"^error: unexpected argument '(?P<flag>{_FLAG})' found", complaints.unknown),
    (rf"^error: Found argument '(?P<flag>{_FLAG})' which wasn't expected", complaints.unknown),
    (rf"^error: invalid value '(?P<value>[^']*)' for '(?P<flag>{_FLAG})[^']*'(?P<what>.*)$", complaints.clap_value),
    (rf"^error: a value is required for '(?P<flag>{_FLAG})[^']*'", complaints.no_value),
    (rf"^error: the argument '(?P<flag>{_FLAG})[^']*' cannot be used with '(?P<all>{_FLAG})", complaints.conflict),
    (r"^error: the following required arguments were not provided:", complaints.clap_required),
    # Go: the flag package and cobra
    (_OTHERS + rf"flag provided but not defined: (?P<flag>{_FLAG})", complaints.unknown),
    (_OTHERS + rf"unknown flag: (?P<flag>{_FLAG})", complaints.unknown),
    (_OTHERS + r"unknown shorthand flag: '(?P<letter>\w)' in -", complaints.shorthand),
    (_OTHERS + rf"flag needs an argument: (?:'\w' in )?(?P<flag>{_FLAG})", complaints.no_value),
    (
        _OTHERS + rf'invalid (?:value|argument) "(?P<value>[^"]*)" for (?:flag )?"?(?P<flag>{_FLAG})',
        complaints.go_value,
    ),
)
_COMPILED = tuple((re.compile(pattern), reader) for pattern, reader in _READERS)

ARGUMENT_ERROR_PATTERNS: Sequence[str] = tuple(pattern for pattern, _ in _READERS)
"""One of these holds on every line that `read_argparse_error` can read."""

ARGUMENT_TIP_PATTERN = r"^\s*(?:tip: a similar argument exists: '--|\[possible values: )"
"""Holds on a line that clap prints further down about the same mistake."""


def read_argparse_error(
    line_body: str, usage: str | None = None, command: Command | None = None
) -> list[ArgumentProblem]:
    """The problems that one error line reports; nothing when it is no line about arguments.

    `usage` is what the program printed around the line; `command` tells which words belong together where a line
    lists several unknown flags with their values. A line may be followed by further ones (`\\n`), as clap prints them.
    """
    text = re.sub(r"^[│|]\s*|\s*[│|]$", "", line_body.strip())  # typer draws a box around its errors
    first, _, rest = text.partition("\n")
    for pattern, reader in _COMPILED:
        if match := pattern.match(first.rstrip()):
            return reader(match, Context(first.strip(), "\n".join(part for part in (rest, usage) if part), command))
    return []
