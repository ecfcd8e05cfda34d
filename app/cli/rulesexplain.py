"""`crashcart rules explain`: why a rule holds on a log or doesn't, and what becomes of it in the whole diagnosis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.launchline import launch_command
from app.cli.rulesload import AsJson, Folders, find_rule, print_json, usable_rules
from app.core.model import Cause, Diagnosis, Exit
from app.core.text import neutralise
from app.core.vocabulary import Engine, Role
from app.core.wording import shell
from app.diagnosis.pipeline import Pipeline
from app.rules.examples import Workbench
from app.rules.load import RuleSet
from app.rules.match import applies
from app.rules.scene import Scene
from app.rules.schema import Rule
from app.rules.why import Step, steps

EXPLAIN_EXAMPLE = "Example: crashcart rules explain any/port-in-use server.log --exit-code 1 -- vllm serve org/model"
_SHOWN = 120  # characters of a line


@dataclass(frozen=True)
class _Explained:
    """A rule asked of a log: its questions one by one, and the diagnosis of all rules together."""

    ruleset: RuleSet
    rule: Rule
    steps: list[Step]
    applies: bool
    diagnosis: Diagnosis
    lines: list[str]

    @property
    def own(self) -> Cause | None:
        """The rule's own cause, where the diagnosis has it."""
        return next((cause for cause in self.diagnosis.causes if cause.rule == self.rule.id), None)


def explain(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help="The rule's id: <engine>/<name>.")],
    log: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The log to ask.")],
    engine: Annotated[Engine | None, typer.Option(help="The engine, where the log does not tell.")] = None,
    exit_code: Annotated[int | None, typer.Option("--exit-code", help="How the process ended: 1, -9 or 137.")] = None,
    folders: Folders = None,
    as_json: AsJson = False,
) -> None:
    """Show step by step why a rule holds on a log or doesn't, and which rule the diagnosis prefers.

    The launch command may follow behind `--`; without it no question about the command holds.
    """
    ruleset = usable_rules(folders)
    rule = find_rule(ruleset, name)
    command = launch_command(ctx, engine)
    exit = Exit.from_code(exit_code)
    pipeline = Pipeline(ruleset, read_source=False, cache=ruleset.cache)
    diagnosis = pipeline.diagnose_file(log, engine=engine, command=command, exit=exit)
    data = log.read_bytes()
    scene = Scene(engine=diagnosis.engine, version=diagnosis.engine_version, command=command, exit=exit)
    explained = _Explained(
        ruleset,
        rule,
        list(steps(rule.when, Workbench(ruleset).with_log(scene, data))),
        applies(rule, diagnosis.engine, diagnosis.engine_version),
        diagnosis,
        data.decode("utf-8", "replace").splitlines(),
    )
    if as_json:
        print_json(_as_json(explained))
        return
    for line in _told(explained):
        typer.echo(neutralise(line))


def _told(one: _Explained) -> Iterator[str]:
    yield from (_step_text(one, step) for step in one.steps)
    yield ""
    yield _meant_for(one)
    yield from _verdict(one)


def _step_text(one: _Explained, step: Step) -> str:
    text = f"{'yes' if step.holds else 'no':<4}{'  ' * step.depth}{step.question}"
    if step.line:
        text += f" (line {step.line})"
    elif step.near:
        text += f" (nearest: line {step.near}: {_line(one, step.near)})"
    found = ", ".join(f"{name}={value[:40]!r}" for name, value in step.captures.items()) if step.depth else ""
    return f"{text}  {found}".rstrip()


def _line(one: _Explained, number: int) -> str:
    return one.lines[number - 1].strip()[:_SHOWN] if number <= len(one.lines) else ""


def _meant_for(one: _Explained) -> str:
    seen = " ".join(filter(None, (one.diagnosis.engine, one.diagnosis.engine_version)))
    meant = ", ".join(f"{engine} {versions}".strip() for engine, versions in (one.rule.engines or {}).items())
    meant = meant or ("any engine" if one.rule.folder == "any" else one.rule.folder)
    if not seen:
        return f"The log tells no engine; the rule is for {meant}."
    return f"The log is of {seen}; the rule is for {meant}{'' if one.applies else ': it is not asked here'}."


def _verdict(one: _Explained) -> Iterator[str]:
    holds = one.applies and one.steps[0].holds
    if not holds:
        yield "It does not hold."
        parts = [step for step in one.steps if step.depth == 1]
        if one.applies and parts and all(step.holds for step in parts):
            yield "Each question was asked alone; together they do not hold: other lines, ranks or captured values."
        return
    if one.rule.role is not Role.CAUSE:
        yield f"It holds; as {one.rule.role} it names no cause."
        return
    yield from _rank(one)


def _rank(one: _Explained) -> Iterator[str]:
    causes = one.diagnosis.causes
    own = one.own
    if own is None:
        above = [cause.rule for cause in causes if one.rule.id in one.ruleset.covered.get(cause.rule, ())]
        if above:
            yield f"It holds, and {above[0]} covers it: that rule is shown instead."
        elif causes:
            yield f"It holds, but what it found comes after, or repeats, what {causes[0].rule} found{_at(causes[0])}."
        else:
            yield "It holds, but the server became ready after that line, or a person had stopped it by then."
        return
    place = causes.index(own)
    yield "It holds and comes first." if place == 0 else f"It holds, behind {causes[0].rule}{_at(causes[0])}."
    if own.command is not None:
        yield f"Its fix ({own.safety}) gives: {shell(own.command)}"
    elif own.fix is not None:
        yield f"It has a fix ({own.safety}); with the launch command behind -- it is shown."
    elif one.rule.fix:
        yield "None of its fixes can be applied here: what they require does not hold, or nothing would change."


def _at(cause: Cause) -> str:
    return f" (line {cause.line.number})" if cause.line is not None else ""


def _as_json(one: _Explained) -> dict[str, Any]:
    own, causes = one.own, one.diagnosis.causes
    return {
        "rule": one.rule.id,
        "engine": one.diagnosis.engine,
        "engine_version": one.diagnosis.engine_version,
        "applies": one.applies,
        "holds": one.applies and one.steps[0].holds,
        "place": causes.index(own) + 1 if own is not None else None,
        "first": causes[0].rule if causes else None,
        "command": list(own.command) if own is not None and own.command is not None else None,
        "steps": [{**step._asdict(), "captures": dict(step.captures)} for step in one.steps],
    }
