"""Every error that Crashcart raises on purpose.

CrashcartError            something a person can mend; its text says what, where and how
├── UsageError            the command line or an input file is wrong (exit 2)
│   └── ConfigError       the configuration is wrong; names each field
├── RuleError             a rule file is wrong; names file and field
├── CommandError          a launch command can't be read or edited as asked
├── LaunchError           a server can't be started, ended or followed
└── StoreError            the state folder or database can't be used
    ├── NotFoundError     it holds no such thing
    ├── StaleError        what was decided on is no longer proposed
    └── AlreadyTriedError this changed command was run in this incident before
"""

from __future__ import annotations

from pathlib import Path

from app.core.vocabulary import Category


class CrashcartError(Exception):
    """Something that a person can mend. `str(error)` is a complete sentence; `mend` says what to do."""

    def __init__(self, message: str, *, mend: str | None = None) -> None:
        super().__init__(message)
        self.mend = mend


class UsageError(CrashcartError):
    """The command line or an input file is wrong; the CLI exits with 2."""


class ConfigError(UsageError):
    """The configuration is wrong: each of `problems` names a field, what is wrong with it and the mend."""

    def __init__(self, message: str, problems: tuple[str, ...] = (), *, mend: str | None = None) -> None:
        super().__init__("\n  ".join((message, *problems)), mend=mend)
        self.problems = problems


class RuleError(CrashcartError):
    """A rule file is wrong: `path` and `field` say where."""

    def __init__(
        self, message: str, *, path: Path | None = None, field: str | None = None, mend: str | None = None
    ) -> None:
        super().__init__(message, mend=mend)
        self.path = path
        self.field = field


class CommandError(CrashcartError):
    """A launch command can't be read, or an edit does not apply to it."""


class LaunchError(CrashcartError):
    """A server process can't be started, ended or followed; `category` is the kind of failure, where one is known."""

    def __init__(self, message: str, *, category: Category | None = None, mend: str | None = None) -> None:
        super().__init__(message, mend=mend)
        self.category = category


class StoreError(CrashcartError):
    """The state folder or its database can't be used."""


class NotFoundError(StoreError):
    """The store holds no server, incident or proposal of that name."""


class StaleError(StoreError):
    """A decision on something that is not, or no longer, proposed."""


class AlreadyTriedError(StoreError):
    """A changed command that this incident has seen before: it is never run twice."""
