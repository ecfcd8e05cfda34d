"""From the bytes of a rule file to a rule, or to errors that tell its author what to mend and where."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.core.errors import RuleError
from app.rules import conditions, schema
from app.rules.schema import FOLDERS, Rule

LARGEST_FILE = 64 * 1024
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # without libyaml: the same result, ten times slower

# Which model describes what stands below a key, to suggest the field that was meant.
_BELOW: dict[str, type[BaseModel]] = {
    **dict.fromkeys(("when", "all", "any", "none", "requires"), conditions.Condition),
    "line": conditions.LineLeaf,
    "event": conditions.EventLeaf,
    "traceback": conditions.TracebackLeaf,
    "count": conditions.CountLeaf,
    "follows": conditions.FollowsLeaf,
    "without": conditions.WithoutLeaf,
    "exit": conditions.ExitLeaf,
    "argv": conditions.ArgvLeaf,
    "env": conditions.EnvLeaf,
    "capture": conditions.CaptureLeaf,
    "fix": schema.FixSpec,
    "examples": schema.Example,
}


class _Loader(_BASE):  # type: ignore[misc]
    """Plain values only. A key given twice is a mistake, not a choice; aliases can blow a small file up."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key is a plain word", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"`{key.value}` is given twice", problem_mark=key.start_mark)
            seen.add(key.value)
        built: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return built

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node in self.constructed_objects or node in self.recursive_objects:
            raise yaml.MarkedYAMLError(problem="aliases (`*name`) are not allowed", problem_mark=node.start_mark)
        return super().construct_object(node, deep=deep)


def read_yaml(data: bytes, path: Path) -> dict[str, Any]:
    """The mapping in a rule file; a RuleError names the line where it can't be read."""
    if len(data) > LARGEST_FILE:
        raise RuleError(
            f"{path}: the file has {len(data):,} bytes, a rule at most {LARGEST_FILE:,}",
            path=path,
            mend="Keep example logs in files of their own.",
        )
    try:
        value = yaml.load(data, Loader=_Loader)  # noqa: S506 - built on the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "the file"
        raise RuleError(
            f"{path}: {where}: {error.problem or error.context}", path=path, mend=_yaml_mend(error)
        ) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise RuleError(f"{path}: is no YAML: {error}", path=path, mend="Save the file as UTF-8 text.") from error
    if not isinstance(value, dict):
        raise RuleError(f"{path}: is no rule: a rule is a mapping that begins with `id:`", path=path)
    return value


def read_rule(raw: dict[str, Any], path: Path) -> Rule | list[RuleError]:
    """A rule from its raw mapping, or everything that is wrong with it."""
    try:
        rule = Rule.model_validate(raw)
    except ValidationError as error:
        return [_explain(detail, raw, path) for detail in error.errors(include_url=False)]
    wrong = check_id(rule.id, path)
    return [wrong] if wrong else rule


def check_id(name: object, path: Path) -> RuleError | None:
    """An id is its file's folder and name: one look tells where a rule lives."""
    expected = f"{path.parent.name}/{path.stem}"
    if path.parent.name not in FOLDERS:
        near = difflib.get_close_matches(path.parent.name, FOLDERS, 1)
        mend = f"Move it to a folder named {near[0] if near else 'any or after an engine'}."
        return RuleError(f"{path}: the folder names no engine: {path.parent.name}", path=path, field="id", mend=mend)
    if name != expected:
        return RuleError(
            f"{path}: id: is {name!r}, the file's place says {expected!r}",
            path=path,
            field="id",
            mend=f"Write `id: {expected}` or move the file.",
        )
    return None


def line_of(path: Path, field: str) -> int | None:
    """The line of a rule file on which a field such as `when.any[3].line` stands, or the nearest one around it."""
    try:
        node = yaml.compose(path.read_bytes(), Loader=_Loader)
    except (OSError, yaml.YAMLError):
        return None
    line = None
    for step in re.findall(r"[^.\[\]]+|\[\d+\]", field):
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == step]
            if not found:
                break
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        elif isinstance(node, yaml.SequenceNode) and step.startswith("[") and int(step[1:-1]) < len(node.value):
            node = node.value[int(step[1:-1])]
            line = node.start_mark.line + 1
        elif step != "[0]":  # one thing may be written without its list
            break
    return line


def _yaml_mend(error: yaml.MarkedYAMLError) -> str | None:
    problem = error.problem or ""
    if "escape" in problem:
        return "Put patterns in single quotes: YAML reads backslashes in double quotes."
    if "mapping values are not allowed" in problem or "expected <block end>" in problem or "alias" in problem:
        return "Put text that holds `: `, `#`, `*`, `&` or begins with a bracket in single quotes."
    if "found character '\\t'" in problem or "cannot start any token" in problem:
        return "Indent with spaces, and put text that begins with a special character in single quotes."
    return None


def _explain(detail: ErrorDetails, raw: object, path: Path) -> RuleError:
    """One pydantic error in an author's words."""
    field, keys = _field_path(detail["loc"], raw)
    text, mend = detail["msg"], None
    match detail["type"]:
        case "extra_forbidden":
            text = "there is no such field"
            mend = _did_you_mean(str(detail["loc"][-1]), _fields_below(keys[:-1]))
        case "missing":
            text = "is missing"
        case "enum" | "literal_error":
            choices = [choice.strip("' ") for choice in str(detail["ctx"]["expected"]).replace(" or ", ", ").split(",")]
            text = f"{detail['input']!r} is not one of: {', '.join(choices)}"
            mend = _did_you_mean(str(detail["input"]), choices)
        case "value_error":
            text = str(detail["ctx"]["error"])
        case "string_pattern_mismatch" if field == "id":
            text = f"{detail['input']!r} is no id"
            mend = "Write <engine>/<name>, in small letters, digits and hyphens."
    where = f"{path}: {field}" if field else str(path)
    return RuleError(f"{where}: {text}", path=path, field=field or None, mend=mend)


def _field_path(location: Sequence[str | int], raw: object) -> tuple[str, list[str]]:
    """`when.all[1].traceback.frme`: pydantic's location without the steps that are not in the file."""
    shown, keys, value = "", [], raw
    for step in location:
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            shown, value = f"{shown}[{step}]", value[step]
        elif isinstance(value, dict) and step in value:
            shown, value = f"{shown}.{step}" if shown else str(step), value[step]
            keys.append(str(step))
        elif isinstance(value, dict) and step == location[-1] and isinstance(step, str) and step not in _TAGS:
            shown = f"{shown}.{step}" if shown else step
            keys.append(step)
    return shown, keys


_TAGS = ("[key]", "str", "float", "int", "Closest", "Floor", "literal[True]")


def _fields_below(keys: Sequence[str]) -> list[str]:
    model: type[BaseModel] = _BELOW.get(keys[-1], conditions.Comparison) if keys else Rule
    return [field.alias or name for name, field in model.model_fields.items()]


def _did_you_mean(word: str, choices: Sequence[str]) -> str | None:
    near = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    return f"Did you mean `{near[0]}`?" if near else f"There are: {', '.join(choices)}."
