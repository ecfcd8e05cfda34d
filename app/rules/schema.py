"""The rule file: one YAML file, one rule."""

from __future__ import annotations

import json
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from app.core.vocabulary import Category, Confidence, Engine, Phase, Role, RuleStatus, Safety
from app.rules.conditions import Condition, Names, Part, Text, VersionRange, as_list
from app.rules.parts import ClosestPart, FixPart, FloorPart, RulePart

ID_PATTERN = r"^[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9-]*$"
FOLDERS = ("any", *Engine)


class Closest(Part, ClosestPart):
    """The nearest name in the flag catalogue: `{closest: "{flag}"}`."""

    closest: str


class Floor(Part, FloorPart):
    """A number rounded down to a multiple, and then so much more: `{floor: "{tokens}", to: 1024, plus: 256}`."""

    floor: str
    to: int = Field(default=1, ge=1)
    plus: int = Field(default=0, ge=0)


class Adjust(Part):
    """A bounded change of the number that a flag has now: it is multiplied, then added to, then kept in bounds."""

    by: float = 0.0
    times: float = Field(default=1.0, gt=0)
    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.by == 0 and self.times == 1:
            raise ValueError("changes nothing: give by or times")
        if self.min is None and self.max is None:
            raise ValueError("has no bound: give min or max")
        return self


def _as_value(value: object) -> object:
    """Numbers become the text that is typed; `true` stays: it is a bare flag."""
    if value is False or value is None:
        raise ValueError("a flag is switched off by `remove`; write true for a bare flag, text in quotes for a value")
    return value if value is True or not isinstance(value, int | float) else str(value)


def _as_env(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("write the value in quotes: YAML reads it as true or false")
    return str(value) if isinstance(value, int | float) else value


Literally = str | bool | int | float
Change = Closest | Floor
FixValue = Annotated[
    Literal[True] | str | Change, BeforeValidator(_as_value, json_schema_input_type=Literally | Change)
]
EnvValue = Annotated[str | Change, BeforeValidator(_as_env, json_schema_input_type=str | int | float | Change)]


class FixSpec(Part, FixPart):
    """A change to the launch command, or `restart: true`: the same command again."""

    safety: Safety
    loses: Annotated[tuple[str, ...], BeforeValidator(as_list, json_schema_input_type=str | list[str])] = ()
    requires: Condition | None = None  # on argv, env, version, probe, capture
    set: dict[str, FixValue] = Field(default_factory=dict)
    remove: Names | None = None
    rename: dict[str, str | Closest] = Field(default_factory=dict)
    adjust: dict[str, Adjust] = Field(default_factory=dict)
    env_set: dict[str, EnvValue] = Field(default_factory=dict)
    env_unset: Names | None = None
    restart: bool = False

    @model_validator(mode="after")
    def _is_one_action(self) -> Self:
        if self.changes and self.restart:
            raise ValueError("either a change or `restart: true`: a restart is the same command again")
        if not self.changes and not self.restart:
            raise ValueError("does nothing: give set, remove, rename, adjust, env_set, env_unset or restart")
        return self

    @model_validator(mode="after")
    def _safe_loses_nothing(self) -> Self:
        if self.safety is Safety.SAFE and self.loses:
            raise ValueError("a safe fix loses nothing: empty `loses`, or make it degrading or manual")
        return self


class Example(Part):
    """A log, a command line or both, and what the rule must say about it.

    Without a log, the rule is tried as `check` does, on the command line alone.
    """

    log: str | None = None  # a file, relative to the rule's
    text: str | None = None  # or the lines themselves
    each: str | None = None  # or lines of which each alone is such a log
    argv: str | None = None  # the launch command, env assignments first
    engine: Engine | None = None
    version: Text | None = None
    exit_code: int | None = None
    probes: dict[str, Text | list[Text]] = Field(default_factory=dict)
    match: bool = True
    line: int | None = Field(default=None, ge=1)  # the proving line
    command: str | None = None  # the corrected command
    captures: dict[str, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _shows_something(self) -> Self:
        given = [one for one in (self.log, self.text, self.each) if one is not None]
        if len(given) > 1:
            raise ValueError("give log, text or each, and only one of them")
        if not given and self.argv is None:
            raise ValueError("shows nothing: give log, text, each or argv")
        if self.each is not None and not self.each.strip():
            raise ValueError("each is empty: give a line")
        if not self.match and (self.line or self.command or self.captures):
            raise ValueError("line, command and captures belong to an example that matches")
        return self

    def single(self) -> tuple[Self, ...]:
        """The example as those that are tried: one for each line of `each`."""
        if self.each is None:
            return (self,)
        lines = [line for line in self.each.splitlines() if line.strip()]
        return tuple(self.model_copy(update={"text": line + "\n", "each": None}) for line in lines)


class Rule(Part, RulePart):
    """A rule: when it holds, what that means and what mends it."""

    id: str = Field(pattern=ID_PATTERN, max_length=100)
    title: str = Field(min_length=1, max_length=200)
    status: RuleStatus = RuleStatus.EXPERIMENTAL
    category: Category | None = None  # causes have one
    role: Role
    confidence: Confidence | None = None
    covers: Names | None = None  # more general rules that this one stands for
    engines: dict[Engine, VersionRange] | None = Field(default=None, min_length=1)
    when: Condition
    explain: str = ""
    fix: Annotated[
        tuple[FixSpec, ...],
        BeforeValidator(
            lambda value: [value] if isinstance(value, dict) else value,
            json_schema_input_type=FixSpec | list[FixSpec],
        ),
    ] = ()
    preflight: bool = False
    reaches: Phase | None = None  # progress: the phase that this line proves
    begins_launch: bool = False  # progress: a new launch begins with this line
    identifies: Engine | None = None  # progress: this engine wrote it; the capture `version` tells which
    stops: bool = False  # progress, noise: the line shows a stop that a person asked for
    references: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    disabled: Literal[False] = False

    @model_validator(mode="after")
    def _has_what_its_role_needs(self) -> Self:
        if self.role is Role.CAUSE and (self.category is None or not self.explain):
            raise ValueError("a cause needs `category` and `explain`")
        if self.role is not Role.CAUSE and (self.fix or self.preflight):
            raise ValueError("only a cause has `fix` or `preflight`")
        if self.role is not Role.PROGRESS and (self.reaches or self.begins_launch or self.identifies):
            raise ValueError("only a rule of role progress has `reaches`, `begins_launch` or `identifies`")
        if self.role in (Role.CAUSE, Role.SYMPTOM) and self.stops:
            raise ValueError("only a rule of role progress or noise has `stops`")
        return self


def json_schema() -> str:
    """The JSON Schema of a rule file, as editors use it for completion and for marking mistakes."""
    schema = Rule.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Crashcart rule"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
