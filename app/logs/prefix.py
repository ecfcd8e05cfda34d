"""What stands before a program's own words on a line: wrappers (compose, CRI, journald, Ray) and log headers.

Wrappers nest in any order. A program writes one header of its own at most, and its body begins where that ends:
a logged prompt that looks like a header is never read as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from app.core.model import Line

_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_LEVELS = r"TRACE|DEBUG|INFO|NOTICE|SUCCESS|WARNING|WARN|ERROR|CRITICAL|FATAL|ALERT|EMERGENCY"


def _by_first(patterns: Iterable[tuple[str, str]]) -> dict[str, tuple[re.Pattern[str], ...]]:
    """The patterns to try by what a text begins with: one of `[(<`, a digit (d) or a letter (a)."""
    found: dict[str, list[re.Pattern[str]]] = {key: [] for key in "[(<da"}
    for keys, text in patterns:
        pattern = re.compile(text)
        for key in keys:
            found[key].append(pattern)
    return {key: tuple(several) for key, several in found.items()}


_WRAPPERS = _by_first(
    (
        ("d", rf"(?P<time>{_ISO}) (?P<fd>stdout|stderr) [FP](?: |$)"),  # kubectl CRI
        # journald short-iso; behind a `Z` stands more often what docker -t wraps, such as `CUDA error: `
        ("d", rf"(?P<time>{_ISO}) (?P<host>[\w.-]+) (?P<unit>[\w@./-]+\[\d+\]|kernel): ?"),
        (
            "d",
            r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d:?\d\d) (?P<host>[\w.-]+) "
            r"(?P<unit>[A-Za-z][\w@./-]*): ?",
        ),
        # docker logs -t, unless the time is the first part of a header of Rust's tracing
        (
            "d",
            r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))"
            rf"(?: (?! ?(?:{_LEVELS}) +[a-z_]+(?:[:{{-]))|$)",
        ),
        ("a", rf"(?P<gcp>{_LEVELS}|DEFAULT) (?P<time>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)(?: |$)"),  # GCP
        (
            "a",
            r"(?P<time>[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d(?:\.\d+)?) (?P<host>[\w.-]+) "
            r"(?P<unit>[\w@./-]+(?:\[\d+\])?): ?",
        ),  # journald, syslog
        ("<", r"<\d{1,3}>1 (?P<time>\S+) (?P<host>\S+) (?P<unit>\S+) \S+ \S+ (?:-|\[[^\]]*\]) ?"),  # RFC 5424
        ("[", r"\[(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))\](?: |$)"),
        ("[", r"\[ *\d+\.\d{3,6}\](?:\[ *[TC]\d+\])? ?"),  # dmesg
        ("[", r"\[(?P<time>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ?"),  # dmesg -T
        ("[", r"\[(?P<container>pod/[^\]\s]+)\] ?"),  # kubectl logs --prefix
        ("[", r"\[rank(?P<rank>\d+)\]: ?"),  # torch
        ("[", r"\[default(?P<rank>\d+)\]: ?"),  # torchrun
        ("[", r"\[\d+,(?P<rank>\d+)\]<(?:stdout|stderr)>: ?"),  # mpirun
        ("(", r"\((?P<process>(?:[^()\s]+ )?(?:rank=\d+ )?pid=\d+(?:, [^()]*)?)\)(?: |$)"),  # Ray, vLLM
        ("(", r"\((?P<process>raylet|gcs_server|autoscaler[^()]*)(?:, [^()]*)?\)(?: |$)"),  # Ray itself
        ("ad", rf"(?P<container>(?!(?:{_LEVELS})\b)[A-Za-z0-9][\w.-]*) +\|(?: |$)"),  # docker-compose
    )
)
_HEADERS = _by_first(
    (
        # SGLang; a level and place may follow
        (
            "[",
            rf"\[(?P<time>(?:\d{{4}}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)(?P<ranks>(?: [A-Za-z]+\d+)*)\](?: |$)"
            rf"(?:(?P<level>{_LEVELS}):? (?P<place>[\w./-]+\.py:\d+):? )?",
        ),
        # vLLM, now and before
        ("a", rf"(?P<level>{_LEVELS}) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) \[?(?P<place>[^\]\[\s]+:\d+)\] ?"),
        ("d", r"(?P<clock>\d+\.\d\d\.\d{3}\.\d{3}) (?P<level>[DIWE]) "),  # llama.cpp
        # gunicorn
        ("[", rf"\[(?P<time>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d) [+-]\d{{4}}\] \[\d+\] \[(?P<level>{_LEVELS})\] ?"),
        # Rust's tracing (TGI): time, level, spans with their values, module and source line
        (
            "d",
            rf"(?P<time>{_ISO}) +(?P<level>{_LEVELS}) "
            r"(?P<place>[a-z_][\w-]*(?:\{[^}]{0,400}\})?(?:::?[a-z_][\w-]*(?:\{[^}]{0,400}\})?)*): "
            r"(?:(?:[a-z_]+(?:::[a-z_]+)*|[\w./-]+\.rs:\d+): )*(?=\S|$)",
        ),
        # loguru
        ("d", rf"(?P<time>{_ISO}) +\| +(?P<level>{_LEVELS}) +\| +(?P<place>\S+) +(?:-|\|) ?"),
        # Python logging in its usual forms
        ("d", rf"(?P<time>{_ISO})\s(?P<level>{_LEVELS})\s(?P<place>[\w.-]+:\d+) -- "),  # Ray
        ("d", rf"(?P<time>{_ISO}) - (?P<place>[\w.-]+) - (?P<level>{_LEVELS}) - (?:[\w./-]+:\d+ - )?"),
        (
            "a",
            rf"(?P<level>{_LEVELS}) (?P<time>{_ISO}) [\w-]+ \w+(?: [\w-]+)? (?:(?P<place>[\w.]+:\d+) - |-- )",
        ),  # Ray Serve
        ("d", rf"(?P<time>{_ISO}) (?P<place>[\w.]+) (?:\d+ )?(?P<level>{_LEVELS}) +"),
        ("d", rf"(?P<time>{_ISO}) \[?(?P<level>{_LEVELS})\]? +(?:(?P<place>[\w.:/-]+?): )?"),
        ("a", rf"(?P<level>{_LEVELS}):(?P<place>[A-Za-z_][\w.]*):(?=\S)"),
        # TGI under a wrapper that took the time: `ERROR text_generation_launcher: …`
        ("a", rf"(?P<level>{_LEVELS}) +(?P<place>[a-z_]+(?:::[a-z_]+)*): (?=\S)"),
        # glog, torch
        (
            "[a",
            r"\[?(?P<level>[IWEF])\d{3,4} (?P<time>\d\d:\d\d:\d\d\.\d+) +(?:\d+ )?(?P<place>[^\]\s]+:\d+)\] ?"
            r"(?:\[\d+/\d+(?:_\d+)?\] )?",
        ),  # a compiled frame of torch dynamo
        # TensorRT-LLM
        (
            "[",
            r"\[(?P<time>\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\] \[TRT(?:-LLM)?\] "
            r"(?:\[(?P<ranks>RANK \d+)\] )?\[(?P<level>[DVIWEF])\] ?",
        ),
        ("[", rf"\[TensorRT-LLM\]\[(?P<level>{_LEVELS})\] ?"),
        ("a", r"time=(?P<time>\S+) level=(?P<level>\w+) (?:source=(?P<place>\S+) )?"),  # Ollama
    )
)
_UVICORN = re.compile(r"(?P<level>INFO:    |ERROR:   |WARNING: |CRITICAL:|DEBUG:   ) (?=\S)")
_NCCL = re.compile(r"(?P<host>[\w.-]+):\d+:\d+ \[\d+\] (?=(?:\S+ )?NCCL (?:INFO|WARN|ERROR))")
_RANK_IN_PROCESS = re.compile(r"rank=(\d+)|_((?:[A-Z]{2}\d+)(?:_[A-Z]{2}\d+)*)|[Ww]orker-(\d+)")
# A cheap look at the first characters: most bare lines (code, frames, prose) can't begin with any prefix.
_MAY_BEGIN = re.compile(
    r"[\[(<]|\d|[A-Z][a-z]{2} [ \d]|[A-Z]+[: ]|time=|[A-Za-z0-9][\w.-]* +\||[IWEF]\d{3,4} |\S+:\d+:\d+ \["
)
_WORDS = {
    "E": "ERROR", "W": "WARNING", "I": "INFO", "D": "DEBUG", "V": "DEBUG", "F": "FATAL", "WARN": "WARNING",
}  # fmt: skip
_MONTHS = {
    "Jan": 1, "Feb": 2, "Mar": 3, "Apr": 4, "May": 5, "Jun": 6,
    "Jul": 7, "Aug": 8, "Sep": 9, "Oct": 10, "Nov": 11, "Dec": 12,
}  # fmt: skip
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?")
_FULL_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_SHORT_DATE = re.compile(r"(\d\d)-(\d\d) ")
_AMERICAN_DATE = re.compile(r"(\d\d)/(\d\d)/(\d{4})-")
_NAMED_DATE = re.compile(r"([A-Z][a-z]{2}) ([ \d]?\d) \d\d:\d\d:\d\d(?:\.\d+)?(?: (\d{4}))?$")
_ZONE = re.compile(r"([+-])(\d\d):?(\d\d)$")
_EPOCH = date(1970, 1, 1).toordinal()
_LEAP_YEAR = 1972  # for dates without a year: any will do for differences


@dataclass(frozen=True, slots=True)
class Parsed:
    """A line with what its prefixes told.

    `stream` names what its lines are in order with; `container` is the part of it that outlives a process;
    `header` identifies the program's own log header (level and place), None where the line is bare.
    """

    line: Line
    stream: str = ""
    container: str = ""
    header: str | None = None

    @property
    def body(self) -> str:
        return self.line.body


def parse_line(number: int, text: str) -> Parsed:
    """Takes the prefixes off a line."""
    if not _MAY_BEGIN.match(text):
        return Parsed(Line(number, text, text))
    return _Prefix(text).parsed(number)


class _Prefix:
    """The state of reading one line's prefixes from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.containers: list[str] = []
        self.processes: list[str] = []
        self.rank: str | None = None
        self.level: str | None = None
        self.time: str | None = None
        self.clock: str | None = None
        self.header: str | None = None
        while self._wrapper():
            pass
        self._header()

    def parsed(self, number: int) -> Parsed:
        container = "/".join(self.containers)
        stream = "/".join((*self.containers, *self.processes))
        line = Line(
            number,
            self.text,
            self.text[self.at :],
            source=stream,
            rank=self.rank,
            level=self.level,
            time=self._seconds(),
        )
        return Parsed(line, stream, container, self.header)

    def _first(self) -> str:
        first = self.text[self.at : self.at + 1]
        return "d" if first.isdigit() else "a" if first.isalpha() else first

    def _wrapper(self) -> bool:
        for pattern in _WRAPPERS.get(self._first(), ()):
            if match := pattern.match(self.text, self.at):
                self._take_wrapper(match)
                return True
        return False

    def _take_wrapper(self, match: re.Match[str]) -> None:
        self.at = match.end()
        found = match.groupdict()
        self.time = self.time or found.get("time")
        if found.get("gcp") and self.text[self.at :] == "{}":  # its export of an empty line
            self.at = len(self.text)
        if container := found.get("container") or found.get("unit"):
            self.containers.append(container)
        if rank := found.get("rank"):
            self.rank = f"rank{rank}"
            self.processes.append(self.rank)
        if process := found.get("process"):
            self.processes.append(process)
            if match_rank := _RANK_IN_PROCESS.search(process):
                number, name, worker = match_rank.groups()
                self.rank = name.replace("_", " ") if name else f"rank{number or worker}"

    def _header(self) -> None:
        for pattern in _HEADERS.get(self._first(), ()):
            if match := pattern.match(self.text, self.at):
                self._take_header(match)
                break
        # SGLang logs uvicorn's lines with both headers, NCCL its own with a time before it.
        if match := _UVICORN.match(self.text, self.at):
            self.at = match.end()
            self.level = match["level"].strip().rstrip(":")
            self.header = self.header or "uvicorn"
        elif match := _NCCL.match(self.text, self.at):
            self.at = match.end()
            self.header = self.header or "nccl"

    def _take_header(self, match: re.Match[str]) -> None:
        self.at = match.end()
        found = match.groupdict()
        self.time = self.time or found.get("time")
        self.clock = found.get("clock")
        if level := found.get("level"):
            level = level.upper()
            self.level = _WORDS.get(level, level)
        if ranks := (found.get("ranks") or "").strip():
            self.rank = ranks
        self.header = f"{self.level or ''} {found.get('place') or ''}"

    def _seconds(self) -> float | None:
        if self.time is not None:
            return seconds(self.time)
        if self.clock is not None:
            minutes, second, milli, micro = self.clock.split(".")
            return int(minutes) * 60 + int(second) + int(milli) / 1e3 + int(micro) / 1e6
        return None


