"""The rules in use: the built-in ones, then those of site folders, which add, replace or switch off."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import regex

from app.core.errors import RuleError
from app.core.resources import rules_folder
from app.logs.patterns import PatternSet
from app.rules import checked
from app.rules.evaluate import Solver

if TYPE_CHECKING:
    from app.rules.schema import Rule


@dataclass(frozen=True)
class RuleSet:
    """Rules in the order of their ids, and what was wrong with the files that are not among them."""

    rules: tuple[Rule, ...] = ()
    problems: tuple[RuleError, ...] = ()
    paths: Mapping[str, Path] = field(default_factory=dict)  # by rule id
    cache: Path | None = field(default=None, compare=False)  # a folder where compiled patterns are kept

    @functools.cached_property
    def by_id(self) -> Mapping[str, Rule]:
        return {rule.id: rule for rule in self.rules}

    @functools.cached_property
    def covered(self) -> Mapping[str, frozenset[str]]:
        """For each rule, the ids of the more general rules that it stands for, directly or through others.

        Rules that cover each other are reported in `problems` and don't count: both would disappear.
        """
        direct = {rule.id: rule.covers or () for rule in self.rules}
        reached = {name: _reachable(name, direct) for name in direct}
        return {
            name: frozenset(below for below in reached[name] if name not in reached.get(below, ())) - {name}
            for name in direct
        }

    @functools.cached_property
    def depth(self) -> Mapping[str, int]:
        """How many levels of more general rules lie below each rule."""
        levels: dict[str, int] = {}
        for name in sorted(self.covered, key=lambda name: len(self.covered[name])):
            levels[name] = max((levels.get(below, 0) + 1 for below in self.covered[name]), default=0)
        return levels

    @functools.cached_property
    def solvers(self) -> dict[tuple[str, str], Solver]:
        """Compiled conditions, filled in as they are needed."""
        return {}

    def patterns(self) -> PatternSet:
        """What to look for in a log: every line pattern, its text as its id, and where launches begin.

        One set serves every log: compiling it takes longer than reading most logs.
        """
        return self._patterns

    @functools.cached_property
    def _patterns(self) -> PatternSet:
        texts = sorted({text for rule in self.rules for text in rule.when.line_patterns()})
        return PatternSet(texts, self.boundaries(), cache=self.cache)

    def boundaries(self) -> list[str]:
        """The patterns of lines with which a launch begins."""
        begins = (rule for rule in self.rules if rule.begins_launch)
        return sorted({part.line.regex for rule in begins for part in rule.when.walk() if part.line is not None})


def load_rules(
    folders: Sequence[Path] | None = None, *, files: Sequence[Path] = (), cache: Path | None = None
) -> RuleSet:
    """The built-in rules changed by site folders, later folders last, then by single files.

    A wrong file is reported in `problems`; the rest stays in use. `cache` is a folder where the built-in rules are
    kept as they came out of checking: for those who only match them, because they come back without their examples.
    """
    if not folders and not files:
        return builtin_rules() if cache is None else kept_rules(rules_folder(), cache)
    base = builtin_rules()
    collected = _Collected(dict(base.by_id), dict(base.paths))
    for folder in folders or ():
        if not folder.is_dir():
            collected.problems.append(RuleError(f"{folder}: is no folder of rules", path=folder))
        collected.take_folder(folder, check_patterns=True)
    for path in files:
        collected.take(path, check_patterns=True)
    return collected.finish()


@functools.cache
def builtin_rules() -> RuleSet:
    """The rules that Crashcart comes with."""
    return load_folder(rules_folder())


def kept_rules(folder: Path, cache: Path) -> RuleSet:
    """The rules of one folder alone, from what was kept in `cache` where no rule file changed since."""
    stamp = checked.stamp_of(folder)
    rules = checked.read(cache, stamp) if stamp is not None else None
    if rules is not None:
        return RuleSet(rules, (), {rule.id: (folder / f"{rule.id}.yaml").absolute() for rule in rules})
    ruleset = load_folder(folder)
    # What is wrong with a file is told each time; a file that changed while it was read belongs to no stamp.
    if stamp is not None and not ruleset.problems and checked.stamp_of(folder) == stamp:
        checked.write(cache, stamp, ruleset.rules, folder)
    return ruleset


def load_folder(folder: Path) -> RuleSet:
    """The rules of one folder alone, trusted as to their patterns."""
    collected = _Collected()
    # The patterns of built-in rules are held by the project's tests; compiling all would double the time to load.
    collected.take_folder(folder, check_patterns=False)
    return collected.finish()


def pattern_error(pattern: str) -> str | None:
    """Why a pattern can't be used, if so."""
    try:
        regex.compile(pattern)
    except regex.error as error:
        return str(error)
    return None


