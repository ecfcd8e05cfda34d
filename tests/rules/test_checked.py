from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from app.core.vocabulary import Engine, Phase
from app.rules import checked, conditions, schema
from app.rules.load import RuleSet, builtin_rules, kept_rules, load_folder
from app.rules.match import match
from app.rules.scene import Scene
from app.rules.schema import Rule

RULE = """
id: any/full
title: disk full
status: stable
category: resource-exhausted
role: cause
engines: {sglang: ">=0.4"}
when: {any: [{line: 'No space (?P<left>\\w+)'}, {phase: loading, argv: {flag: --tp, gt: 1}}]}
explain: the disk is full
fix: {safety: degrading, loses: [length], set: {--context-length: {floor: "{left}", to: 8}}}
examples: [{text: "No space left"}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "rules" / "any" / "full.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(RULE.replace("resource-exhausted", sorted(_categories())[0]))
    return tmp_path / "rules"


def _categories() -> list[str]:
    return list(dict.fromkeys(rule.category.value for rule in builtin_rules().rules if rule.category))


def keep(folder: Path, cache: Path) -> RuleSet:
    """Keeps the rules as though their files had been at rest for long."""
    rules = load_folder(folder)
    stamp = checked.stamp_of(folder)
    assert stamp is not None
    checked.write(cache, stamp, rules.rules, folder, settled=0)
    return kept_rules(folder, cache)


def came_from_checking(rules: RuleSet) -> bool:
    return all(isinstance(rule, Rule) for rule in rules.rules)


def test_rules_that_were_kept_have_all_that_was_checked_but_the_examples(folder: Path, tmp_path: Path) -> None:
    kept = keep(folder, tmp_path / "cache").by_id["any/full"]
    assert not came_from_checking(keep(folder, tmp_path / "cache"))
    assert kept.when.any is not None
    assert (kept.engines, kept.when.any[1].phase) == ({Engine.SGLANG: ">=0.4"}, (Phase.LOADING,))
    assert kept.fix[0].loses == ("length",)
    assert kept.fix[0].templates() == {"{left}", "--context-length", "length"}
    assert (kept.preflight, kept.references, kept.examples) == (False, (), ())


def test_all_built_in_rules_that_were_kept_have_the_same_values(tmp_path: Path) -> None:
    loaded = builtin_rules()
    checked.write(tmp_path / "cache", "stamp", loaded.rules, tmp_path, settled=0)
    kept = checked.read(tmp_path / "cache", "stamp") or ()
    assert [values(rule) for rule in kept] == [values(rule) for rule in loaded.rules]
    assert RuleSet(kept).patterns().patterns == loaded.patterns().patterns


def values(part: object) -> object:
    """A part of a rule with all that is in it, whether it was checked or kept."""
    if isinstance(part, tuple | list):
        return [values(one) for one in part]
    if isinstance(part, dict):
        return {key: values(one) for key, one in part.items()}
    model = getattr(schema, type(part).__name__, None) or getattr(conditions, type(part).__name__, None)
    if model is None or not issubclass(model, BaseModel):
        return part
    return {name: values(getattr(part, name)) for name in model.model_fields if name != "examples"}


def test_a_changed_rule_file_is_read_anew(folder: Path, tmp_path: Path) -> None:
    keep(folder, tmp_path / "cache")
    path = folder / "any" / "full.yaml"
    path.write_text(path.read_text().replace("title: disk full", "title: disk FULL"))
    assert kept_rules(folder, tmp_path / "cache").by_id["any/full"].title == "disk FULL"


def test_a_rule_file_that_came_or_went_is_noticed(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    keep(folder, cache)
    path = folder / "any" / "full.yaml"
    (folder / "any" / "other.yaml").write_text(path.read_text().replace("any/full", "any/other"))
    path.unlink()
    assert list(kept_rules(folder, cache).by_id) == ["any/other"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"defaults": {}, "rules": [["part", "Rule", {}]]}', b"\xff"])
def test_a_damaged_file_is_as_if_there_were_none(folder: Path, tmp_path: Path, content: bytes) -> None:
    cache = tmp_path / "cache"
    keep(folder, cache)
    for path in cache.iterdir():
        path.write_bytes(content)
    assert came_from_checking(kept_rules(folder, cache))


def test_what_others_could_have_written_is_not_used(folder: Path, tmp_path: Path) -> None:
    keep(folder, tmp_path / "cache")
    (tmp_path / "cache").chmod(0o777)
    assert came_from_checking(kept_rules(folder, tmp_path / "cache"))


def test_a_folder_that_cannot_be_made_keeps_nothing_and_breaks_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert list(kept_rules(folder, tmp_path / "file" / "cache").by_id) == ["any/full"]


def test_rules_that_changed_just_now_are_not_kept(folder: Path, tmp_path: Path) -> None:
    stamp = checked.stamp_of(folder)
    assert stamp is not None
    checked.write(tmp_path / "cache", stamp, load_folder(folder).rules, folder, settled=3_600 * 10**9)
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_is_wrong_with_a_file_is_told_each_time(folder: Path, tmp_path: Path) -> None:
    (folder / "any" / "bad.yaml").write_text("id: any/bad\n")
    first = kept_rules(folder, tmp_path / "cache").problems
    assert first
    assert list(map(str, kept_rules(folder, tmp_path / "cache").problems)) == list(map(str, first))


def test_a_kept_rule_holds_as_the_checked_one_does(folder: Path, tmp_path: Path) -> None:
    kept = keep(folder, tmp_path / "cache")
    assert match(kept, Scene()) == match(load_folder(folder), Scene()) == []


def test_processes_that_keep_at_once_leave_one_whole_file(folder: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from app.rules import checked; from app.rules.load import load_folder\n"
        "folder, cache = map(Path, sys.argv[1:]); rules = load_folder(folder).rules\n"
        "for _ in range(50): checked.write(cache, 'same', rules, folder, settled=0)"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", program, folder, tmp_path / "cache"], stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [process.communicate()[1] for process in both] == [b"", b""]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["rules-same.json"]
    assert checked.read(tmp_path / "cache", "same") is not None
