"""The one path from bytes to a diagnosis: `diagnose`, `run`, `serve` and ingest all go through here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from app.core.arguments import ARGUMENT_ERROR_PATTERNS, ARGUMENT_TIP_PATTERN, read_argparse_error
from app.core.catalogue import FlagCatalogue
from app.core.command import Command
from app.core.errors import RuleError
from app.core.model import Cause, Diagnosis, Evidence, Exit, Line, LogDigest, Progress, Symptom
from app.core.vocabulary import Action, Engine, Origin, Outcome, Phase, Role
from app.diagnosis import rebuild
from app.diagnosis.arguments import causes_of
from app.diagnosis.assertion import read_assertion, read_check, source_evidence
from app.diagnosis.fallback import asked_for, last_resort, unasked_end
from app.diagnosis.fingerprint import fingerprint
from app.diagnosis.flags import catalogue_of
from app.diagnosis.matched import cause_of
from app.diagnosis.named import MENDED_BY_WORDS, by_its_words
from app.diagnosis.preflight import check
from app.diagnosis.ranking import Candidate, rank
from app.diagnosis.recognise import Places, progress_rules, recognise
from app.diagnosis.remedy import Bench
from app.diagnosis.source import launch_prefixes
from app.logs.digest import LogDigester, digest_file
from app.logs.patterns import PatternSet
from app.rules.load import RuleSet
from app.rules.match import match
from app.rules.scene import Match, Scene

CatalogueSource = Callable[[Command], FlagCatalogue | None]
FactSource = Callable[[Command], Mapping[str, object]]

_NO_EXIT = Exit()
_TIPS_WITHIN = 4  # lines below the error


class Pipeline:
    """Rules and readers, ready to diagnose any number of logs. Immutable: sessions hold all state."""

    def __init__(
        self,
        ruleset: RuleSet,
        *,
        catalogue_for: CatalogueSource | None = None,
        facts_for: FactSource | None = None,
        read_source: bool = True,
        cache: Path | None = None,
    ) -> None:
        """`catalogue_for` may run an engine's `--help`: give it only for commands that this machine's user launches.
        `facts_for` tells pre-flight of the machine on which a command would start: probes by their names.

        `cache` is a folder where compiled patterns are kept: later processes start a second earlier.
        """
        self.cache = cache
        self.ruleset = ruleset
        self.catalogue_for = catalogue_for
        self.facts_for = facts_for
        self.read_source = read_source

    @cached_property
    def patterns(self) -> PatternSet:
        """All that one pass over a log looks for."""
        known = self.ruleset.patterns()
        return PatternSet(
            (*known.patterns, *rebuild.PATTERNS, *ARGUMENT_ERROR_PATTERNS, ARGUMENT_TIP_PATTERN),
            known.boundaries,
            cache=self.cache,
        )

    @cached_property
    def progress_rules(self) -> RuleSet:
        return progress_rules(self.ruleset)

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
        exit: Exit = _NO_EXIT,
        origin: Origin = Origin.GIVEN,
    ) -> Diagnosis:
        """The diagnosis of a whole log file; `-` is standard input."""
        begin = time.perf_counter()
        digest = digest_file(path, self.patterns)
        return self.diagnose_digest(digest, engine=engine, command=command, exit=exit, origin=origin, begin=begin)

    def diagnose_digest(
        self,
        digest: LogDigest,
        *,
        engine: Engine | None = None,
        command: Command | None = None,
        exit: Exit = _NO_EXIT,
        origin: Origin = Origin.GIVEN,
        probes: Mapping[str, object] | None = None,
        expected_running: bool = False,
        begin: float | None = None,
    ) -> Diagnosis:
        """The diagnosis of a log that was read before."""
        begin = time.perf_counter() if begin is None else begin
        case = _Case(self, digest, engine, command, exit, origin, probes or {}, expected_running)
        return replace(case.diagnosis(), elapsed_ms=(time.perf_counter() - begin) * 1000)

    def check(
        self, command: Command, engine: Engine | None = None, *, probes: Mapping[str, object] | None = None
    ) -> list[Cause]:
        """What would fail if this command was launched, best first."""
        engine = engine or command.engine
        installed = self.catalogue_for(command) if self.catalogue_for is not None else None
        catalogue, exact = catalogue_of(engine, None, LogDigest(), installed)
        command = Command.parse(command.words(), catalogue, engine)
        if probes is None and self.facts_for is not None:
            probes = self.facts_for(command)
        return check(self.ruleset, command, catalogue, exact, probes or {})


class Session:
    """One log being read. It is used by one thread at a time."""

    def __init__(self, pipeline: Pipeline, *, engine: Engine | None, command: Command | None, origin: Origin) -> None:
        self.pipeline = pipeline
        self.engine = engine
        self.command = command
        self.origin = origin if command is not None else Origin.NONE
        self._digester = LogDigester(pipeline.patterns)

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the log, cut anywhere."""
        self._digester.feed(data)

    def close(self) -> None:
        """Says that the log is complete."""
        self._digester.close()

    def digest(self) -> LogDigest:
        """What was seen so far."""
        return self._digester.digest()

    def progress(self) -> Progress:
        """How far the current launch came, by what its log says so far."""
        engine = self.engine or (self.command.engine if self.command is not None else None)
        scene = Scene(self._digester.digest(), engine, command=self.command)
        return recognise(self.pipeline.progress_rules, scene).progress

    def diagnose(
        self, exit: Exit = _NO_EXIT, probes: Mapping[str, object] | None = None, *, expected_running: bool = False
    ) -> Diagnosis:
        """The diagnosis of what was fed so far.

        `expected_running` is for supervision only: nobody asked this process to end, so a clean exit, SIGINT or
        SIGTERM is a failure too.
        """
        return self.pipeline.diagnose_digest(
            self._digester.digest(),
            engine=self.engine,
            command=self.command,
            exit=exit,
            origin=self.origin,
            probes=probes,
            expected_running=expected_running,
        )


