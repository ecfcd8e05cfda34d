"""What a rule is told before it may be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.core.model import Cause
from app.core.vocabulary import Category, Confidence
from app.rules.examples import inside_a_prompt
from app.rules.lint import lint, loud_on_healthy, starts_with_anything, too_slow
from app.rules.load import RuleSet, load_folder
from app.rules.scene import Scene
from tests.rules.making import CAUSE, write

LOG = "server starts\nboom: 7 GPUs missing\n"
GOOD: dict[str, Any] = {
    **CAUSE,
    "when": {"line": r"^boom: (?P<gpus>\d+) GPUs missing"},
    "explain": "{gpus} GPUs are missing.",
    "examples": [
        {"text": LOG, "line": 2, "captures": {"gpus": 7}},
        {"text": "boom: none missing\n", "match": False},
    ],
}


def told(folder: Path, **changes: Any) -> list[str]:
    """What lint says of the good rule with some fields changed."""
    path = write(folder, "sglang/sample", **{**GOOD, **changes})
    return said(load_folder(folder), path)


def said(rules: RuleSet, path: Path) -> list[str]:
    assert rules.problems == ()
    return [str(error).removeprefix(f"{path}: ") for error in lint(rules)]


def test_a_sound_rule_is_told_nothing(tmp_path: Path) -> None:
    assert told(tmp_path) == []


@pytest.mark.parametrize(
    ("example", "text"),
    [
        ({"text": LOG, "line": 1}, "is proven by line 2, not by line 1"),
        ({"text": LOG, "captures": {"gpus": 8}}, "captures '7' as gpus, not '8'"),
        ({"text": "all is well\n"}, "does not match"),
        ({"text": LOG, "match": False}, "matches, but must not (line 2: boom: 7 GPUs missing)"),
        ({"log": "examples/nowhere.log"}, "can't be tried: "),
        ({"text": LOG, "argv": "python 'unbalanced"}, "can't be tried: "),
    ],
)
def test_an_example_that_is_not_so_is_told(tmp_path: Path, example: dict[str, Any], text: str) -> None:
    examples = [*GOOD["examples"], example]

    assert [one.startswith(f"examples[2]: {text}") for one in told(tmp_path, examples=examples)] == [True]


def test_an_example_may_be_a_file_beside_the_rule(tmp_path: Path) -> None:
    (tmp_path / "sglang" / "examples").mkdir(parents=True)
    (tmp_path / "sglang" / "examples" / "boom.log").write_text(LOG)

    assert told(tmp_path, examples=[{"log": "examples/boom.log", "line": 2}, GOOD["examples"][1]]) == []


def test_both_kinds_of_example_are_demanded(tmp_path: Path) -> None:
    assert told(tmp_path, examples=GOOD["examples"][:1])[0].startswith("examples: none with `match: false`")
    assert told(tmp_path, examples=GOOD["examples"][1:])[0].startswith("examples: none that matches")


def test_a_rule_that_believes_a_prompt_is_told(tmp_path: Path) -> None:
    (problem,) = told(tmp_path, when={"line": r"boom: (?P<gpus>\d+) GPUs missing"})

    assert problem == "examples[0]: holds as well when a client sends this log as a prompt: anchor the pattern with ^"


def test_a_prompt_stands_in_a_line_of_the_server() -> None:
    assert inside_a_prompt(b"a 'quoted' line\n") == (
        b"[2026-01-12 10:00:00] Receive: obj=GenerateReqInput(rid='7', text=\"a 'quoted' line\", stream=True)\n"
    )


@pytest.mark.parametrize(
    "pattern", [".*boom", "^.*boom", "(?i)^(?:.+ )?boom", r"(?P<all>[\s\S]*)boom", ".+", r"(\A.*|x)"]
)
def test_patterns_that_begin_with_anything(pattern: str) -> None:
    assert starts_with_anything(pattern)


@pytest.mark.parametrize("pattern", ["^boom.*", r"^\[.*\] boom", r"^\.*boom", "(?i)^(?:INFO )?boom", r"^\S+ boom"])
def test_patterns_that_begin_with_something(pattern: str) -> None:
    assert not starts_with_anything(pattern)


def test_a_pattern_that_may_skip_anything_is_told(tmp_path: Path) -> None:
    assert "begins with anything" in told(tmp_path, when={"line": r"^.*boom: (?P<gpus>\d+)"})[0]


@pytest.mark.parametrize("pattern", [r"^(\w+\s?)+$", r"(?:\w+)+: weight", r"\w+[=:]\s*weight"])
def test_a_pattern_that_is_slow_on_a_hostile_line_is_found(pattern: str) -> None:
    assert too_slow(pattern)


def test_a_bounded_pattern_is_quick_on_hostile_lines() -> None:
    assert not too_slow(r"^(?:\w{1,40}\.)*\w{1,40}Error: (?P<why>.{1,200})")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"explain": "{gpu} is missing"}, "explain: {gpu} is captured nowhere"),
        ({"title": "{who}"}, "title: {who} is captured nowhere"),
        ({"fix": {"safety": "safe", "set": {"--tp": "{tp}"}}}, "fix: {tp} is captured nowhere"),
        ({"fix": {"safety": "safe", "remove": "--tp"}}, "fix: takes back something that was typed"),
        ({"fix": {"safety": "safe", "env_unset": "A"}}, "fix: takes back something that was typed"),
        ({"fix": {"safety": "degrading", "set": {"--tp": "1"}}}, "fix.loses: is empty"),
        (
            {"fix": {"safety": "safe", "set": {"--tp": "1"}, "requires": {"line": "^x"}}},
            "fix.requires: asks the log",
        ),
        ({"when": {"argv": {"has": "--tp"}}, "explain": "x"}, "when: asks neither the log nor the exit"),
        ({"when": {"exit": {"code": 1}, "follows": {"line": "^x"}}, "explain": "x"}, "when: follows and without are"),
        ({"preflight": True}, "preflight: nothing that was typed decides"),
    ],
)
def test_what_can_not_be_meant_is_told(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    assert [one for one in told(tmp_path, **changes) if one.startswith(text)]


def test_facts_arguments_and_variables_need_no_capture(tmp_path: Path) -> None:
    assert told(tmp_path, explain="{model} on {port}, {phase}, {argv.--tp-size}, {env.SPEC}, {gpus}") == []


def test_a_broken_pattern_is_told_and_nothing_is_tried(tmp_path: Path) -> None:
    (problem,) = told(tmp_path, when={"line": "^(boom"}, explain="x")

    assert problem.startswith("when: the pattern '^(boom' is wrong: missing )")


BEFORE = {"line": r"^boom: (?P<gpus>\d+) GPUs missing", "argv": {"has": "--tp-size"}}
LAUNCH = "python3 -m sglang.launch_server --tp-size 8"


def test_a_rule_for_before_a_launch_is_shown_before_one(tmp_path: Path) -> None:
    silent = {**GOOD["examples"][0], "argv": LAUNCH}

    assert told(tmp_path, when=BEFORE, preflight=True, examples=[silent, GOOD["examples"][1]]) == []
    assert "does not match" in told(tmp_path, when=BEFORE, preflight=True)[0]


def test_an_example_of_a_command_line_alone_is_tried_as_before_a_launch(tmp_path: Path) -> None:
    alone = [{"argv": LAUNCH}, {"argv": "python3 -m sglang.launch_server", "match": False}]

    assert told(tmp_path, when=BEFORE, preflight=True, examples=alone) == []


# -- rules beside each other


def test_a_rule_that_another_one_wins_over_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, "sglang/sample", **GOOD)
    rival = {**GOOD, "when": {"line": "^boom: ", "phase": "starting"}, "explain": "x"}
    rival["examples"] = [{"text": LOG}, {"text": "x\n", "match": False}]
    write(tmp_path, "sglang/rival", **rival)

    problems = said(load_folder(tmp_path), path)

    assert "examples[0]: is won by sglang/rival, which does not cover this rule" in problems


def test_a_rule_that_covers_may_win(tmp_path: Path) -> None:
    path = write(tmp_path, "sglang/sample", **GOOD)
    rival = {**GOOD, "when": {"line": "^boom: ", "phase": "starting"}, "explain": "x", "covers": ["sglang/sample"]}
    rival["examples"] = [{"text": LOG}, {"text": "x\n", "match": False}]
    write(tmp_path, "sglang/rival", **rival)

    assert said(load_folder(tmp_path), path) == []


def test_a_judge_decides_who_wins_and_what_the_command_becomes(tmp_path: Path) -> None:
    example = {**GOOD["examples"][0], "argv": LAUNCH, "command": f"{LAUNCH} --dp 2"}
    write(tmp_path, "sglang/sample", **{**GOOD, "examples": [example, GOOD["examples"][1]]})
    rules = load_folder(tmp_path)

    def judge(rule: str, *extra: str) -> list[str]:
        def of(scene: Scene, data: bytes | None) -> Sequence[Cause]:
            assert (scene.command and scene.command.shell(), data) == (LAUNCH, LOG.encode())
            command = (*LAUNCH.split(), *extra)
            cause = Cause(rule, Category.SCHEDULER_CRASH, "t", "e", Confidence.HIGH, command=command)
            return [cause]

        return [str(error).partition("examples[0]: ")[2] for error in lint(rules, judge=of)]

    assert judge("sglang/sample", "--dp", "2") == []
    assert judge("sglang/sample", "--dp", "4")[0].startswith("the corrected command is\n  python3 -m")
    assert judge("any/other", "--dp", "2")[0] == "is won by any/other, which does not cover this rule"


def test_only_the_rules_asked_for_are_told(tmp_path: Path) -> None:
    write(tmp_path, "sglang/sample", **{**GOOD, "examples": []})

    assert list(lint(load_folder(tmp_path), only={"sglang/other"})) == []


def test_a_cause_on_a_healthy_log_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, "sglang/sample", **GOOD)
    healthy = tmp_path / "healthy.log"
    healthy.write_text("ready\n" + LOG)

    (problem,) = loud_on_healthy(load_folder(tmp_path), [healthy])

    assert str(problem) == f"{path}: when: holds on the healthy log {healthy}: line 3"


def test_a_branch_that_no_example_shows_is_told(tmp_path: Path) -> None:
    when = {"any": [GOOD["when"], {"line": "^bang: nothing left"}]}

    assert told(tmp_path, when=when) == [
        "when.any[1]: no example shows this branch: give a line that it holds on (`each` takes many), or take it out"
    ]


@pytest.mark.parametrize("pattern", ["^boom: (?P<gpus>\\d+) GPUs|^bang: none", "^(?:boom: 7 GPUs|bang: none)"])
def test_a_wording_that_no_example_shows_is_told(tmp_path: Path, pattern: str) -> None:
    [problem] = told(tmp_path, when={"line": pattern}, explain="They are missing.", examples=SHOWN)

    assert problem.startswith("when.line: no example shows the alternative '^")
    assert "bang: none" in problem


SHOWN = [{"text": LOG}, {"text": "boom: none missing\n", "match": False}]


def test_lines_that_each_prove_the_rule_may_be_written_together(tmp_path: Path) -> None:
    when = {"any": [GOOD["when"], {"line": "^bang: nothing left"}]}
    each = {"each": "boom: 3 GPUs missing\n\nbang: nothing left\n"}

    assert told(tmp_path, when=when, explain="Missing.", examples=[each, GOOD["examples"][1]]) == []


def test_of_lines_written_together_the_one_that_is_wrong_is_named(tmp_path: Path) -> None:
    each = {"each": "boom: 3 GPUs missing\nboom: all is well\n"}

    assert told(tmp_path, examples=[each, GOOD["examples"][1]]) == ["examples[0]: 'boom: all is well' does not match"]


@pytest.mark.parametrize(
    ("engines", "versions"), [({}, "sglang 0.5.9, sglang 0.5.23"), ({"sglang": ">=0.5.20"}, "sglang 0.5.23")]
)
def test_a_flag_that_no_known_version_has_is_told(tmp_path: Path, engines: dict[str, str], versions: str) -> None:
    fix = {"safety": "manual", "set": {"--tensor-paralel": "2"}}

    assert told(tmp_path, fix=fix, engines=engines or None) == [
        f"fix: none of {versions} has --tensor-paralel: correct the name, or the versions in `engines`"
    ]