@lru_cache(maxsize=256)
def seconds(stamp: str) -> float | None:
    """A time stamp in seconds; good for differences between stamps of one form, whatever it leaves out."""
    clock = _CLOCK.search(stamp)
    if clock is None:
        return None
    hour, minute, second, fraction = clock.groups()
    total = int(hour) * 3600 + int(minute) * 60 + int(second) + float(f"0.{fraction or 0}")
    if zone := _ZONE.search(stamp, clock.end()):
        sign, hours, minutes = zone.groups()
        total += (-1 if sign == "+" else 1) * (int(hours) * 3600 + int(minutes) * 60)
    try:
        day = _day(stamp)
    except ValueError:  # the 31st of February: a time all the same
        day = 0
    return total + day * 86400


def _day(stamp: str) -> int:
    if match := _FULL_DATE.match(stamp):
        year, month, day = (int(part) for part in match.groups())
    elif match := _AMERICAN_DATE.match(stamp):
        month, day, year = (int(part) for part in match.groups())
    elif match := _SHORT_DATE.match(stamp):
        year, (month, day) = _LEAP_YEAR, (int(part) for part in match.groups())
    elif match := _NAMED_DATE.search(stamp):
        year, month, day = int(match[3] or _LEAP_YEAR), _MONTHS.get(match[1], 0), int(match[2])
    else:
        return 0
    return date(year, month, day).toordinal() - _EPOCH
