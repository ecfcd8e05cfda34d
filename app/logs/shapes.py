"""The shapes of lines from which events are put together; all are tried on bodies."""

from __future__ import annotations

import re
from enum import Enum, auto

from app.logs.prefix import Parsed

# Text before the header is a program's own ("Scheduler hit an exception: "); quotes would mean that it is quoted.
HEADER = re.compile(
    r"(?P<indent>\s*)(?P<lead>[^\s'\"][^'\"]{0,200}?[:\]>!.,|-]\s+|\+ Exception Group )?"
    r"Traceback \(most recent call last\):\s*$"
)
FRAME = re.compile(r'(?P<indent>\s*)File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.+?))?\s*$')
CHAIN = re.compile(
    r"\s*(?:(?P<cause>The above exception was the direct cause of the following exception:)"
    r"|(?P<context>During handling of the above exception, another exception occurred:))\s*$"
)
# `Type: message` or `Type` alone. A word of its own must look like a class, a dotted one may end in lower case.
EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.)*(?P<name>[A-Za-z_]\w*)(?:\([A-Z]\w*\))?)(?::(?:\s+(?P<message>.*))?)?\s*$", re.DOTALL
)
_CLASS = re.compile(r"[A-Z]\w*[a-z]\w*|[A-Z]{2,}[a-z]\w*|_[A-Z]\w*")
_NAMED_ERROR = re.compile(
    r"\w*(?:Error|Exception|Interrupt|Exit|Failure|Timeout|Warning|OutOfResources|ExceptionGroup|StopIteration)"
)
_NOT_TYPES = {
    "Killed", "Terminated", "Aborted", "Traceback", "Warning", "Note", "Loading", "Error", "Info", "Debug", "Usage",
    "Hint", "Process", "Uncaught", "Exception", "Fatal", "Critical", "Possible", "Suggestions",
}  # fmt: skip
_FILE_ENDINGS = {"py", "cc", "cpp", "cu", "c", "h", "so", "json", "sh", "pyx", "go", "rs", "service"}

CARETS = re.compile(r"\s*[\^~][\^~\s|]*$")
REPEATED = re.compile(r"\s*\[Previous line repeated \d+ more times?\]\s*$")
GROUP_BARS = re.compile(r"\s*(?:\|(?: |$)|\+-[+-]*-(?: \d+ -+)?|\+ (?=Exception Group))")

PROGRESS = re.compile(r".{0,200}(?:\d+%\s?(?:\||Completed)|\d(?:it/s|s/it)\b)")
# A bare line that begins something new: it can't continue a message.
RECORD = re.compile(
    r"""
      (?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b
    | \[[^\]]{0,40}\d\d:\d\d:\d\d
    | \d{4}-\d\d-\d\d[T ]\d\d:\d\d
    | \[?[IWEF]\d{3,4}\s\d\d:\d\d
    | [Uu]sage:\s
    | \S+\.(?:py|pyx):\d+:\s                        # Python warnings
    | Exception\signored\sin | Process\s\S+:$
    | Killed\b | Terminated\b | Aborted\b | Segmentation\sfault | Bus\serror
    | terminate\scalled | Fatal\sPython\serror | \*\*\*\sSIG | !!!!!!!
    | \S+\sexited\swith\scode | (?:bash|sh|make)(?:\[\d+\])?:\s
    | \S+@\S+:\S*[\#$]\s | \$\s
    | [\w.-]+:\d+:\d+\s\[\d+\]\sNCCL
    """,
    re.VERBOSE,
)
NATIVE = re.compile(
    r"\s*(?:!{3,}.*[Ss]egfault|\*\*\* SIG[A-Z]+|terminate called|what\(\): |Fatal Python error: |.*\bSegmentation fault"
    r"|.*\(core dumped\)|.*\bBus error\b|GGML_ASSERT|GGML_ABORT|\S+:\d+: GGML_ASSERT|C\+\+ Traceback \(most recent"
    r"|\*\*\* Process received signal|.{0,200}\bAssertion .{1,200} failed|panic: |fatal error: )"
)
NATIVE_MORE = re.compile(
    r"""\s*(?:
      \#\d+\s | frame\s\#\d+ | @\s+0x | \[?\s?\d*\]?\s*0x[0-9a-f]+ | File\s" | (?:Current\s)?[Tt]hread\s0x
    | Current\sthread | Extension\smodules | \*\*\* | PC:\s | what\(\): | terminate\scalled | Exception\sraised\sfrom
    | (?:\S+/)?\S+\(.*\)\s?\[0x | /\S+\.so | \[\S+:\d+\] | Stack\b | Backtrace | C\+\+ | C\sTraceback | Aborted
    | Segmentation\sfault | Fatal\sPython\serror | !{3,} | -{4,} | ={4,} | \[New\sLWP | \[Thread\sdebugging
    | \[Inferior | warning: | Using\shost | __\w+\s\( | \d+\s+\S+\s+0x | Signal\b | Error(?:Message|Code) | goroutine
    | For\smore\sinformation | Python\sruntime\sstate | <no\sPython\sframe> | See\s | \d+\tin\s
    )""",
    re.VERBOSE,
)
ARGPARSE = re.compile(r"(?P<program>[^\s'\"\[(][^'\"]{0,80}?): error: (?P<text>.*)$")
ARGPARSE_TEXT = re.compile(
    r"unrecognized arguments|argument |the following arguments are required|ambiguous option|one of the arguments"
    r"|too few arguments|invalid choice|expected .* argument|unknown option|no such option"
)
USAGE = re.compile(r"\s*[Uu]sage: [^\s\d]")
USAGE_END = re.compile(r"(?:[^\s'\"\[(][^'\"]{0,80}?: error: |Error: |error: )")
_ERROR = re.compile(
    r"""
      (?:[Ee]rror|ERROR|FATAL|[Ff]atal|CRITICAL)(?:\s\S{1,40})?:\s | \[(?:ERROR|E|FATAL|CRITICAL|F)\]
    | (?:ERROR|FATAL|CRITICAL)\b | error\swhile\shandling\sargument
    | [^'"]{1,80}:\serror:\s | .{0,120}\bexited\swith\scode\s[1-9]
    | .{0,200}\bKilled(?:$|\s+\S*python|\sprocess) | .{0,80}[Oo]ut\sof\s[Mm]emory:\sKilled\sprocess | Killed\b
    | (?:\S+\s)?NCCL\s(?:WARN|ERROR) | [^'"]{0,60}CUDA\s(?:driver\s)?error | [^'"]{0,120}\bout\sof\smemory\b
    | (?:msg=.*)?\s?[^'"]{0,60}\b(?:level=ERROR|panic:)\s?
    """,
    re.VERBOSE,
)
SEVERE = frozenset({"ERROR", "CRITICAL", "FATAL", "ALERT", "EMERGENCY"})


