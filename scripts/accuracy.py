"""Measures how often a diagnosis was right, by the confidence it claimed; writes the tables of docs/accuracy.md.

Usage: python scripts/accuracy.py NAME=FOLDER...

Each folder holds labelled failures, one folder each: `log.txt`, and `case.yaml` with `engine`, `argv`, `env`,
`exit_code`, `category`, `root_line`, `also_ok`, `also_ok_lines`, `fix` (`kind`, `set`, `remove`, `env_set`, …), and
`also_ok_fixes`.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from app.core.command import Command
from app.core.model import Cause, Exit
from app.core.vocabulary import Category, Confidence, Engine
from app.diagnosis.pipeline import Pipeline
from app.rules.load import builtin_rules

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end of what is measured -->"
QUIET = "not-a-failure"
Counts = dict[str, list[int]]  # right, of all


def main() -> None:
    tables = [table(*argument.split("=", 1)) for argument in sys.argv[1:]]
    text = DOCUMENT.read_text()
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    DOCUMENT.write_text(f"{text[:start]}\n{''.join(tables)}{text[end:]}")


def table(name: str, folder: str) -> str:
    """The figures of one set of failures."""
    pipeline = Pipeline(builtin_rules(), read_source=False)
    counted: dict[str, Counts] = defaultdict(lambda: {"category": [0, 0], "line": [0, 0], "fix": [0, 0]})
    quiet = [0, 0]
    for path in sorted(Path(folder).glob("*/case.yaml")):
        case: dict[str, Any] = yaml.safe_load(path.read_text())
        causes = diagnosed(pipeline, path.with_name("log.txt"), case)
        if case["category"] == QUIET:
            quiet[0] += not causes
            quiet[1] += 1
            continue
        count(counted[causes[0].confidence.value if causes else "silent"], causes[0] if causes else None, case)
    rows = [
        f"| {word} | {counted[word]['category'][1]} | {share(counted[word]['category'])} "
        f"| {share(counted[word]['line'])} | {share(counted[word]['fix'])} |\n"
        for word in (*(one.value for one in Confidence), "silent")
        if word in counted
    ]
    head = "| confidence | failures | category | proving line | fix |\n|---|---|---|---|---|\n"
    healthy = f"\nHealthy logs: silent on {quiet[0]} of {quiet[1]}.\n" if quiet[1] else ""
    return f"### {name.capitalize()}\n\n{head}{''.join(rows)}{healthy}\n"


def diagnosed(pipeline: Pipeline, log: Path, case: Mapping[str, Any]) -> tuple[Cause, ...]:
    words = [*(f"{name}={value}" for name, value in (case.get("env") or {}).items()), *(case.get("argv") or [])]
    engine = next((one for one in Engine if one.value == case.get("engine")), None)
    command = Command.parse(words, engine=engine) if case.get("argv") else None
    ended = Exit.from_code(case.get("exit_code"))
    return pipeline.diagnose_file(log, command=command, exit=ended).causes


def count(counts: Counts, cause: Cause | None, case: Mapping[str, Any]) -> None:
    categories = {case["category"], *(case.get("also_ok") or [])}
    lines = [case.get("root_line"), *(case.get("also_ok_lines") or [])]
    if case["category"] != Category.UNKNOWN.value:
        note(counts["category"], cause is not None and cause.category.value in categories)
    if lines[0]:
        said = folded(cause.line.text) if cause is not None and cause.line is not None else ""
        note(counts["line"], any(line and (folded(line) in said or said in folded(line)) for line in lines if said))
    fix = case.get("fix") or {}
    if fix.get("kind") in ("args", "env") and case.get("argv"):
        right = [fix, *(case.get("also_ok_fixes") or [])]
        offered = cause.command if cause is not None else None
        note(counts["fix"], offered is not None and any(mends(offered, one) for one in right))


def mends(words: Iterable[str], fix: Mapping[str, Any]) -> bool:
    """Whether the corrected command has all of the right change. What else it changes is not looked at."""
    command = Command.parse(list(words))
    wanted = {**(fix.get("set") or {}), **(fix.get("env_set") or {})}
    given = dict(command.env)
    renamed = (fix.get("rename") or {}).items()
    gone = [*(fix.get("remove") or []), *(old for old, _ in renamed)]
    return (
        all(fits(given.get(name, command.get(name)), value) for name, value in wanted.items())
        and all(command.get(new) is not None for _, new in renamed)
        and not any(command.get(flag) is not None for flag in gone)
        and not any(name in given for name in fix.get("env_unset") or [])
    )


def fits(found: object, wanted: object) -> bool:
    return found is not None and (wanted is None or wanted is True or str(found) == str(wanted))


def note(counts: list[int], right: bool) -> None:
    counts[0] += right
    counts[1] += 1


def share(counts: list[int]) -> str:
    return f"{counts[0]} of {counts[1]}" if counts[1] else "–"


def folded(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


if __name__ == "__main__":
    main()
