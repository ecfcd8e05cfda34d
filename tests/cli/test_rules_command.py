"""`crashcart rules` as a person or a script runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli.commands import build_app
from app.core.errors import UsageError
from app.core.resources import rules_folder
from tests.rules.making import CAUSE, write

GOOD: dict[str, Any] = {
    **CAUSE,
    "when": {"line": "^flux capacitor: out of plutonium"},
    "examples": [
        {"text": "flux capacitor: out of plutonium\n", "line": 1},
        {"text": "flux capacitor: charged\n", "match": False},
    ],
}


def run(*words: str) -> Result:
    result = CliRunner().invoke(build_app(["rules"]), ["rules", *words])
    if isinstance(result.exception, UsageError):
        raise result.exception
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


@pytest.fixture
def site(tmp_path: Path) -> Path:
    write(tmp_path, "sglang/flux", **GOOD)
    return tmp_path


def test_list_prints_a_line_a_rule_in_a_pipe(site: Path) -> None:
    lines = run("list", "--rules", str(site)).stdout.splitlines()

    assert "sglang/flux\tcause\tscheduler-crash\texperimental\t\tIt broke" in lines


def test_list_of_an_engine_leaves_out_the_others(site: Path) -> None:
    listed = json.loads(run("list", "--rules", str(site), "--engine", "vllm", "--json").stdout)

    assert "any/port-in-use" in {rule["id"] for rule in listed}
    assert not [rule["id"] for rule in listed if rule["id"].startswith("sglang/")]


def test_list_as_json_tells_the_main_facts(site: Path) -> None:
    listed = json.loads(run("list", "--rules", str(site), "--json").stdout)

    assert next(rule for rule in listed if rule["id"] == "sglang/flux") == {
        "id": "sglang/flux",
        "title": "It broke",
        "role": "cause",
        "category": "scheduler-crash",
        "status": "experimental",
        "confidence": "medium",
        "engines": {},
        "preflight": False,
        "safety": [],
        "covers": [],
        "path": str(site / "sglang" / "flux.yaml"),
    }


def test_show_tells_what_a_rule_asks_and_where_it_lives(site: Path) -> None:
    shown = run("show", "sglang/flux", "--rules", str(site)).stdout

    assert "regex: ^flux capacitor: out of plutonium" in shown
    assert str(site / "sglang" / "flux.yaml") in shown


def test_show_as_json_is_the_rule(site: Path) -> None:
    shown = json.loads(run("show", "sglang/flux", "--rules", str(site), "--json").stdout)

    assert shown["when"] == {"line": {"regex": "^flux capacitor: out of plutonium"}}


def test_an_unknown_rule_is_a_usage_error_with_the_nearest_names(site: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run("show", "sglang/flx", "--rules", str(site))

    assert "sglang/flux" in (caught.value.mend or "")


def test_test_prints_a_line_an_example(site: Path) -> None:
    result = run("test", "sglang/flux", "--rules", str(site))

    assert result.stdout.splitlines() == [
        "ok   sglang/flux [1] its text: matches",
        "ok   sglang/flux [2] its text: does not match",
        "2 examples of 1 rule, 0 failed",
    ]
    assert result.exit_code == 0


def test_test_takes_a_file(site: Path) -> None:
    assert run("test", str(site / "sglang" / "flux.yaml")).stdout.endswith("2 examples of 1 rule, 0 failed\n")


def test_test_exits_with_1_when_an_example_fails(site: Path) -> None:
    wrong = [{**GOOD["examples"][0], "line": 3}, GOOD["examples"][1]]
    path = write(site, "sglang/flux", **{**GOOD, "examples": wrong})

    result = run("test", str(path))

    assert result.exit_code == 1
    assert result.stdout.splitlines()[:2] == [
        "FAIL sglang/flux [1] its text",
        "     is proven by line 1, not by line 3",
    ]


def test_test_of_an_invalid_file_says_why(site: Path) -> None:
    path = write(site, "sglang/flux", **{**GOOD, "titel": "x"})

    result = run("test", str(path))

    assert result.exit_code == 1
    assert "titel: there is no such field" in result.stderr


def test_lint_of_a_sound_file_exits_with_0(site: Path) -> None:
    result = run("lint", str(site / "sglang" / "flux.yaml"))

    assert (result.exit_code, result.stdout) == (0, "1 rule, 0 problems\n")


def test_lint_of_a_folder_tells_its_problems_alone(site: Path) -> None:
    path = write(site, "sglang/other", **{**GOOD, "titel": "x"})

    result = run("lint", str(site))

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{path}:17: titel: there is no such field",
        "  Did you mean `title`?",
        "1 rule, 1 problem",
    ]


def test_lint_tries_healthy_logs(site: Path, tmp_path: Path) -> None:
    healthy = tmp_path / "healthy"
    healthy.mkdir()
    (healthy / "fine.log").write_text("ready\nflux capacitor: out of plutonium, as usual\n")

    result = run("lint", str(site / "sglang" / "flux.yaml"), "--healthy", str(healthy))

    assert f"when: holds on the healthy log {healthy}/fine.log: line 2" in result.stdout


def test_lint_as_json_has_file_and_field(site: Path) -> None:
    path = write(site, "sglang/other", **{**GOOD, "titel": "x"})

    assert json.loads(run("lint", str(path), "--json").stdout) == [
        {
            "path": str(path),
            "line": 17,
            "field": "titel",
            "text": f"{path}: titel: there is no such field",
            "mend": "Did you mean `title`?",
        }
    ]


def test_lint_of_a_missing_path_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no .*nowhere"):
        run("lint", str(tmp_path / "nowhere"))


def test_the_schema_has_a_command_of_its_own() -> None:
    assert run("schema").stdout == (rules_folder() / "schema.json").read_text()


def test_the_schema_for_editors_is_json() -> None:
    assert json.loads(run("lint", "--schema").stdout)["title"] == "Crashcart rule"


def test_terminal_escapes_in_a_problem_are_made_harmless(site: Path) -> None:
    examples = [{"text": "flux capacitor: out of plutonium \x1b[2J\n", "match": False}, GOOD["examples"][0]]
    path = write(site, "sglang/flux", **{**GOOD, "examples": examples})

    assert "\x1b" not in run("test", str(path)).stdout


@pytest.mark.parametrize(
    ("version", "flag"), [("0.5.9", "--cuda-graph-max-bs"), ("0.5.23", "--cuda-graph-max-bs-decode")]
)
def test_an_examples_version_decides_by_which_flags_its_command_is_corrected(
    tmp_path: Path, version: str, flag: str
) -> None:
    launch = "python3 -m sglang.launch_server --model-path m"
    fix = {"safety": "degrading", "loses": ["speed"], "set": {flag: 16}}
    example = {**GOOD["examples"][0], "argv": launch, "version": version, "command": f"{launch} {flag} 16"}
    path = write(tmp_path, "sglang/flux", **{**GOOD, "fix": fix, "examples": [example, GOOD["examples"][1]]})

    assert run("test", str(path)).exit_code == 0


def test_explain_says_which_line_proves_a_rule(site: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("all is well\nflux capacitor: out of plutonium\n")

    found = json.loads(run("explain", "sglang/flux", str(log), "--rules", str(site), "--json").stdout)

    assert [(step["holds"], step["line"]) for step in found["steps"]] == [(True, 2)]
    assert (found["holds"], found["place"]) == (True, 1)


def explained(log: Path, text: str, *words: str) -> list[str]:
    log.write_text(text)
    return run("explain", words[0], str(log), *words[1:]).stdout.splitlines()


SHARD = "[2026-01-12 10:00:00 TP0] Load weight begin. avail mem=78.00 GB\n"
IN_USE = "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use\n"


def test_explain_shows_the_nearest_line_of_a_pattern_that_holds_nowhere(tmp_path: Path) -> None:
    told = explained(tmp_path / "log", "Port 30000 is used already\n", "any/port-in-use")

    [near] = [line for line in told if "Port (?P<port>" in line]
    assert near.endswith("(nearest: line 1: Port 30000 is used already)")
    assert told[-1] == "It does not hold."


def test_explain_gives_the_corrected_command(tmp_path: Path) -> None:
    text = "ValueError: User-specified max_model_len (65536) is greater than the derived max_model_len"
    text += " (max_position_embeddings=32768 or model_max_length=None in model's config.json).\n"
    launch = ["--", "vllm", "serve", "org/model", "--max-model-len", "65536"]

    told = explained(tmp_path / "log", text, "vllm/max-model-len-too-long", *launch)

    assert told[-2] == "It holds and comes first."
    assert told[-1].endswith("gives: vllm serve org/model --max-model-len 32768")


def test_explain_names_the_rule_that_stands_for_it(tmp_path: Path) -> None:
    log = rules_folder() / "sglang/examples/overlap-crash.log"

    told = run("explain", "sglang/scheduler-crash", str(log)).stdout.splitlines()

    assert told[-1] == "It holds, and sglang/overlap-scheduler-crash covers it: that rule is shown instead."


def test_explain_names_the_cause_that_comes_first(tmp_path: Path) -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 7.00 MiB.\n" + IN_USE

    told = explained(tmp_path / "log", text, "any/port-in-use")

    assert told[-1] == "It holds, behind any/gpu-out-of-memory (line 1)."


def test_explain_says_when_a_rule_is_for_another_engine(tmp_path: Path) -> None:
    told = explained(tmp_path / "log", SHARD, "vllm/engine-core-killed")

    assert told[-2] == "The log is of sglang; the rule is for vllm: it is not asked here."


def test_explain_takes_the_exit_code(tmp_path: Path) -> None:
    rule = tmp_path / "site" / "any"
    rule.mkdir(parents=True)
    when = {"exit": {"signal": "SIGBUS"}}
    write(tmp_path / "site", "any/bus", **{**GOOD, "id": "any/bus", "when": when, "examples": [], "explain": "Bus."})
    words = ("any/bus", "--rules", str(tmp_path / "site"))

    assert "It does not hold." in explained(tmp_path / "log", SHARD, *words)
    assert "It does not hold." not in explained(tmp_path / "log", SHARD, *words, "--exit-code", "-7")
