"""From files to rules in use, and what an author is told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import RuleError
from app.rules.load import RuleSet, builtin_rules, load_folder, load_rules
from app.rules.reading import read_yaml
from tests.rules.making import CAUSE, refusals, rule, ruleset, write


def sample(**fields: Any) -> dict[str, Any]:
    return {**CAUSE, "when": {"line": "^x"}, **fields}


@pytest.mark.parametrize(
    ("fields", "field", "mend"),
    [
        ({"titel": "x"}, "titel", "Did you mean `title`?"),
        ({"when": {"all": [{"line": "^x"}, {"traceback": {"frme": "f"}}]}}, "when.all[1].traceback.frme", "frame"),
        ({"when": {"lines": "^x"}}, "when.lines", "Did you mean `line`?"),
        ({"fix": {"safety": "safe", "sett": {"--a": 1}}}, "fix.sett", "Did you mean `set`?"),
        ({"fix": [{"safety": "saef", "set": {"--a": 1}}]}, "fix[0].safety", "Did you mean `safe`?"),
        ({"category": "port-in-usage"}, "category", "Did you mean `port-in-use`?"),
        ({"examples": [{"logs": "a.log", "argv": "x"}]}, "examples[0].logs", "Did you mean `log`?"),
    ],
)
def test_a_misspelt_word_is_named_with_its_place_and_what_was_meant(
    fields: dict[str, Any], field: str, mend: str
) -> None:
    errors = refusals(fields)

    assert [error.field for error in errors] == [field]
    assert mend in (errors[0].mend or "")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"fix": {"safety": "safe", "set": {"--a": 1}, "loses": ["speed"]}}, "fix: a safe fix loses nothing"),
        ({"fix": {"safety": "safe"}}, "fix: does nothing"),
        ({"fix": {"safety": "safe", "set": {"--a": 1}, "restart": True}}, "fix: either a change or"),
        ({"fix": {"safety": "safe", "set": {"--a": False}}}, "fix.set.--a: a flag is switched off by `remove`"),
        ({"fix": {"safety": "safe", "env_set": {"A": True}}}, "fix.env_set.A: write the value in quotes"),
        ({"when": {}}, "when: asks nothing"),
        ({"when": {"argv": {"gt": 1}}}, "when.argv: a comparison needs `flag`"),
        ({"when": {"traceback": {"chain": "first"}}}, "when.traceback: asks nothing"),
        ({"when": {"count": {"line": "x", "at_least": 2, "within": "soon"}}}, "when.count.within: "),
        ({"engines": {"sglang": "0.4"}}, "engines.sglang: is no version range"),
        ({"role": "noise", "fix": {"safety": "safe", "set": {"--a": 1}}}, "only a cause has `fix`"),
        ({"reaches": "ready"}, "only a rule of role progress"),
        ({"explain": ""}, "a cause needs `category` and `explain`"),
        ({"examples": [{"match": False}]}, "examples[0]: shows nothing"),
    ],
)
def test_a_contradiction_is_explained(fields: dict[str, Any], text: str) -> None:
    assert [text in str(error) for error in refusals(fields)] == [True]


def test_all_mistakes_are_told_at_once() -> None:
    assert {error.field for error in refusals({"titel": "x", "status": "new", "role": "cuase"})} == {
        "titel",
        "status",
        "role",
    }


def test_a_shape_as_in_the_manual_is_accepted() -> None:
    made = rule(
        {
            "all": [
                {"traceback": {"type": "AssertionError", "frame": "_handle_speculative_decoding|_handle_eagle_family"}},
                {"argv": {"has": "--speculative-eagle-topk", "lacks": "--speculative-num-steps"}},
            ]
        },
        engines={"sglang": ">=0.4"},
        covers=["any/bare-assertion"],
        fix={"safety": "safe", "loses": [], "set": {"--speculative-num-steps": 3}},
        preflight=True,
    )

    assert made.fix[0].set == {"--speculative-num-steps": "3"}
    assert made.covers == ("any/bare-assertion",)


def test_every_kind_of_fix_value_is_accepted() -> None:
    made = rule(
        {"line": r"^(?P<flag>--\S+) (?P<tokens>\d+)"},
        fix={
            "safety": "manual",
            "set": {"--a": True, "--b": 0.5, "--c": "{flag}", "--d": {"floor": "{tokens}", "to": 1024}},
            "rename": {"{flag}": {"closest": "{flag}"}},
            "adjust": {"--mem-fraction-static": {"by": -0.05, "min": 0.5}},
            "env_set": {"N": 1},
        },
    )

    assert made.capture_names() == {"flag", "tokens"}
    assert made.fix[0].set["--b"] == "0.5"


# -- YAML


def unreadable(text: str | bytes) -> RuleError:
    with pytest.raises(RuleError) as caught:
        read_yaml(text if isinstance(text, bytes) else text.encode(), Path("sglang/x.yaml"))
    return caught.value


def test_a_syntax_error_names_its_line() -> None:
    assert "sglang/x.yaml: line 2, column" in str(unreadable("id: sglang/x\ntitle: a: b\n"))


def test_a_key_given_twice_is_refused() -> None:
    assert "line 3, column 1: `title` is given twice" in str(unreadable("id: a\ntitle: b\ntitle: c\n"))


def test_an_alias_is_refused() -> None:
    assert "aliases" in str(unreadable("a: &a [x, x]\nb: [*a, *a]\n"))


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['true']",
        "- a list",
        b"\xff\xfe\x00",
        "[" * 30_000,
        "a: " + "[" * 30_000 + "]" * 30_000,
        "{a: 1}: 2",
        "",
    ],
)
def test_what_is_no_plain_mapping_is_refused(text: str | bytes) -> None:
    assert str(unreadable(text)).startswith("sglang/x.yaml: ")


def test_a_backslash_in_double_quotes_is_explained() -> None:
    assert "single quotes" in (unreadable('a: "\\d+"\n').mend or "")


def test_a_large_file_is_refused() -> None:
    assert "a rule at most 65,536" in str(unreadable(b"#" * 70_000))


# -- folders


def test_a_wrong_file_is_reported_and_the_rest_stays_in_use(tmp_path: Path) -> None:
    write(tmp_path, "sglang/good", **sample())
    write(tmp_path, "sglang/bad", **sample(titel="x"))
    (tmp_path / "sglang" / "broken.yaml").write_text("id: [")

    rules = load_folder(tmp_path)

    assert list(rules.by_id) == ["sglang/good"]
    assert [error.path and error.path.name for error in rules.problems] == ["bad.yaml", "broken.yaml"]


def test_an_id_must_be_the_place_of_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, "sglang/one", **sample())
    path.rename(tmp_path / "sglang" / "two.yaml")

    (error,) = load_folder(tmp_path).problems

    assert error.field == "id"
    assert error.mend == "Write `id: sglang/two` or move the file."


def test_a_folder_must_be_an_engine(tmp_path: Path) -> None:
    write(tmp_path, "sglan/one", **sample())

    assert load_folder(tmp_path).problems[0].mend == "Move it to a folder named sglang."


def test_yaml_in_the_wrong_place_is_not_silently_ignored(tmp_path: Path) -> None:
    write(tmp_path, "stray", **sample())

    assert load_folder(tmp_path).problems[0].mend == "Name it <engine>/<name>.yaml."


def test_a_site_folder_adds_replaces_and_switches_off(tmp_path: Path) -> None:
    first, second = [one.id for one in builtin_rules().rules][:2]
    write(tmp_path, "any/our-own", **sample())
    write(tmp_path, first, **sample(title="Ours"))
    write(tmp_path, second, disabled=True)

    rules = load_rules([tmp_path])

    assert rules.problems == builtin_rules().problems
    assert rules.by_id[first].title == "Ours"
    assert ("any/our-own" in rules.by_id, second in rules.by_id) == (True, False)


def test_switching_off_a_rule_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path, "any/no-such-rule", disabled=True)

    assert "there is no rule any/no-such-rule" in str(load_folder(tmp_path).problems[0])


def test_a_site_rule_with_a_broken_pattern_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "any/our-own", **sample(when={"line": "^(unclosed"}))

    rules = load_rules([tmp_path])

    assert "any/our-own" not in rules.by_id
    assert re.search("pattern '.*unclosed' is wrong: missing", str(rules.problems[-1]))


def test_a_missing_site_folder_is_a_problem(tmp_path: Path) -> None:
    assert "is no folder of rules" in str(load_rules([tmp_path / "nowhere"]).problems[-1])


def test_covering_an_unknown_rule_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "sglang/one", **sample(covers=["any/nothing"]))

    rules = load_folder(tmp_path)

    assert "sglang/one" in rules.by_id
    assert [error.field for error in rules.problems] == ["covers"]


def test_rules_that_cover_each_other_are_reported_and_neither_counts(tmp_path: Path) -> None:
    write(tmp_path, "any/a", **sample(covers=["any/b"]))
    write(tmp_path, "any/b", **sample(covers=["any/a"]))

    rules = load_folder(tmp_path)

    assert len(rules.problems) == 2
    assert rules.covered == {"any/a": frozenset(), "any/b": frozenset()}


def test_covering_reaches_through_other_rules() -> None:
    rules = ruleset(
        rule({"line": "^x"}, "any/special", covers=["any/middle"]),
        rule({"line": "^x"}, "any/middle", covers=["any/bare-assertion"]),
    )

    assert rules.covered["any/special"] == {"any/middle", "any/bare-assertion"}
    assert rules.depth == {"any/middle": 1, "any/special": 2}


def test_patterns_are_those_of_all_line_conditions_and_launches_begin_where_a_rule_says() -> None:
    begins = rule({"line": "^banner"}, "any/begin", role="progress", category=None, begins_launch=True)
    other = rule({"line": "^x", "without": {"line": "^up"}, "traceback": {"message": "inner"}}, "any/other")

    patterns = ruleset(begins, other).patterns()

    assert set(patterns.patterns) == {"^banner", "^x", "^up"}
    assert set(patterns.boundaries) == {"^banner"}


def test_an_empty_set_has_no_patterns() -> None:
    assert RuleSet().patterns().patterns == ()
