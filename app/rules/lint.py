"""What a careful reviewer would ask of a rule: proof both ways, bounded patterns, honest fixes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import regex

from app.core.catalogue import FlagCatalogue
from app.core.errors import RuleError
from app.core.shipped import shipped, shipped_catalogues
from app.core.vocabulary import Engine, Role, Safety
from app.rules.alternatives import alternatives
from app.rules.conditions import Comparison, Condition
from app.rules.evaluate import compile_condition
from app.rules.examples import Judge, Workbench, inside_a_prompt
from app.rules.load import RuleSet, pattern_error
from app.rules.look import Look, RuleTroubleError, State
from app.rules.match import match, match_preflight
from app.rules.preflight import before_launch
from app.rules.scene import Scene
from app.rules.schema import Example, FixSpec, Rule
from app.rules.template import names
from app.rules.version import in_range, read_version

HOSTILE_SECONDS = 0.05
_LENGTH = 8_000
_RUNS = ("a", " ", '"', "'", "0", "-", ".", "=", "(", "a ", "1,", "--a=")
_LITERAL = re.compile(r"(?:\\[^\w\s]|[\w ,:;=/'\"<>@!%&~`-])+")
_NOT_LITERAL = re.compile(r"\(\?(?:P?<\w+>|<?[=!]|[a-z-]*:?)|\[\^?\]?[^\]]*\]|\{[^}]*\}|\\\w")
_FACTS = frozenset({"phase", "engine", "version", "exit", "model", "port"})
# What may stand before the first real item of a pattern: groups, flags, the start of the line.
_OPENING = re.compile(r"(?:\^|\\A|\(\?[imsx-]+\)|\(\?[imsx-]*:|\(\?P<\w+>|\((?!\?))*")
_ANYTHING = re.compile(r"(?:\.|\[\^?\\?[sSwWdD]\\?[sSwWdD]\])[*+]")


def lint(ruleset: RuleSet, *, only: Collection[str] | None = None, judge: Judge | None = None) -> Iterator[RuleError]:
    """What is wrong with valid rules, all or those named by `only`; invalid ones are in `ruleset.problems`.

    With a judge the examples' corrected commands are compared, too. While a pattern is broken nothing is tried.
    """
    rules = [rule for rule in ruleset.rules if only is None or rule.id in only]
    broken = False
    for rule in rules:
        wrong = list(_patterns(rule))
        broken = broken or bool(wrong)
        for field, text in (*wrong, *(() if wrong else _statics(rule))):
            yield _problem(ruleset, rule, field, text)
    if not broken:
        bench = Workbench(ruleset, judge)
        for rule in rules:
            yield from _proofs(bench, rule)


def loud_on_healthy(
    ruleset: RuleSet, logs: Iterable[Path], *, only: Collection[str] | None = None
) -> Iterator[RuleError]:
    """Causes that hold on logs in which nothing failed."""
    bench = Workbench(ruleset)
    for path in logs:
        scene = bench.with_log(Scene(), path.read_bytes())
        for one in match(ruleset, scene):
            if one.rule.role is Role.CAUSE and (only is None or one.rule.id in only):
                where = f"line {one.line.number}" if one.line else "no line"
                yield _problem(ruleset, one.rule, "when", f"holds on the healthy log {path}: {where}")


def _patterns(rule: Rule) -> Iterator[tuple[str, str]]:
    for pattern in sorted({*rule.when.patterns(), *_fix_patterns(rule)}):
        if reason := pattern_error(pattern):
            yield "when", f"the pattern {pattern!r} is wrong: {reason}"


def _fix_patterns(rule: Rule) -> Iterator[str]:
    for spec in rule.fix:
        if spec.requires is not None:
            yield from spec.requires.patterns()


def _statics(rule: Rule) -> Iterator[tuple[str, str]]:
    """What can be seen without an example."""
    in_lines = {*rule.when.line_patterns(), *(part.event.regex for part in rule.when.walk() if part.event)}
    for pattern in sorted({*in_lines, *rule.when.inner_patterns()}):
        if pattern in in_lines and starts_with_anything(pattern):
            yield "when", f"the pattern {pattern!r} begins with anything: begin with what the program writes"
        elif too_slow(pattern):
            yield "when", f"the pattern {pattern!r} takes more than 50 ms on a hostile line of {_LENGTH:,} characters"
    yield from _structure(rule)
    yield from _captures(rule)
    for at, spec in enumerate(rule.fix):
        yield from _fix(f"fix[{at}]" if len(rule.fix) > 1 else "fix", spec)
        yield from _unknown_flags(f"fix[{at}]" if len(rule.fix) > 1 else "fix", rule, spec)
    yield from _kinds_of_example(rule)


def starts_with_anything(pattern: str) -> bool:
    """Whether a pattern may skip any text before its first fixed part."""
    opening = _OPENING.match(pattern)
    return bool(_ANYTHING.match(pattern, opening.end() if opening else 0))


def too_slow(pattern: str) -> bool:
    """Whether a pattern exceeds its time on a hostile line. Measured in processor time, and twice where it does."""
    compiled = regex.compile(pattern)
    return any(_times_out(compiled, text) and _times_out(compiled, text) for text in _hostile(pattern))


def _hostile(pattern: str) -> Iterator[str]:
    """Long runs, alone and beside the fixed parts of the pattern: searching for these first must not save it."""
    fixed = [found[0].replace("\\", "") for found in _LITERAL.finditer(_NOT_LITERAL.sub("\0", pattern))]
    demanded = " ".join(dict.fromkeys(fixed))
    for run in _RUNS:
        filler = run * (_LENGTH // len(run))
        yield from (filler, f"{filler}!", f"{filler}! {demanded}", f"{demanded}{filler}!")


def _times_out(compiled: regex.Pattern[str], text: str) -> bool:
    try:
        compiled.search(text, timeout=HOSTILE_SECONDS)
    except TimeoutError:
        return True
    return False


def _structure(rule: Rule) -> Iterator[tuple[str, str]]:
    parts = list(rule.when.walk())
    finds_line = any(part.line or part.event or part.traceback or part.count for part in parts)
    relative = any(part.follows or (part.without and (part.without.after or part.without.before)) for part in parts)
    if relative and not finds_line:
        yield "when", "follows and without are relative to a line: begin with line, event, traceback or count"
    if rule.role is Role.CAUSE and not finds_line and not any(part.exit or part.probe for part in parts):
        yield "when", "asks neither the log nor the exit: it would hold for every failure of such a command"
    if rule.preflight and before_launch(rule.when) is None:
        yield "preflight", "nothing that was typed decides: give argv or env conditions"


def _captures(rule: Rule) -> Iterator[tuple[str, str]]:
    """Captures that are used and that nothing sets."""
    known = _FACTS | set(_groups(rule.when))
    used = {"title": names(rule.title), "explain": names(rule.explain), "when": _used(rule.when)}
    for at, spec in enumerate(rule.fix):
        used[f"fix[{at}]" if len(rule.fix) > 1 else "fix"] = spec_names(spec)
    for field, wanted in used.items():
        for name in sorted(wanted - known):
            if "." not in name:
                yield field, f"{{{name}}} is captured nowhere; there are: {', '.join(sorted(known))}"


def spec_names(spec: FixSpec) -> frozenset[str]:
    """The captures that a fix uses."""
    texts = frozenset().union(*map(names, spec.templates()))
    return texts | (_used(spec.requires) if spec.requires is not None else frozenset())


def _groups(condition: Condition) -> Iterator[str]:
    for pattern in condition.patterns():
        yield from regex.compile(pattern).groupindex


def _used(condition: Condition) -> frozenset[str]:
    found: set[str] = set()
    for part in condition.walk():
        if part.capture is not None:
            found.add(part.capture.name)
        tests: list[Comparison | None] = [part.argv, part.env, part.capture, *(part.probe or {}).values()]
        for test in tests:
            if test is not None:
                texts = (test.equals, test.gt, test.ge, test.lt, test.le, *(test.in_ or ()))
                found.update(*(names(text) for text in texts if text is not None))
    return frozenset(found)


def _fix(field: str, spec: FixSpec) -> Iterator[tuple[str, str]]:
    takes_away = spec.remove or spec.adjust or spec.env_unset
    if spec.safety is Safety.SAFE and takes_away:
        yield field, "takes back something that was typed: that is degrading or manual, and `loses` says what"
    if spec.safety is Safety.DEGRADING and not spec.loses:
        yield f"{field}.loses", "is empty: a degrading fix says what is not had any more"
    if spec.requires is not None and any(
        part.line or part.event or part.traceback or part.count or part.follows or part.without
        for part in spec.requires.walk()
    ):
        yield f"{field}.requires", "asks the log: only argv, env, version, capture and probe can be asked here"


def _unknown_flags(field: str, rule: Rule, spec: FixSpec) -> Iterator[tuple[str, str]]:
    """Flags that a fix writes and that no known version takes for which the rule is meant.

    In a version that has no such flag a fix is not offered, so one of them is enough.
    """
    targets = [name for name in spec.rename.values() if isinstance(name, str)]
    written = [name for name in (*spec.set, *targets) if name.startswith("-") and "{" not in name]
    known = list(_catalogues(rule)) if written else []
    for name in written:
        if known and not any(name in one for one in known):
            versions = ", ".join(f"{one.engine} {one.version}" for one in known)
            yield field, f"none of {versions} has {name}: correct the name, or the versions in `engines`"


def _catalogues(rule: Rule) -> Iterator[FlagCatalogue]:
    """The shipped flags of the versions for which a rule is meant."""
    wanted = rule.engines or ({} if rule.folder == "any" else {Engine(rule.folder): "*"})
    for engine, versions in wanted.items():
        for number in shipped_catalogues().get(engine, ()):
            version = read_version(number)
            if version is not None and in_range(version, versions):
                yield shipped(engine, number)


def _kinds_of_example(rule: Rule) -> Iterator[tuple[str, str]]:
    if not any(example.match for example in rule.examples):
        yield "examples", "none that matches: a rule proves itself"
    if rule.role is Role.CAUSE and all(example.match for example in rule.examples):
        yield "examples", "none with `match: false`: show a log that looks alike and is none of it"


def _proofs(bench: Workbench, rule: Rule) -> Iterator[RuleError]:
    """What the examples show."""
    for tried in bench.try_all(rule):
        for text in tried.problems:
            yield _problem(bench.ruleset, rule, f"examples[{tried.number - 1}]", text)
        if tried.example.match and not tried.problems and _trusts_prompts(bench, rule, tried.example):
            text = "holds as well when a client sends this log as a prompt: anchor the pattern with ^"
            yield _problem(bench.ruleset, rule, f"examples[{tried.number - 1}]", text)
    for field in _branches_without_proof(bench, rule):
        text = "no example shows this branch: give a line that it holds on (`each` takes many), or take it out"
        yield _problem(bench.ruleset, rule, field, text)
    for field, wording in _wordings_without_proof(bench, rule):
        text = f"no example shows the alternative {wording!r}: give one, or take it out"
        yield _problem(bench.ruleset, rule, field, text)
    if rule.preflight and before_launch(rule.when) is not None and not _seen_before_launch(bench, rule):
        text = "none shows the rule before a launch: give one with the argv that would fail"
        yield _problem(bench.ruleset, rule, "examples", text)


def _branches_without_proof(bench: Workbench, rule: Rule) -> Iterator[str]:
    """Where in the conditions a branch of an `any` holds on none of the examples that match."""
    scenes = [Look(scene) for scene in bench.matching(rule)]
    for field, branch in _branches(rule.when, "when"):
        holds = compile_condition(branch)
        try:
            shown = any(next(iter(holds(look, State())), None) is not None for look in scenes)
        except RuleTroubleError:
            shown = False
        if not shown:
            yield field


def _wordings_without_proof(bench: Workbench, rule: Rule) -> Iterator[tuple[str, str]]:
    """The whole wordings between which a pattern chooses, and that no example that matches shows."""
    bodies = [line.body for scene in bench.matching(rule) for line in bench.lines(scene)]
    for field, part in _asked(rule.when, "when"):
        for wording in alternatives(part.line.regex) if part.line is not None else ():
            compiled = regex.compile(wording)
            if not any(compiled.search(body) for body in bodies):
                yield f"{field}.line", wording


def _asked(condition: Condition, field: str) -> Iterator[tuple[str, Condition]]:
    """All conditions that are to hold, with their places."""
    yield field, condition
    for name, parts in (("all", condition.all), ("any", condition.any)):
        for at, part in enumerate(parts or ()):
            yield from _asked(part, f"{field}.{name}[{at}]")


def _branches(condition: Condition, field: str) -> Iterator[tuple[str, Condition]]:
    for name, parts in (("all", condition.all), ("any", condition.any)):
        for at, part in enumerate(parts or ()):
            here = f"{field}.{name}[{at}]"
            if name == "any":
                yield here, part
            yield from _branches(part, here)


def _trusts_prompts(bench: Workbench, rule: Rule, example: Example) -> bool:
    """Whether the rule holds on its example when every line of it stands in a logged prompt."""
    scene, data = bench.scene(rule, example)
    if data is None:
        return False
    alone = RuleSet((rule,))
    without_log = bench.with_log(scene, b"")
    return not match(alone, without_log) and bool(match(alone, bench.with_log(scene, inside_a_prompt(data))))


def _seen_before_launch(bench: Workbench, rule: Rule) -> bool:
    alone = RuleSet((rule,))
    return any(match_preflight(alone, bench.scene(rule, example)[0]) for example in rule.examples if example.match)


def _problem(ruleset: RuleSet, rule: Rule, field: str, text: str) -> RuleError:
    path = ruleset.paths.get(rule.id)
    return RuleError(f"{path or rule.id}: {field}: {text}", path=path, field=field)
