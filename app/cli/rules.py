"""`crashcart rules`: what is known, why it is believed, and whether a new rule is sound."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.launchline import TakesLaunchCommand
from app.cli.rulescandidates import candidates
from app.cli.rulesexplain import EXPLAIN_EXAMPLE, explain
from app.cli.rulesload import AsJson, Folders, find_rule, print_json, usable_rules
from app.cli.rulesnew import new
from app.core.catalogue import FlagCatalogue
from app.core.errors import RuleError, UsageError
from app.core.model import Cause
from app.core.resources import scan_cache
from app.core.shipped import nearest_shipped
from app.core.text import neutralise
from app.core.vocabulary import Engine
from app.diagnosis.pipeline import Pipeline
from app.rules.examples import Tried, Workbench
from app.rules.lint import lint as problems_of
from app.rules.lint import loud_on_healthy
from app.rules.load import RuleSet, load_rules
from app.rules.scene import Scene
from app.rules.schema import FixSpec, Rule, json_schema


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    rules = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    rules.command("list", epilog="Example: crashcart rules list --engine sglang")(list_rules)
    rules.command("show", epilog="Example: crashcart rules show any/port-in-use")(show)
    rules.command("test", epilog="Example: crashcart rules test ./rules/sglang/our-rule.yaml")(try_examples)
    rules.command("lint", epilog="Example: crashcart rules lint ./rules")(lint)
    rules.command("explain", cls=TakesLaunchCommand, epilog=EXPLAIN_EXAMPLE)(explain)
    rules.command("new", epilog="Example: crashcart rules new vllm/our-failure --from-log server.log")(new)
    rules.command("candidates", epilog="Example: crashcart rules candidates")(candidates)
    rules.command("schema", epilog="Example: crashcart rules schema > schema.json")(print_schema)
    app.add_typer(rules, name="rules", help="List, show, test and lint the rules that diagnosis knows.")


def list_rules(
    engine: Annotated[Engine | None, typer.Option(help="Only rules that may hold on this engine.")] = None,
    folders: Folders = None,
    as_json: AsJson = False,
) -> None:
    """List the rules in use."""
    ruleset = usable_rules(folders)
    rules = [rule for rule in ruleset.rules if engine is None or rule.folder in ("any", engine)]
    if as_json:
        print_json([_summary(ruleset, rule) for rule in rules])
        return
    rows = [
        (rule.id, rule.role.value, rule.category or "", rule.status.value, _offers(rule), rule.title) for rule in rules
    ]
    _print_table(("rule", "role", "category", "status", "fix", "title"), rows)


def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="The rule's id: <engine>/<name>.")],
    folders: Folders = None,
    as_json: AsJson = False,
) -> None:
    """Show one rule: what it asks, what it means, what mends it."""
    ruleset = usable_rules(folders)
    rule = find_rule(ruleset, name)
    if as_json:
        print_json({**_summary(ruleset, rule), **rule.model_dump(mode="json", by_alias=True, exclude_unset=True)})
        return
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    for label, text in _described(ruleset, rule):
        console.print(Text.assemble((f"{label:<11}", "bold"), text.replace("\n", "\n" + " " * 11)))


def try_examples(
    names: Annotated[list[str] | None, typer.Argument(metavar="[ID|FILE]...", help="Default: all rules.")] = None,
    folders: Folders = None,
    as_json: AsJson = False,
) -> None:
    """Try the examples of rules; exit 1 when one does not say what it should."""
    files = [Path(name) for name in names or () if name.endswith((".yaml", ".yml"))]
    ruleset = usable_rules(folders, files)
    if any(error.path in {path.absolute() for path in files} for error in ruleset.problems):
        raise typer.Exit(1)
    chosen = [find_rule(ruleset, name) for name in _ids(names or (), files)] if names else list(ruleset.rules)
    bench = Workbench(ruleset, ExampleJudge(ruleset))
    tried = []
    for rule in chosen:
        for one in bench.try_all(rule):
            tried.append(one)
            if not as_json:
                _print_tried(one)
    if as_json:
        print_json([_tried_json(one) for one in tried])
    failed = sum(bool(one.problems) for one in tried)
    if not as_json:
        typer.echo(f"{_count(len(tried), 'example')} of {_count(len(chosen), 'rule')}, {failed} failed")
    raise typer.Exit(1 if failed or not tried else 0)


def lint(
    paths: Annotated[list[Path] | None, typer.Argument(help="Rule files or folders; default: all rules.")] = None,
    folders: Folders = None,
    healthy: Annotated[
        Path | None, typer.Option(help="Folder of logs in which nothing failed: no cause may hold on them.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of a rule file, for editors.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check rules as a careful reviewer would; exit 1 when something is wrong."""
    if schema:
        typer.echo(json_schema(), nl=False)
        return
    given = [path.absolute() for path in paths or ()]
    for path in given:
        if not path.exists():
            raise UsageError(f"There is no {path}.", mend="Name a rule file or a folder of rules.")
    ruleset = load_rules(
        [*(folders or ()), *(path for path in given if path.is_dir())], files=[path for path in given if path.is_file()]
    )
    ruleset = replace(ruleset, cache=scan_cache())
    chosen = {name for name, path in ruleset.paths.items() if not given or _is_within(path, given)}
    problems = [error for error in ruleset.problems if not given or (error.path and _is_within(error.path, given))]
    problems += problems_of(ruleset, only=chosen, judge=ExampleJudge(ruleset))
    if healthy is not None:
        problems += loud_on_healthy(ruleset, _logs(healthy), only=chosen)
    if as_json:
        print_json([_problem_json(error) for error in problems])
    else:
        for error in problems:
            typer.echo(neutralise(_located(error)))
            if error.mend:
                typer.echo(f"  {error.mend}")
        typer.echo(f"{_count(len(chosen), 'rule')}, {_count(len(problems), 'problem')}")
    raise typer.Exit(1 if problems else 0)


