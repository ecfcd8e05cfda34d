"""What the commands of `crashcart rules` share: which rules are in use, and how one is found."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from app.core.errors import UsageError
from app.core.resources import scan_cache
from app.core.text import neutralise
from app.rules.load import RuleSet, load_rules
from app.rules.schema import Rule

Folders = Annotated[list[Path] | None, typer.Option("--rules", help="Folder of your own rules; may be repeated.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def usable_rules(folders: Sequence[Path] | None, files: Sequence[Path] = ()) -> RuleSet:
    """The rules in use; what is wrong with a file is said, and the others stay in use."""
    ruleset = replace(load_rules(folders, files=files), cache=scan_cache())
    for error in ruleset.problems:
        typer.echo(f"crashcart: {neutralise(str(error))}", err=True)
    return ruleset


def find_rule(ruleset: RuleSet, name: str) -> Rule:
    """A rule by its id; a usage error that names the like ones when there is none."""
    if name in ruleset.by_id:
        return ruleset.by_id[name]
    near = difflib.get_close_matches(name, ruleset.by_id, n=3) or [
        other for other in ruleset.by_id if name in other.replace("/", "-").split("-")
    ]
    raise UsageError(
        f"There is no rule {name}.",
        mend=f"Did you mean {', '.join(near[:3])}?" if near else "`crashcart rules list` shows all.",
    )


def print_json(value: object) -> None:
    """One value, for people who read JSON."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
