"""How a log says that a signal ended a process: each shell, supervisor and launcher has words of its own."""

from __future__ import annotations

import re
import signal

from app.core.model import Line

_ASKED = ("SIGINT", "SIGTERM")
_BY_WORDS = {
    "killed": "SIGKILL",
    "segmentation fault": "SIGSEGV",
    "illegal instruction": "SIGILL",
    "bus error": "SIGBUS",
    "floating point exception": "SIGFPE",
}
_WORDS = "|".join(words.replace(" ", r"\s") for words in _BY_WORDS)
_SAID = re.compile(
    rf"""
      \bexited\son\ssignal\s(?P<mpirun>\d+)\b
    | \bexitcode:?\s*-(?P<torchrun>\d+)\b
    | \bstatus=(?P<systemd>\d+)/(?:KILL|SEGV|BUS|ILL|FPE|SYS|TRAP)\b
    | \b(?:shutdown\swith|terminated\sdue\sto|received|killed\sby|Received)\ssignal\s(?P<number>\d+)\b
    | \bSignal\s(?P<elastic>\d+)\s\(SIG[A-Z]+\)\sreceived
    | \b[Ee]xit(?:ed\swith)?\s[Cc]ode:?\s+(?:-(?P<negative>\d+)|(?P<shell>1[2-5]\d))\b
    | \bsignal:\s(?P<go>{_WORDS})\b
    | (?:\bwas\ssent|^\*\*\*)\s(?P<name>SIG[A-Z]+)\b
    | ^\S+:\s(?P<kernel>segfault)\sat\s
    | ^\S+:\sline\s\d+:\s+\d+\s+(?P<script>(?i:{_WORDS}))\b
    | ^(?P<bare>(?i:{_WORDS}))(?:\s+\(core\sdumped\))?(?:\s+\S*[/.]\S.*)?$
    """,
    re.VERBOSE,
)


def signal_named(line: Line) -> str | None:
    """`SIGKILL`, where a line says that a signal of that name ended a process; None for a stop that was asked for."""
    found = _SAID.search(line.body)
    if found is None:
        return None
    name = _name(found.lastgroup or "", found[found.lastgroup or 0])
    return None if name in _ASKED else name


def _name(kind: str, said: str) -> str | None:
    if kind == "name":
        return said
    if kind == "kernel":
        return "SIGSEGV"
    if kind in ("go", "bare", "script"):
        return _BY_WORDS[said.lower()]
    number = int(said) - (128 if kind == "shell" else 0)
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
