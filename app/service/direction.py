"""Whether a change would undo an earlier one: two errors that ask for opposite moves are for a person to weigh."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.command import Command
from app.store.views import AttemptView
from app.store.words import AttemptKind, AttemptOutcome

Values = dict[str, str | None]


def opposes(
    command: Command, now: Command, attempts: Sequence[AttemptView], commands: Sequence[tuple[str, ...]]
) -> str | None:
    """Says which earlier change of this incident the step from `now` to `command` would undo; None when none.

    `commands` are those of the incident's launches, oldest first, so that the one before an attempt is known.
    """
    step = _difference(now, command)
    for attempt in attempts:
        if attempt.kind is not AttemptKind.RELAUNCH or attempt.outcome is AttemptOutcome.INTERRUPTED:
            continue
        earlier = _difference(_before(attempt, commands), Command.parse(attempt.command))
        for name in step.keys() & earlier.keys():
            if _opposite(earlier[name], step[name]):
                return (
                    f"two failures ask for opposite moves of {name}: {_move(earlier[name])} "
                    f"({attempt.rule}), now {_move(step[name])}"
                )
    return None


def _before(attempt: AttemptView, commands: Sequence[tuple[str, ...]]) -> Command:
    words = list(commands)
    place = words.index(attempt.command) if attempt.command in words else len(words)
    return Command.parse(words[place - 1] if place else attempt.command)


def _difference(old: Command, new: Command) -> dict[str, tuple[str | None, str | None]]:
    """What a change moved: flag or variable → value before and after, None for absent."""
    before, after = _values(old), _values(new)
    names = sorted(before.keys() | after.keys())
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def _values(command: Command) -> Values:
    found: Values = dict(command.env)
    for word in command.argv:
        if word.startswith("--"):
            name = word.partition("=")[0]
            value = command.get(name)
            found[name] = value if isinstance(value, str) else ""
    return found


def _opposite(earlier: tuple[str | None, str | None], now: tuple[str | None, str | None]) -> bool:
    first, second = _direction(earlier), _direction(now)
    if first is not None and second is not None:
        return first * second < 0
    # Not numbers: adding back what was taken away, or taking away what was added.
    return earlier[0] == now[1]


def _direction(move: tuple[str | None, str | None]) -> float | None:
    try:
        return float(move[1] or "") - float(move[0] or "")
    except ValueError:
        return None


def _move(move: tuple[str | None, str | None]) -> str:
    before, after = move
    if after is None:
        return "removed"
    return f"set to {after or 'on'}" if before is None else f"from {before or 'on'} to {after or 'on'}"
