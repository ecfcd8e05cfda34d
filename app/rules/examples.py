"""A rule's examples, tried on the real path from bytes to matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.core.command import Command
from app.core.errors import CommandError
from app.core.model import Cause, Exit, Line, LogDigest
from app.core.vocabulary import Engine, Role
from app.logs.digest import LogDigester
from app.logs.patterns import PatternSet
from app.rules.load import RuleSet
from app.rules.match import furthest_phase, match, match_preflight
from app.rules.scene import Match, Scene

if TYPE_CHECKING:
    from app.rules.schema import Example, Rule

# What the whole diagnosis says, best first. It lives on a floor above this one, so it is handed in.
Judge = Callable[[Scene, bytes | None], Sequence[Cause]]


@dataclass(frozen=True)
class Tried:
    """One example after it was tried; `problems` is empty when it says what it should."""

    rule: Rule
    number: int  # 1-based in the rule file
    example: Example
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        """What to call the example in a list."""
        return self.example.log or ("its text" if self.example.text is not None else "its command line")


class Workbench:
    """Tries examples of one set of rules: patterns are compiled once for all of them."""

    def __init__(self, ruleset: RuleSet, judge: Judge | None = None) -> None:
        self.ruleset = ruleset
        self.judge = judge
        self._patterns: PatternSet = ruleset.patterns()

    def digest(self, data: bytes) -> LogDigest:
        """A log's digest under all rules."""
        digester = LogDigester(self._patterns)
        digester.feed(data)
        digester.close()
        return digester.digest()

    def try_all(self, rule: Rule) -> Iterator[Tried]:
        """Every example of a rule, in the order of its file."""
        for number, written in enumerate(rule.examples, 1):
            for example in written.single():
                try:
                    problems = tuple(self._problems(rule, example))
                except (OSError, CommandError) as error:
                    problems = (f"can't be tried: {error}",)
                if written.each is not None:
                    problems = tuple(f"{(example.text or '').strip()[:100]!r} {text}" for text in problems)
                yield Tried(rule, number, example, problems)

    def scene(self, rule: Rule, example: Example) -> tuple[Scene, bytes | None]:
        """An example as the rules see it, with the bytes of its log; None where it is a command line alone."""
        engine = example.engine or (Engine(rule.folder) if rule.folder != "any" else None)
        command = None if example.argv is None else Command.from_string(example.argv, engine=engine)
        scene = Scene(
            engine=engine or (command.engine if command else None),
            version=example.version,
            command=command,
            exit=Exit.from_code(example.exit_code),
            probes={name: list(value) if isinstance(value, list) else value for name, value in example.probes.items()},
        )
        data = self._bytes(rule, example)
        return (scene if data is None else self.with_log(scene, data)), data

    def matching(self, rule: Rule) -> list[Scene]:
        """The scenes of all examples that the rule is to hold on, as far as they can be read."""
        found = []
        for example in (single for written in rule.examples if written.match for single in written.single()):
            try:
                found.append(self.scene(rule, example)[0])
            except (OSError, CommandError):
                continue  # `try_all` tells of it
        return found

    def lines(self, scene: Scene) -> list[Line]:
        """All lines that any rule's pattern holds on, in a scene's log."""
        return [hit.line for hits in scene.digest.hits.values() for hit in hits.kept]

    def with_log(self, scene: Scene, data: bytes) -> Scene:
        """A scene with the digest of a log and the phase that it reached."""
        scene = replace(scene, digest=self.digest(data))
        return replace(scene, phase=furthest_phase(self.ruleset, scene))

    def _bytes(self, rule: Rule, example: Example) -> bytes | None:
        if example.text is not None:
            return example.text.encode()
        if example.log is None:
            return None
        path: Path = self.ruleset.paths[rule.id].parent / example.log
        return path.read_bytes()

    def _problems(self, rule: Rule, example: Example) -> Iterator[str]:
        scene, data = self.scene(rule, example)
        matches = match_preflight(self.ruleset, scene) if data is None else match(self.ruleset, scene)
        own = next((one for one in matches if one.rule.id == rule.id), None)
        if not example.match:
            if own is not None:
                yield f"matches, but must not{_at(own)}"
            return
        if own is None:
            yield "does not match"
            return
        yield from _assertions(example, own)
        if rule.role is Role.CAUSE:
            yield from self._verdict(rule, example, scene, data, matches, own)

    def _verdict(
        self, rule: Rule, example: Example, scene: Scene, data: bytes | None, matches: Sequence[Match], own: Match
    ) -> Iterator[str]:
        """Whether the rule comes out first, and with the corrected command that the example asserts."""
        if self.judge is None:
            yield from (f"is won by {rival}, which does not cover this rule" for rival in self._rivals(own, matches))
            return
        causes = self.judge(scene, data)
        first = causes[0].rule if causes else None
        if first != rule.id and rule.id not in self.ruleset.covered.get(first or "", ()):
            yield f"is won by {first or 'no cause'}, which does not cover this rule"
        said = next((cause for cause in causes if cause.rule == rule.id), None)
        if said is not None and said.fix is not None and said.command is not None:
            again = Command.parse(said.command, None, scene.engine).apply(said.fix).words()
            if again != said.command:
                yield f"the fix, applied again, changes more:\n  {_shell(again)}"
        if example.command is not None:
            got = said.command if said else None
            wanted = Command.from_string(example.command).words()
            if got != wanted:
                yield f"the corrected command is\n  {_shell(got)}\nand not\n  {_shell(wanted)}"

    def _rivals(self, own: Match, matches: Sequence[Match]) -> Iterator[str]:
        """Other causes on the same line or event that are as specific, and neither side declares it."""
        below = self.ruleset.covered[own.rule.id]
        for other in matches:
            same = other.line == own.line or (own.event is not None and other.event == own.event)
            declared = other.rule.id in below or own.rule.id in self.ruleset.covered[other.rule.id]
            rival = other is not own and other.rule.role is Role.CAUSE and other.specificity >= own.specificity
            if rival and same and not declared:
                yield other.rule.id


def _assertions(example: Example, own: Match) -> Iterator[str]:
    number = own.line.number if own.line else None
    if example.line is not None and number != example.line:
        yield f"is proven by line {number}, not by line {example.line}"
    for name, wanted in example.captures.items():
        if own.captures.get(name) != wanted:
            yield f"captures {own.captures.get(name)!r} as {name}, not {wanted!r}"


def _at(own: Match) -> str:
    return f" (line {own.line.number}: {own.line.text[:120]})" if own.line else ""


def _shell(words: Sequence[str] | None) -> str:
    return "none" if words is None else Command.parse(words).shell()


def inside_a_prompt(data: bytes) -> bytes:
    """A log whose every line was written by a stranger: as servers log the prompts that they are sent."""
    lines = data.decode("utf-8", "replace").splitlines()
    wrapped = [
        f"[2026-01-12 10:00:00] Receive: obj=GenerateReqInput(rid='7', text={line!r}, stream=True)" for line in lines
    ]
    return "\n".join([*wrapped, ""]).encode()