def print_schema() -> None:
    """Print the JSON Schema of a rule file, for editors."""
    typer.echo(json_schema(), nl=False)


def _logs(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.log"))
    if not found:
        raise UsageError(f"There is no log in {folder}.", mend="Name a folder with files that end in .log.")
    return found


class ExampleJudge:
    """What the whole diagnosis says about an example, without looking at this machine's source files or programs.

    An example's version stands for the installed one: its flags are those shipped for it. One pipeline serves all
    examples, because compiling the patterns takes longer than reading a log.
    """

    def __init__(self, ruleset: RuleSet) -> None:
        self._flags: FlagCatalogue | None = None
        self._pipeline = Pipeline(
            ruleset, catalogue_for=lambda command: self._flags, read_source=False, cache=ruleset.cache
        )

    def __call__(self, scene: Scene, data: bytes | None) -> Sequence[Cause]:
        """The causes, best first; without a log those that `check` finds in the command."""
        self._flags = _flags_of(scene.engine, scene.version)
        if data is None:
            if scene.command is None:
                return ()
            return self._pipeline.check(scene.command, scene.engine, probes=scene.probes)
        session = self._pipeline.session(engine=scene.engine, command=scene.command)
        session.feed(data)
        session.close()
        return session.diagnose(scene.exit, scene.probes).causes


def _flags_of(engine: Engine | None, version: str | None) -> FlagCatalogue | None:
    shipped = None if engine is None or version is None else nearest_shipped(engine, version)
    return None if shipped is None else replace(shipped, version=version)


def _ids(names: Sequence[str], files: Sequence[Path]) -> Iterator[str]:
    given = {str(path) for path in files}
    for name in names:
        path = Path(name)
        yield f"{path.absolute().parent.name}/{path.stem}" if name in given else name


def _is_within(path: Path, given: Sequence[Path]) -> bool:
    return any(path == one or one in path.parents for one in given)


def _summary(ruleset: RuleSet, rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "title": rule.title,
        "role": rule.role.value,
        "category": rule.category.value if rule.category else None,
        "status": rule.status.value,
        "confidence": rule.sureness.value,
        "engines": {engine.value: spec for engine, spec in (rule.engines or {}).items()},
        "preflight": rule.preflight,
        "safety": [spec.safety.value for spec in rule.fix],
        "covers": sorted(ruleset.covered[rule.id]),
        "path": str(ruleset.paths[rule.id]),
    }


def _offers(rule: Rule) -> str:
    kinds = dict.fromkeys(f"{spec.safety.value} restart" if spec.restart else spec.safety.value for spec in rule.fix)
    return ", ".join(kinds)


def _described(ruleset: RuleSet, rule: Rule) -> Iterator[tuple[str, str]]:
    yield "rule", f"{rule.id}  ({rule.status.value}, {rule.sureness.value} confidence)"
    yield "title", rule.title
    yield "role", rule.role.value + (f", {rule.category.value}" if rule.category else "")
    if rule.engines:
        yield "engines", ", ".join(f"{engine.value} {spec}".strip() for engine, spec in rule.engines.items())
    if below := sorted(ruleset.covered[rule.id]):
        yield "covers", ", ".join(below)
    when = rule.when.model_dump(mode="json", by_alias=True, exclude_unset=True)
    yield "when", _yaml_like(when)
    if rule.explain:
        yield "explain", rule.explain
    for spec in rule.fix:
        yield "fix", _fix_text(spec)
    if rule.preflight:
        yield "preflight", "also asked before a launch, of the command line alone"
    for reference in rule.references:
        yield "reference", reference
    yield "file", str(ruleset.paths[rule.id])


def _fix_text(spec: FixSpec) -> str:
    verbs = spec.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"safety", "loses"})
    lost = f"; loses {', '.join(spec.loses)}" if spec.loses else ""
    return f"{spec.safety.value}{lost}\n{_yaml_like(verbs)}"


