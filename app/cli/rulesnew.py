"""`crashcart rules new`: a first rule file for a failure that no rule knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from app.core.errors import UsageError
from app.core.model import Line
from app.core.vocabulary import Category, Engine
from app.diagnosis.pipeline import Pipeline
from app.logs.prefix import parse_line
from app.rules.draft import drafted
from app.rules.load import load_rules
from app.rules.schema import ID_PATTERN

_OTHER = "INFO 01-12 10:00:00 [core.py:1] Nothing failed here."


def new(
    name: Annotated[str, typer.Argument(metavar="ID", help="The new rule's id: <engine>/<name>, or any/<name>.")],
    log: Annotated[Path, typer.Option("--from-log", metavar="LOG", help="A log that shows the failure.")],
    folder: Annotated[Path, typer.Option(help="Rule folder that the file is written into.")] = Path("rules"),
    at: Annotated[
        int | None, typer.Option("--line", min=1, help="The line that proves it, if not the one found.")
    ] = None,
) -> None:
    """Draft a rule from a log: the line that diagnosis finds best, as a pattern, with examples that prove it."""
    path = folder / f"{name}.yaml"
    if not re.fullmatch(ID_PATTERN, name):
        raise UsageError(
            f"{name!r} is no rule id.", mend="Write <engine>/<name> in small letters, such as vllm/lora-missing."
        )
    if path.exists():
        raise UsageError(f"{path} is there already.", mend="Choose another id, or edit that file.")
    lines = _lines(log)
    engine = next((one for one in Engine if one.value == name.split("/")[0]), None)
    diagnosis = Pipeline(load_rules(), read_source=False).diagnose_file(log, engine=engine)
    top = diagnosis.causes[0] if diagnosis.causes else None
    number = at or (top.line.number if top is not None and top.line is not None else None)
    if number is None or number > len(lines):
        raise UsageError(f"{log} shows no failure.", mend="Name the line that does with --line N.")
    body = _body(lines[number - 1])
    category = top.category if top is not None and at is None else Category.UNKNOWN
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(drafted(name, body, [lines[number - 1]], _OTHER, category))
    typer.echo(f"{path}: drafted from line {number}: {lines[number - 1].strip()[:200]}")
    typer.echo("Now say in `explain` what it means, choose the category, give the fix if there is one, and then:")
    typer.echo(f"  crashcart rules test {path}\n  crashcart rules lint {path}\n  crashcart diagnose {log}")


def _lines(log: Path) -> list[str]:
    try:
        return log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UsageError(f"{log} can't be read: {error.strerror}.", mend="Name a log file.") from error


def _body(text: str) -> str:
    """What the program itself wrote, behind time, rank and level."""
    line: Line = parse_line(1, text).line
    return line.body
