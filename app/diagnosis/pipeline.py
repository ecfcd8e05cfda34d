"""The one path from bytes to a diagnosis: `diagnose`, `run`, `serve` and ingest all go through here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from app.core.model import Cause, Diagnosis, Exit, Progress
from app.core.vocabulary import Engine, Origin, Outcome, Phase

if TYPE_CHECKING:
    from app.core.catalogue import FlagCatalogue
    from app.core.command import Command
    from app.rules.load import RuleSet

CatalogueSource = Callable[["Command"], "FlagCatalogue | None"]


class Pipeline:
    """Rules and readers, ready to diagnose any number of logs. Immutable: sessions hold all state."""

    def __init__(
        self, ruleset: RuleSet, *, catalogue_for: CatalogueSource | None = None, read_source: bool = True
    ) -> None:
        """`catalogue_for` may run the engine's `--help`: give it only for commands that this machine's user launches."""
        self.ruleset = ruleset
        self.catalogue_for = catalogue_for
        self.read_source = read_source

    def session(
        self, *, engine: Engine | None = None, command: Command | None = None, origin: Origin = Origin.GIVEN
    ) -> Session:
        """A new log to be read piece by piece."""
        return Session(self, engine=engine, command=command, origin=origin)

    def diagnose_file(
        self,
        path: Path | str,
        *,
        engine: Engine | None = None,
        command: Command | None = None,
        exit: Exit = Exit(),
        origin: Origin = Origin.GIVEN,
    ) -> Diagnosis:
        """The diagnosis of a whole log file; `-` is standard input."""
        return self.session(engine=engine, command=command, origin=origin).diagnose(exit)

    def check(self, command: Command, engine: Engine | None = None) -> list[Cause]:
        """What would fail if this command was launched, best first."""
        return []


class Session:
    """One log being read. `feed` may be called from one thread while `progress` is asked from the same one."""

    def __init__(self, pipeline: Pipeline, *, engine: Engine | None, command: Command | None, origin: Origin) -> None:
        self.pipeline = pipeline
        self.engine = engine
        self.command = command
        self.origin = origin if command is not None else Origin.NONE

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the log, cut anywhere."""

    def close(self) -> None:
        """Says that the log is complete."""

    def progress(self) -> Progress:
        """How far the current launch came, by what its log says so far."""
        return Progress()

    def diagnose(
        self, exit: Exit = Exit(), probes: Mapping[str, object] | None = None, *, expected_running: bool = False
    ) -> Diagnosis:
        """The diagnosis of what was fed so far.

        `expected_running` is for supervision only: nobody asked this process to end, so a clean exit, SIGINT or
        SIGTERM is a failure too.
        """
        return Diagnosis(outcome=Outcome.UNKNOWN, phase=Phase.STARTING)
