"""Reads what a program says about its arguments: argparse, click, llama.cpp, clap and Go flag errors."""

from __future__ import annotations

from app.core.command import Command
from app.core.problems import ArgumentProblem, ProblemKind

__all__ = ["ArgumentProblem", "ProblemKind", "read_argparse_error"]


def read_argparse_error(
    line_body: str, usage: str | None = None, command: Command | None = None
) -> list[ArgumentProblem]:
    """The problems that one error line reports; nothing when it is no line about arguments.

    `usage` (the usage block printed before it) and `command` tell which words belong together where a line lists
    several unknown flags with their values.
    """
    raise NotImplementedError
