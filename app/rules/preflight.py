"""What of a rule can be asked before a launch: its questions to the command line and the machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.rules.conditions import Condition

_DECIDED = ("argv", "env", "version", "capture", "probe")
_LOG = ("line", "event", "traceback", "count", "follows", "without", "exit", "phase")


def before_launch(condition: Condition) -> Condition | None:
    """A condition without what only a log can answer; None when nothing would be left that decides.

    In an `all`, a question to the log is taken as holding beside one to the command line: that is what a rule
    claims when it says `preflight: true`. In an `any` only the branches that the command line decides count.
    """
    kept = _prune(condition)
    return kept if kept is not None and _decides(kept) else None


def _prune(condition: Condition) -> Condition | None:
    fields: dict[str, object] = {name: value for name in _DECIDED if (value := getattr(condition, name)) is not None}
    if parts := _known(_prune(child) for child in condition.all or ()):
        fields["all"] = parts
    if parts := _known(before_launch(child) for child in condition.any or ()):
        fields["any"] = parts
    if parts := tuple(child for child in condition.none or () if not _asks_log(child)):
        fields["none"] = parts
    return type(condition).model_construct(**fields) if fields else None  # type: ignore[arg-type]


def _known(parts: Iterable[Condition | None]) -> tuple[Condition, ...]:
    return tuple(part for part in parts if part is not None)


def _asks_log(condition: Condition) -> bool:
    return any(getattr(part, name) is not None for part in condition.walk() for name in _LOG)


def _decides(condition: Condition) -> bool:
    """Whether something that was typed, or a probe, must be so."""
    own = condition.argv is not None or condition.env is not None or condition.probe is not None
    return own or any(map(_decides, (*(condition.all or ()), *(condition.any or ()))))
