"""Between the values of `app.core.model` and the JSON columns. All that goes in is redacted here."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from app.core.model import Diagnosis, Fix, Progress
from app.core.redact import redact_env, redact_text, redact_words


@functools.cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def text_in(text: str) -> str:
    """A text for storing. Bytes that were no UTF-8 (file names, arguments) can't be stored as text: they are marked."""
    return redact_text(text.encode("utf-8", "replace").decode("utf-8"))


def path_in(path: Path | None) -> str | None:
    """A path for storing."""
    return None if path is None else os.fsencode(path).decode("utf-8", "backslashreplace")


def words_in(words: Sequence[str]) -> list[str]:
    """A command for storing."""
    return list(redact_words(words))


def diagnosis_in(diagnosis: Diagnosis) -> dict[str, Any]:
    data: dict[str, Any] = _redacted(_adapter(Diagnosis).dump_python(diagnosis, mode="json"))
    for cause, stored in zip(diagnosis.causes, data["causes"], strict=True):
        stored["fix"] = None if cause.fix is None else fix_in(cause.fix)
    return data


def diagnosis_out(data: Mapping[str, Any] | None) -> Diagnosis | None:
    return None if data is None else _adapter(Diagnosis).validate_python(data)


def fix_in(fix: Fix) -> dict[str, Any]:
    data: dict[str, Any] = _adapter(Fix).dump_python(fix, mode="json")
    data["set"] = {flag: _value_in(flag, value) for flag, value in fix.set.items()}
    data["env_set"] = dict(redact_env(fix.env_set))
    return data


def fix_out(data: Mapping[str, Any] | None) -> Fix | None:
    return None if data is None else _adapter(Fix).validate_python(data)


def progress_in(progress: Progress) -> dict[str, Any]:
    data: dict[str, Any] = _redacted(_adapter(Progress).dump_python(progress, mode="json"))
    return data


def progress_out(data: Mapping[str, Any] | None) -> Progress | None:
    return None if data is None else _adapter(Progress).validate_python(data)


def _value_in(flag: str, value: Any) -> Any:
    return redact_words([flag, value])[1] if isinstance(value, str) else value


def _redacted(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {name: _redacted(inner, name) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        if key == "command":
            return words_in(value)
        return [_redacted(inner) for inner in value]
    return value
