"""The bodies of requests, and examples of answers for OpenAPI."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from app.core.command import Command
from app.core.errors import CrashcartError

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def _words(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return list(Command.from_string(value).words())
    except CrashcartError as error:
        raise ValueError(str(error)) from error


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


Moment = Annotated[datetime, Field(description="RFC 3339")]
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
    lines: list[str] | None = Field(None, description="The log as lines, instead of `text`.")
    command: Annotated[list[Text] | None, BeforeValidator(_words, json_schema_input_type=list[Text] | str | None)] = (
        Field(None, description="The launch command: words, or one string split as a shell splits.")
    )
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Text] = Field(
        {}, description="Environment variables of the command."
    )
    exit_code: int | None = Field(None, ge=-255, le=255, description="-9 and 137 are the same.")
    reported_by: str | None = Field(None, max_length=200)
    occurred_at: datetime | None = None

    @model_validator(mode="after")
    def _one_log(self) -> Ingested:
        if (self.text is None) == (self.lines is None):
            raise ValueError("give `text` or `lines`, one of the two")
        if not self.log.strip():
            raise ValueError("`text` is empty" if self.lines is None else "`lines` is empty")
        return self

    @property
    def log(self) -> str:
        """The log as one text."""
        return self.text if self.text is not None else "\n".join(self.lines or ())


class Amended(_Body):
    """What a person says of an incident; what is left out stays."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"status": "resolved", "note": "memory was added"}]}
    )

    acknowledged: bool | None = None
    muted_until: datetime | None = None
    status: Literal["resolved"] | None = None
    note: str | None = Field(None, max_length=4000)


class Decided(_Body):
    """Approves or rejects what is proposed now."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"decision": "approve", "fix_id": 1}]})

    decision: Literal["approve", "reject"]
    fix_id: int = Field(ge=1, le=2**63 - 1)


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
