"""The `when` of a rule file: what may be asked of a log, a command line and a machine.

A condition is a mapping; each of its keys is one question and all of them must hold. `all`, `any` and `none` nest.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from app.core.vocabulary import Phase
from app.rules.parts import ComparisonPart, ConditionPart
from app.rules.shapes import spelled_out
from app.rules.version import valid_range

Scalar = str | bool | int | float
Pattern = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(spelled_out)]


class Part(BaseModel):
    """A part of a rule file: unknown fields are mistakes, values don't change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def as_list(value: object) -> object:
    return [value] if isinstance(value, str | int) and not isinstance(value, bool) else value


def _as_regex(value: object) -> object:
    return {"regex": value} if isinstance(value, str) else value


def as_text(value: object) -> object:
    """Numbers may be written bare; YAML's booleans are the words true and false."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _as_texts(value: object) -> object:
    return [as_text(item) for item in value] if isinstance(value, list) else value


Text = Annotated[str, BeforeValidator(as_text, json_schema_input_type=Scalar)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_as_texts, json_schema_input_type=list[Scalar])]
Names = Annotated[
    tuple[str, ...], BeforeValidator(as_list, json_schema_input_type=str | list[str]), Field(min_length=1)
]
Codes = Annotated[
    tuple[int, ...], BeforeValidator(as_list, json_schema_input_type=int | list[int]), Field(min_length=1)
]
Phases = Annotated[
    tuple[Phase, ...], BeforeValidator(as_list, json_schema_input_type=Phase | list[Phase]), Field(min_length=1)
]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def read_duration(value: object) -> object:
    """`60s`, `2m`, `500ms`, `30` → seconds; anything else is returned for the schema to refuse."""
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(found[1]) * _SECONDS[found[2]] if found else value


Seconds = Annotated[float, BeforeValidator(read_duration, json_schema_input_type=str | float), Field(gt=0)]


class LineLeaf(Part):
    """A log line that the pattern is found in, after the prefixes (time, rank, process, level)."""

    regex: Pattern
    rank: str = "any"  # any, same (as the anchor) or one rank's name


class EventLeaf(Part):
    """Lines that belong together (a traceback, a usage block, ...) that the pattern is found in."""

    regex: Pattern
    rank: str = "any"
    kind: Literal["traceback", "usage", "native", "error"] | None = None


class TracebackLeaf(Part):
    """A Python exception. `frame`, `file` and `code` must hold for one and the same frame."""

    type: Pattern | None = None  # the whole type, with or without its module
    message: Pattern | None = None  # found in the message
    frame: Pattern | None = None  # the whole name of a function
    file: Names | None = None  # the end of a frame's path, whole parts
    code: Pattern | None = None  # found in the statement shown
    chain: Literal["first", "last", "any"] = "any"
    rank: str = "any"

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not (self.type or self.message or self.frame or self.file or self.code):
            raise ValueError("asks nothing: give at least one of type, message, frame, file, code")
        return self


class ExitLeaf(Part):
    """How the process ended. 137 and -9 are SIGKILL."""

    code: Codes | None = None
    signal: Names | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.code is None and self.signal is None:
            raise ValueError("asks nothing: give code or signal")
        return self


class Comparison(Part, ComparisonPart):
    """Comparisons with a value. Numbers are compared as numbers; text may hold captures in braces."""

    equals: Text | None = None
    matches: Pattern | None = None
    in_: Texts | None = Field(default=None, alias="in")
    gt: Text | None = None
    ge: Text | None = None
    lt: Text | None = None
    le: Text | None = None
    multiple_of: Text | None = None


class ArgvLeaf(Comparison):
    """The launch arguments. `--a|--b` means either spelling; a list in `has` or `lacks` means each of them."""

    has: Names | None = None
    lacks: Names | None = None
    flag: str | None = None  # the one whose value the comparisons are about
    absent: bool | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.tests and self.flag is None:
            raise ValueError("a comparison needs `flag`: the flag whose value is compared")
        if self.flag is not None and not self.tests and self.absent is None:
            raise ValueError("`flag` needs a comparison (equals, matches, in, gt, ge, lt, le) or `absent`")
        if self.has is None and self.lacks is None and self.flag is None:
            raise ValueError("asks nothing: give has, lacks or flag")
        return self


class EnvLeaf(Comparison):
    """The environment given in the launch command. Comparisons are about the one variable in `has`."""

    has: Names | None = None
    lacks: Names | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.has is None and self.lacks is None:
            raise ValueError("asks nothing: give has or lacks")
        if self.tests and (self.has is None or len(self.has) != 1):
            raise ValueError("a comparison needs one name in `has`")
        return self


class CaptureLeaf(Comparison):
    """A value that was captured: it is there, and the comparisons hold."""

    name: str


class CountLeaf(Part):
    """A line that comes often: at least `at_least` times, where given within a time."""

    line: Pattern
    at_least: int = Field(ge=2, le=1000)  # hits are counted so far
    within: Seconds | None = None


class FollowsLeaf(Part):
    """The line found last comes after this one, where given at most so many lines later."""

    line: Pattern
    within_lines: int | None = Field(default=None, ge=1)


class WithoutLeaf(Part):
    """This line does not come: nowhere, or not after (or before) the line found last."""

    line: Pattern
    after: bool = False
    before: bool = False


class ProbeTest(Comparison):
    """Comparisons with what a probe found."""

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not self.tests:
            raise ValueError("asks nothing: give equals, matches, in, gt, ge, lt, le or multiple_of")
        return self


def _as_test(value: object) -> object:
    return {"equals": value} if isinstance(value, str | int | float) else value


ProbeLeaf = dict[str, Annotated[ProbeTest, BeforeValidator(_as_test, json_schema_input_type=Scalar | ProbeTest)]]


def _known_range(value: str) -> str:
    if not valid_range(value):
        raise ValueError("is no version range; write for example '>=0.4' or '>=0.5.3,<0.6'")
    return value


VersionRange = Annotated[str, AfterValidator(_known_range), Field(description="for example '>=0.4,<0.6'")]


class Condition(Part, ConditionPart):
    """One or several questions that must all hold."""

    all: tuple[Condition, ...] | None = Field(default=None, min_length=1)
    any: tuple[Condition, ...] | None = Field(default=None, min_length=1)
    line: Annotated[LineLeaf, BeforeValidator(_as_regex, json_schema_input_type=str | LineLeaf)] | None = None
    event: Annotated[EventLeaf, BeforeValidator(_as_regex, json_schema_input_type=str | EventLeaf)] | None = None
    traceback: TracebackLeaf | None = None
    count: CountLeaf | None = None
    follows: FollowsLeaf | None = None
    without: WithoutLeaf | None = None
    exit: ExitLeaf | None = None
    phase: Phases | None = None
    argv: ArgvLeaf | None = None
    env: EnvLeaf | None = None
    version: VersionRange | None = None
    capture: CaptureLeaf | None = None
    probe: ProbeLeaf | None = Field(default=None, min_length=1)
    none: tuple[Condition, ...] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("asks nothing: an empty condition would always hold")
        return self