@dataclass
class _Case:
    """The working out of one diagnosis."""

    pipeline: Pipeline
    digest: LogDigest
    engine: Engine | None
    command: Command | None
    exit: Exit
    origin: Origin
    probes: Mapping[str, object]
    expected_running: bool

    def diagnosis(self) -> Diagnosis:
        self._learn()
        found = match(self.pipeline.ruleset, self.scene, problems=self.troubles)
        symptoms = self._symptoms(found)
        candidates = [*self._by_rules(found), *self._by_arguments(), *self._by_assertions()]
        ranked = rank(candidates, self.seen, self.engine, self.place)
        if not ranked:
            ranked = self._without_rules(found, symptoms)
        self._read_source_of(ranked)
        ranked = [self._mended(ranked[0]), *ranked[1:]] if ranked else ranked
        outcome = self._outcome(bool(ranked))
        return Diagnosis(
            outcome=outcome,
            phase=self.seen.phase,
            engine=self.engine,
            engine_version=self.version,
            command=self.command.words() if self.command is not None else None,
            origin=self.origin,
            causes=tuple(one.cause for one in ranked),
            symptoms=tuple(symptoms) if ranked else (),
            evidence=tuple(self._evidence()) if ranked else (),
            progress=self.seen.progress,
            exit=self.exit,
            fingerprint=self._fingerprint(ranked[0]) if ranked else None,
        )

    def _learn(self) -> None:
        """Engine, version, progress, command and flags, each from the best source there is."""
        self.troubles: list[RuleError] = []
        self.sources: list[Evidence] = []
        self.place = Places(self.digest)
        given = self.command
        self.engine = self.engine or (given.engine if given is not None else None)
        rebuilt = None if given is not None else rebuild.rebuild(self._dumps())
        if rebuilt is not None:
            self.command = rebuilt[0]
            self.engine = self.engine or self.command.engine
        self.origin = self.origin if given is not None else Origin.NONE if rebuilt is None else Origin.REBUILT
        self.seen = recognise(self.pipeline.progress_rules, Scene(self.digest, self.engine, command=self.command))
        self.engine, self.version = self.seen.engine, self.seen.version
        self._read_command(given)
        self.scene = Scene(
            self.digest, self.engine, self.version, self.command, self.exit, self.seen.phase, self.probes
        )

    def _read_command(self, given: Command | None) -> None:
        """Reads the command by the flags of its own version."""
        ask = self.pipeline.catalogue_for
        installed = ask(given) if ask is not None and given is not None else None
        settings = rebuild.setting_names(self._dumps())
        self.catalogue, exact = catalogue_of(self.engine, self.version, self.digest, installed, settings)
        self.version = self.version or (installed.version if installed is not None else None)
        if self.command is not None:
            self.command = Command.parse(self.command.words(), self.catalogue, self.engine)
        self.bench = Bench(self.command, self.catalogue, exact, self.engine)

    def _dumps(self) -> Iterator[tuple[str, Line]]:
        for pattern in rebuild.PATTERNS:
            for hit in self.digest.hits[pattern].kept if pattern in self.digest.hits else ():
                yield pattern, hit.line

    # -- where causes come from

    def _by_rules(self, found: Iterable[Match]) -> Iterator[Candidate]:
        for one in found:
            if one.rule.role is Role.CAUSE:
                covers = self.pipeline.ruleset.covered.get(one.rule.id, frozenset()) | frozenset(one.rule.covers or ())
                yield Candidate(cause_of(one, self.scene, self.bench), one.event, one.specificity, covers)

    def _by_arguments(self) -> Iterator[Candidate]:
        """What the program's own parser complained about: that ends a launch before anything is loaded."""
        if self.seen.phase is not Phase.STARTING:
            return
        usages = {event.last.number: event for event in self.digest.events if event.kind == "usage"}
        lines = {event.last.number: event.last for event in usages.values()}
        for pattern in ARGUMENT_ERROR_PATTERNS:
            lines |= {line.number: line for line in self._kept(pattern)}
        for number, line in sorted(lines.items()):
            event = usages.get(number)
            around = event.text if event is not None else self._tips_below(number)
            problems = read_argparse_error(line.body, around, self.command)
            for cause in causes_of(problems, self.bench, engine=self.engine, version=self.version, line=line):
                yield Candidate(cause, event)

    def _tips_below(self, number: int) -> str:
        """What clap prints below its error line: a like name, or the choices."""
        tips = (line.body for line in self._kept(ARGUMENT_TIP_PATTERN) if 0 < line.number - number <= _TIPS_WITHIN)
        return "\n".join(tips)

    def _by_assertions(self) -> Iterator[Candidate]:
        for event in self.digest.events:
            if event.chain:
                found = read_assertion(event, self.bench, self._prefixes(), read_source=self.pipeline.read_source)
                if found is not None:
                    self.sources.append(found[1])
                    yield Candidate(found[0], event)

    def _prefixes(self) -> tuple[Path, ...]:
        """Where the engine's source may be read: only below the interpreter of a command that a person gave."""
        allowed = self.pipeline.read_source and self.origin is Origin.GIVEN
        return launch_prefixes(self.command) if allowed else ()

    def _read_source_of(self, ranked: Sequence[Candidate]) -> None:
        """Beside a cause that a rule knows, what the engine's own source asked for is shown as well."""
        event = ranked[0].event if ranked and not self.sources else None
        evidence = source_evidence(event, self._prefixes()) if event is not None else None
        if evidence is not None:
            self.sources.append(evidence)

    def _without_rules(self, found: Iterable[Match], symptoms: list[Symptom]) -> list[Candidate]:
        if asked_for(self.exit, self.seen) and not self.expected_running:
            return []
        last = last_resort(self.digest, self.exit, self.seen, symptoms, self._harmless(found), self.engine)
        if last is not None:
            checked = read_check(last[1], self.bench, self._prefixes()) if last[1] is not None else None
            if checked is None:
                return [Candidate(last[0], last[1])]
            self.sources.append(checked[1])
            return [Candidate(checked[0], last[1])]
        unasked = unasked_end(self.exit, self.seen) if self.expected_running else None
        return [Candidate(unasked)] if unasked is not None else []

    def _mended(self, one: Candidate) -> Candidate:
        """A first cause that no rule mends, with what the error's own words ask for."""
        cause = one.cause
        if cause.fix is not None or cause.action is not Action.NONE or cause.category not in MENDED_BY_WORDS:
            return one
        if self.seen.phase is Phase.READY or self.command is None or self.origin is not Origin.GIVEN:
            return one
        return replace(one, cause=by_its_words(cause, one.event, self.bench))

    # -- what stands beside them

    def _symptoms(self, found: Iterable[Match]) -> list[Symptom]:
        matches = [one for one in found if one.rule.role is Role.SYMPTOM]
        matches.sort(key=lambda one: (self.place(one.line) if one.line else 0, one.rule.id))
        return [Symptom(one.rule.id, one.title, one.line) for one in matches if not self._got_over(one.line)]

    def _got_over(self, line: Line | None) -> bool:
        """Whether the server became ready after a line, or a person had stopped it by then."""
        if line is None:
            return False
        ready, stopped = self.seen.ready_at, self.seen.stopped_at
        at = self.place(line)
        return (stopped is not None and at >= stopped) or (ready is not None and at < ready)

    def _harmless(self, found: Iterable[Match]) -> set[int]:
        """The lines that noise rules know."""
        numbers: set[int] = set()
        for one in found:
            if one.rule.role is Role.NOISE:
                # A harmless line inside of a traceback says nothing about the traceback.
                whole = any(part.traceback or part.event for part in one.rule.when.walk())
                numbers |= {line.number for line in (one.event.lines if one.event and whole else ())}
                for pattern in one.rule.when.line_patterns():
                    numbers |= {line.number for line in self._kept(pattern)}
        return numbers

    def _kept(self, pattern: str) -> Iterable[Line]:
        hits = self.digest.hits.get(pattern)
        return [hit.line for hit in hits.kept] if hits else ()

    def _evidence(self) -> Iterator[Evidence]:
        yield from self.sources
        if self.exit.known:
            yield Evidence("exit", f"The process ended: {self.exit}.")
        for trouble in self.troubles:
            yield Evidence("rule", f"A rule could not be decided: {trouble}.")

    def _outcome(self, failed: bool) -> Outcome:
        if failed:
            return Outcome.FAILED
        if self.seen.phase is Phase.READY or asked_for(self.exit, self.seen):
            return Outcome.HEALTHY
        if self.seen.recognised or self.origin is Origin.REBUILT:
            return Outcome.STARTING
        return Outcome.UNKNOWN

    def _fingerprint(self, first: Candidate) -> str:
        frames = first.event.chain[0].frames if first.event is not None and first.event.chain else ()
        line = first.cause.line
        return fingerprint(
            engine=self.engine,
            category=first.cause.category,
            rule=first.cause.rule,
            root=line.body if line is not None else self.exit.signal,
            frames=frames,
        )