def _yaml_like(value: object, depth: int = 0) -> str:
    """Nested values as an indented outline: one leaf a line."""
    pad = "  " * depth
    if isinstance(value, dict):
        parts = [
            f"{pad}{key}: {_scalar(item)}"
            if not isinstance(item, dict | list)
            else f"{pad}{key}:\n{_yaml_like(item, depth + 1)}"
            for key, item in value.items()
        ]
        return "\n".join(parts)
    if isinstance(value, list):
        return "\n".join(f"{pad}- {_yaml_like(item, depth + 1).lstrip()}" for item in value)
    return f"{pad}{_scalar(value)}"


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table at a terminal; in a pipe tab-separated lines without a head, for cut and grep."""
    if not sys.stdout.isatty():
        for row in rows:
            typer.echo("\t".join(row))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, no_wrap=head == "rule", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def _print_tried(one: Tried) -> None:
    kind = "matches" if one.example.match else "does not match"
    verdict = "FAIL" if one.problems else "ok"
    typer.echo(f"{verdict:<5}{one.rule.id} [{one.number}] {one.name}: {kind if not one.problems else ''}".rstrip(": "))
    for text in one.problems:
        typer.echo("     " + neutralise(text).replace("\n", "\n     "))


def _tried_json(one: Tried) -> dict[str, Any]:
    return {"rule": one.rule.id, "example": one.number, "name": one.name, "problems": list(one.problems)}


def _located(error: RuleError) -> str:
    """The error with its line, as editors make it a link: `FILE:LINE: field: text`."""
    line, text = _line(error), str(error)
    prefix = f"{error.path}: "
    return f"{error.path}:{line}: {text.removeprefix(prefix)}" if line and text.startswith(prefix) else text


def _line(error: RuleError) -> int | None:
    if error.path is None or error.field is None:
        return None
    from app.rules.reading import line_of

    return line_of(error.path, error.field)


def _problem_json(error: RuleError) -> dict[str, Any]:
    return {
        "path": str(error.path) if error.path else None,
        "line": _line(error),
        "field": error.field,
        "text": str(error),
        "mend": error.mend,
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
