"""The manual for rule authors says everything, and what it shows is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from app.rules import conditions, schema
from app.rules.reading import read_rule, read_yaml
from app.rules.schema import Rule

MANUAL = (Path(__file__).parents[2] / "docs" / "rules.md").read_text()
MODELS: list[type[BaseModel]] = [
    schema.Rule,
    schema.FixSpec,
    schema.Example,
    schema.Adjust,
    conditions.Condition,
    conditions.TracebackLeaf,
    conditions.ArgvLeaf,
    conditions.CountLeaf,
    conditions.FollowsLeaf,
    conditions.WithoutLeaf,
    conditions.ExitLeaf,
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_is_in_the_manual(model: type[BaseModel]) -> None:
    """In a code span or a sample, as a word of its own."""
    shown = " ".join(re.findall(r"```.*?```|`[^`]+`", MANUAL, re.DOTALL))
    fields = [field.alias or name for name, field in model.model_fields.items()]

    assert [name for name in fields if not re.search(rf"(?<![\w-]){name}(?![\w-])", shown)] == []


def test_the_sample_rule_is_valid() -> None:
    sample = MANUAL.split("```yaml\n")[1].split("```")[0]
    path = Path("rules/sglang/speculative-num-steps-missing.yaml")

    assert isinstance(read_rule(read_yaml(sample.encode(), path), path), Rule)


def condition(written: str) -> dict[str, Any]:
    """The condition in one row of the table; `\\|` is how a table writes a bar."""
    read = yaml.safe_load(written.replace("\\|", "|"))
    assert isinstance(read, dict)
    return read


ROWS = re.findall(
    r"^\| `(\w+: .+?)`(?:, `(\w+: .+?)`)? \|", MANUAL.split("## Conditions")[1].split("## Fixes")[0], re.M
)


@pytest.mark.parametrize("written", [one for row in ROWS for one in row if one and "…" not in one])
def test_every_condition_shown_is_valid(written: str) -> None:
    read = condition(written)
    if "count" in read:
        read["count"] = {"line": "^x", "at_least": 3, "within": read["count"]["within"]}
    for leaf in ("follows", "without"):
        if leaf in read:
            read[leaf]["line"] = "^x"

    assert conditions.Condition.model_validate(read).model_fields_set == set(read)