@dataclass
class _Collected:
    """Rules as file after file is taken in."""

    rules: dict[str, Rule] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    problems: list[RuleError] = field(default_factory=list)
    off: set[str] = field(default_factory=set)

    def take_folder(self, folder: Path, *, check_patterns: bool) -> None:
        """`<engine>/<name>.yaml` below a folder; YAML that lies elsewhere is a problem: it would do nothing."""
        for path in sorted((*folder.glob("*.yaml"), *folder.glob("*/*.yml"), *folder.glob("*.yml"))):
            error = RuleError(f"{path}: is not read", path=path, mend="Name it <engine>/<name>.yaml.")
            self.problems.append(error)
        for path in sorted(folder.glob("*/*.yaml")):
            self.take(path, check_patterns=check_patterns)

    def take(self, path: Path, *, check_patterns: bool) -> None:
        """Adds, replaces or switches off the rule of one file."""
        from app.rules.reading import read_rule, read_yaml  # pydantic and YAML: not needed for what was kept

        path = path.absolute()
        try:
            raw = read_yaml(path.read_bytes(), path)
        except RuleError as error:
            self.problems.append(error)
            return
        except OSError as error:
            self.problems.append(RuleError(f"{path}: can't be read: {error.strerror}", path=path))
            return
        if raw.get("disabled") is True:
            self._switch_off(raw.get("id"), path)
            return
        rule = read_rule(raw, path)
        if isinstance(rule, list):
            self.problems.extend(rule)
            return
        wrong = list(_bad_patterns(rule, path)) if check_patterns else []
        self.problems.extend(wrong)
        if not wrong:
            self.rules[rule.id] = rule
            self.paths[rule.id] = path

    def _switch_off(self, name: object, path: Path) -> None:
        from app.rules.reading import check_id

        wrong = check_id(name, path)
        if wrong:
            self.problems.append(wrong)
        elif self.rules.pop(str(name), None) is None:
            self.problems.append(RuleError(f"{path}: id: there is no rule {name} to switch off", path=path, field="id"))
        else:
            self.off.add(str(name))

    def finish(self) -> RuleSet:
        """The rules in the order of their ids."""
        ordered = tuple(sorted(self.rules.values(), key=lambda rule: rule.id))
        paths = {rule.id: self.paths[rule.id] for rule in ordered}
        # A rule that was switched off is still one that may be covered.
        known = BUILT_IN_READERS | self.off | set(self.rules)
        return RuleSet(ordered, (*self.problems, *_cover_problems(ordered, paths, known)), paths)


def _bad_patterns(rule: Rule, path: Path) -> Iterator[RuleError]:
    """The patterns of a rule that don't compile."""
    for pattern in sorted(rule.when.patterns()):
        if reason := pattern_error(pattern):
            yield RuleError(f"{path}: when: the pattern {pattern!r} is wrong: {reason}", path=path, field="when")


def _cover_problems(rules: Sequence[Rule], paths: Mapping[str, Path], known: Set[str]) -> Iterator[RuleError]:
    """`covers` that names no rule, and rules that cover each other."""
    direct = {rule.id: list(rule.covers or ()) for rule in rules}
    for name, covers in direct.items():
        path = paths[name]
        for missing in sorted(set(covers) - known):
            yield RuleError(f"{path}: covers: there is no rule {missing}", path=path, field="covers")
        if name in _reachable(name, direct):
            yield RuleError(
                f"{path}: covers: {name} covers itself, through {', '.join(covers)}",
                path=path,
                field="covers",
                mend="Only the more special of two rules covers the other.",
            )


def _reachable(start: str, direct: Mapping[str, Sequence[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = list(direct.get(start, ()))
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead.extend(direct.get(name, ()))
    return seen


# Causes that diagnosis finds without a rule file; rules may cover them.
BUILT_IN_READERS = frozenset(
    f"any/{name}"
    for name in (
        "unknown-argument",
        "ambiguous-argument",
        "argument-value-missing",
        "argument-bad-choice",
        "argument-bad-type",
        "required-argument-missing",
        "conflicting-arguments",
        "bare-assertion",
        "failed-check",
        "killed-by-signal",
        "clean-exit",
        "unknown-failure",
    )
)