class Opening(Enum):
    """What a line begins, when nothing open wants it."""

    TRACEBACK = auto()
    FRAMES = auto()  # a traceback whose header is missing
    USAGE = auto()
    ARGPARSE = auto()  # an argparse error whose usage block is missing
    NATIVE = auto()
    ERROR = auto()


def opening(parsed: Parsed) -> Opening | None:
    """What event a line begins."""
    body = parsed.line.body
    if HEADER.match(body):
        return Opening.TRACEBACK
    if FRAME.match(body):
        return Opening.FRAMES
    if USAGE.match(body):
        return Opening.USAGE
    if parsed.header is None and NATIVE.match(body):
        return Opening.NATIVE
    if (found := ARGPARSE.match(body)) and ARGPARSE_TEXT.match(found["text"]):
        return Opening.ARGPARSE
    if parsed.line.level in SEVERE and body.strip():
        return Opening.ERROR
    if _ERROR.match(body) or is_named_error(body):
        return Opening.ERROR
    return None


def exception(content: str) -> re.Match[str] | None:
    """A line that can end a traceback: `Type: message` or `Type`."""
    found = EXCEPTION.match(content)
    if found is None:
        return None
    name, dotted = found["name"], "." in found["type"]
    if _NAMED_ERROR.fullmatch(name) and name not in ("Warning",):
        return found if name != "Error" or dotted or found["message"] else None
    if dotted:
        by_colon = found.end("type") < len(content.rstrip()) and name.lower() not in _FILE_ENDINGS
        return found if by_colon or _CLASS.fullmatch(name) else None
    return found if name not in _NOT_TYPES and _CLASS.fullmatch(name) else None


def is_named_error(content: str) -> bool:
    """A line `SomethingError: …` outside a traceback."""
    found = EXCEPTION.match(content)
    if found is None or found["name"] in _NOT_TYPES or found["name"].endswith("Warning"):
        return False
    return _NAMED_ERROR.fullmatch(found["name"]) is not None


def continues_traceback(content: str) -> bool:
    """Whether a line looks like the inside of a traceback: a frame, a header, carets, an exception."""
    return bool(FRAME.match(content) or HEADER.match(content) or CARETS.match(content) or exception(content))


def begins_record(body: str) -> bool:
    """Whether a bare line can't be the continuation of a message."""
    return bool(RECORD.match(body) or PROGRESS.match(body) or HEADER.match(body) or FRAME.match(body))
