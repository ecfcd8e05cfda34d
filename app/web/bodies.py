"""The bodies of requests, and examples of answers for OpenAPI."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from app.core.command import Command
from app.core.errors import CrashcartError

MAX_ID = 2**53 - 1  # the largest that every reader of JSON keeps exact
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _words(value: object) -> object:
    """A command in one string; what no shell could split (it was cut off, say) is split at its spaces."""
    if not isinstance(value, str):
        return value
    try:
        return list(Command.from_string(value).words())
    except CrashcartError:
        return value.split()


def _whole(value: object) -> object:
    """JSON knows one kind of number: 2.0 is 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _moment(value: object) -> object:
    """RFC 3339, as UTC."""
    if value is None:
        return None
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        raise ValueError("write it like 2026-12-01T01:02:03Z")
    try:
        at = datetime.fromisoformat(value.upper())
    except ValueError as error:
        raise ValueError(f"it is no time: {error}") from error
    try:
        return at.astimezone(UTC)
    except OverflowError:  # at the ends of the calendar
        return at.replace(tzinfo=UTC)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


Moment = Annotated[datetime | None, BeforeValidator(_moment, json_schema_input_type=datetime | None)]
Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]


class Ingested(_Body):
    """A failure, or a word that there is one."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"server": "demo", "text": "crashed"},
                {
                    "server": "kimi",
                    "lines": ["launch_server.py: error: unrecognized arguments: --num-speculative-tokens 16"],
                    "command": ["python3", "-m", "sglang.launch_server", "--num-speculative-tokens", "16"],
                    "exit_code": 2,
                },
            ]
        },
    )

    server: str = Field(pattern=NAME, description="Its name.")
    text: str | None = Field(None, description="Log text, or a bare word like `crashed`.")
    lines: list[str] | None = Field(None, min_length=1, description="The log as lines, instead of `text`.")
    command: Annotated[list[Text] | None, BeforeValidator(_words, json_schema_input_type=list[Text] | Text | None)] = (
        Field(None, description="The launch command: words, or one string split as a shell splits.")
    )
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Text] = Field(
        {}, description="Environment variables of the command."
    )
    exit_code: Annotated[Annotated[int, Field(strict=True, ge=-255, le=255)] | None, BeforeValidator(_whole)] = Field(
        None, description="-9 and 137 are the same."
    )
    reported_by: str | None = Field(None, max_length=200)
    occurred_at: Moment = None

    @model_validator(mode="after")
    def _one_log(self) -> Ingested:
        given = self.model_fields_set & {"text", "lines"}
        if len(given) != 1 or (self.text is None) == (self.lines is None):
            raise ValueError("give `text` or `lines`, one of the two")
        if self.text is not None and not re.search(r"\S", self.text):
            raise ValueError("`text` is empty")
        return self

    @property
    def log(self) -> str:
        """The log as one text."""
        return self.text if self.text is not None else "\n".join(self.lines or ())


def ingested_schema() -> dict[str, Any]:
    """What `Ingested` accepts, with what its validators add."""
    schema = Ingested.model_json_schema()
    schema["oneOf"] = [{"required": ["text"]}, {"required": ["lines"]}]
    fields = schema["properties"]
    fields["text"] = {"type": "string", "pattern": r"\S", "description": fields["text"]["description"]}
    lines = next(one for one in fields["lines"]["anyOf"] if one["type"] == "array")
    fields["lines"] = {**lines, "description": fields["lines"]["description"]}
    fields["env"]["additionalProperties"] = False
    return schema


class Amended(_Body):
    """What a person says of an incident; what is left out stays."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"status": "resolved", "note": "memory was added"}]}
    )

    acknowledged: StrictBool | None = None
    muted_until: Moment = None
    status: Literal["resolved"] | None = None
    note: str | None = Field(None, max_length=4000)


class Decided(_Body):
    """Approves or rejects what is proposed now."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"decision": "approve", "fix_id": 1}]})

    decision: Literal["approve", "reject"]
    fix_id: Annotated[int, BeforeValidator(_whole)] = Field(strict=True, ge=1, le=MAX_ID)


def example(description: str, value: Any) -> dict[str, Any]:
    """An answer for OpenAPI."""
    return {"description": description, "content": {"application/json": {"example": value}}}


DIAGNOSIS: dict[str, Any] = {
    "outcome": "failed",
    "phase": "starting",
    "engine": "sglang",
    "engine_version": None,
    "launch": {
        "command": ["python3", "-m", "sglang.launch_server", "--num-speculative-tokens", "16"],
        "origin": "given",
    },
    "causes": [],
    "symptoms": [],
    "evidence": [],
    "elapsed_ms": 3,
}
INCIDENT: dict[str, Any] = {
    "id": 1,
    "server": "kimi",
    "status": "open",
    "category": "unknown-argument",
    "title": "--num-speculative-tokens is not known",
    "fingerprint": "a1b2c3d4",
    "opened_at": "2026-12-01T01:00:00.000Z",
    "updated_at": "2026-12-01T01:00:00.000Z",
    "resolved_at": None,
    "regressed": False,
    "acknowledged": False,
    "muted_until": None,
    "launches": [],
    "proposal": None,
    "timeline": [{"at": "2026-12-01T01:00:00.000Z", "kind": "reported", "text": "reported by ingest"}],
}
SERVER: dict[str, Any] = {
    "name": "kimi",
    "engine": "sglang",
    "state": "loading",
    "evidence": "its log says so",
    "progress": {"phase": "loading", "percent": 67.0, "text": "Loading safetensors: 67%"},
    "since": "2026-12-01T01:00:00.000Z",
    "pid": 4711,
    "command": ["python3", "-m", "sglang.launch_server", "--model-path", "/models/kimi"],
    "last_good_command": None,
    "mode": "propose",
    "decision": "none",
    "supervised": True,
}
RULE: dict[str, Any] = {
    "id": "sglang/speculative-draft-tokens-missing",
    "role": "cause",
    "title": "EAGLE settings need --speculative-num-draft-tokens",
    "category": "missing-argument",
    "status": "stable",
}
