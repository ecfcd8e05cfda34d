"""Text with styles, and a console for pipes: rich takes longer to import than most logs take to read.

At a terminal rich draws; in a pipe nothing is drawn.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.text import Text

# With one of these rich draws into a pipe, too.
_DRAW_ANYWAY = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


class Styled:
    """Text of which parts may have a style; rich can print it."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self._style = style
        self._parts: list[tuple[str, str]] = [(text, "")] if text else []

    @property
    def plain(self) -> str:
        """The text without its styles."""
        return "".join(text for text, _ in self._parts)

    def append(self, text: str, style: str = "") -> None:
        """Adds text at the end."""
        self._parts.append((text, style))

    def append_text(self, other: Styled) -> Styled:
        """Adds another styled text at the end; returns this one."""
        self._parts += [(text, style or other._style) for text, style in other._parts]
        return self

    def __rich__(self) -> Text:
        from rich.text import Text

        text = Text(style=self._style)
        for part, style in self._parts:
            text.append(part, style=style or None)
        return text


class Output(Protocol):
    """What cards are printed on: a console of rich, or plain text."""

    @property
    def is_terminal(self) -> bool: ...
    @property
    def encoding(self) -> str: ...
    @property
    def width(self) -> int: ...
    def print(self, *objects: object, soft_wrap: bool | None = None) -> None: ...


class PlainOutput:
    """Standard output that is no terminal: lines of any length."""

    is_terminal = False
    width = 80

    @property
    def encoding(self) -> str:
        return sys.stdout.encoding or "ascii"

    def print(self, *objects: object, soft_wrap: bool | None = None) -> None:
        """Prints each text as a line."""
        for one in objects:
            sys.stdout.write((one.plain if isinstance(one, Styled) else str(one)) + "\n")


def output() -> Output:
    """Where a command prints: drawn at a terminal, plain in a pipe."""
    if not sys.stdout.isatty() and not any(name in os.environ for name in _DRAW_ANYWAY):
        return PlainOutput()
    from rich.console import Console

    return Console(highlight=False)
