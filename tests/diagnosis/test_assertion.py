from __future__ import annotations

from pathlib import Path

import pytest

from app.core.command import Command
from app.core.model import Cause, Exit
from app.core.vocabulary import Category, Safety
from app.diagnosis.pipeline import Pipeline
from app.rules.load import RuleSet

SOURCE = """\
class ServerArgs:
    def _handle_something(self):
        if self.speculative_num_steps is None:
            assert (
                self.speculative_eagle_topk is None
                and self.speculative_num_draft_tokens is None
            )
        assert self.tp_size % self.dp_size == 0
        assert self.tool_call_parser is not None
        assert self.trust_remote_code is not None
        assert self.device in ["cuda"]
        assert tokens > 0
        assert self.speculative_algorithm.upper() in ("EAGLE", "NGRAM")
        if not self.device.startswith("cuda"):
            raise ValueError("needs a GPU")
        if int(self.context_length) < 2 or len(self.lora_paths) == 0:
            raise ValueError("too short")
"""


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    env = tmp_path / "env"
    (env / "bin").mkdir(parents=True)
    (env / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (env / "bin" / "python3").write_text("#!/bin/sh\n")
    (env / "bin" / "python3").chmod(0o755)
    (env / "sglang").mkdir()
    (env / "sglang" / "server_args.py").write_text(SOURCE)
    return env


def diagnosed(prefix: Path, lineno: int, code: str, *arguments: str, error: str = "AssertionError") -> list[Cause]:
    log = prefix / "log"
    log.write_text(
        "Traceback (most recent call last):\n"
        f'  File "{prefix}/sglang/server_args.py", line {lineno}, in _handle_something\n'
        f"    {code}\n"
        f"{error}\n"
    )
    words = [str(prefix / "bin" / "python3"), "-m", "sglang.launch_server", "--model-path", "m", *arguments]
    diagnosis = Pipeline(RuleSet()).diagnose_file(log, command=Command.parse(words), exit=Exit(code=1))
    return list(diagnosis.causes)


def test_what_the_condition_around_it_asks_for_is_proposed(prefix: Path) -> None:
    code = "and self.speculative_num_draft_tokens is None"
    arguments = ("--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "16")
    [cause] = diagnosed(prefix, 6, code, *arguments)
    assert cause.fix is not None
    assert (cause.category, dict(cause.fix.set)) == (Category.MISSING_ARGUMENT, {"--speculative-num-steps": "3"})
    assert cause.safety is Safety.SAFE


def test_all_companions_that_are_missing_are_proposed_at_once(prefix: Path) -> None:
    code = "and self.speculative_num_draft_tokens is None"
    [cause] = diagnosed(prefix, 6, code, "--speculative-eagle-topk", "4")
    assert cause.fix is not None
    assert set(cause.fix.set) == {"--speculative-num-steps", "--speculative-num-draft-tokens"}


def test_a_remainder_is_reported_and_nothing_is_guessed(prefix: Path) -> None:
    [cause] = diagnosed(prefix, 8, "assert self.tp_size % self.dp_size == 0", "--tp", "4", "--dp-size", "3")
    assert cause.category is Category.INCOMPATIBLE_ARGUMENTS
    assert cause.fix is None
    assert "--tp is 4" in cause.explanation
    assert "--dp-size is 3" in cause.explanation


def test_a_required_argument_whose_value_is_unknown_is_named_without_a_fix(prefix: Path) -> None:
    [cause] = diagnosed(prefix, 9, "assert self.tool_call_parser is not None")
    assert (cause.category, cause.fix) == (Category.MISSING_ARGUMENT, None)
    assert cause.title == "--tool-call-parser is missing beside the other arguments"


def test_a_required_switch_is_proposed_for_a_person_to_decide(prefix: Path) -> None:
    [cause] = diagnosed(prefix, 10, "assert self.trust_remote_code is not None")
    assert cause.fix is not None
    assert (dict(cause.fix.set), cause.safety) == ({"--trust-remote-code": True}, Safety.MANUAL)


def test_the_only_value_allowed_is_proposed_for_a_person_to_decide(prefix: Path) -> None:
    [cause] = diagnosed(prefix, 11, 'assert self.device in ["cuda"]', "--device", "cpu")
    assert cause.command is not None
    assert cause.command[-2:] == ("--device", "cuda")
    assert cause.safety is Safety.MANUAL


def test_a_condition_on_no_argument_is_an_unknown_failure(prefix: Path) -> None:
    [cause] = diagnosed(prefix, 12, "assert tokens > 0")
    assert (cause.rule, cause.category) == ("any/unknown-failure", Category.UNKNOWN)


def test_a_check_with_a_message_is_read_where_no_rule_knows_it(prefix: Path) -> None:
    code, error = "assert self.tp_size % self.dp_size == 0", "AssertionError: sizes"
    [cause] = diagnosed(prefix, 8, code, "--tp", "4", "--dp-size", "3", error=error)
    assert (cause.rule, cause.title, cause.category) == (
        "any/failed-check",
        "sizes",
        Category.INCOMPATIBLE_ARGUMENTS,
    )
    assert "--dp-size is 3" in cause.explanation


def test_a_check_with_a_message_is_not_guessed_from_the_log_alone(prefix: Path) -> None:
    (prefix / "sglang" / "server_args.py").unlink()
    code, error = "assert self.tp_size % self.dp_size == 0", "AssertionError: sizes"
    [cause] = diagnosed(prefix, 8, code, "--tp", "4", "--dp-size", "3", error=error)
    assert cause.rule == "any/unknown-failure"


def test_without_the_source_the_code_line_in_the_log_is_read(prefix: Path) -> None:
    (prefix / "sglang" / "server_args.py").unlink()
    code = "and self.speculative_num_draft_tokens is None"
    [cause] = diagnosed(prefix, 6, code, "--speculative-num-draft-tokens", "16")
    assert (cause.rule, cause.category, cause.fix) == ("any/bare-assertion", Category.INCOMPATIBLE_ARGUMENTS, None)
    assert cause.line is not None
    assert cause.line.text.strip() == code


def test_without_the_source_a_part_of_a_condition_proposes_nothing(prefix: Path) -> None:
    (prefix / "sglang" / "server_args.py").unlink()
    [cause] = diagnosed(prefix, 6, "and self.trust_remote_code is not None")
    assert (cause.category, cause.fix) == (Category.MISSING_ARGUMENT, None)


@pytest.mark.parametrize(
    ("lineno", "arguments", "told"),
    [
        (13, ("--speculative-algorithm", "x"), "--speculative-algorithm is x"),
        (15, ("--device", "cpu"), "--device is cpu"),
        (17, ("--context-length", "1"), "--context-length is 1"),
    ],
    ids=["case", "beginning", "converted"],
)
def test_a_setting_is_seen_through_what_only_spells_or_measures_it(
    prefix: Path, lineno: int, arguments: tuple[str, str], told: str
) -> None:
    code = SOURCE.splitlines()[lineno - 1].strip()
    [cause] = diagnosed(prefix, lineno, code, *arguments, error="ValueError: no")
    assert told in cause.explanation


def test_a_condition_is_told_without_double_negation(prefix: Path) -> None:
    [cause] = diagnosed(prefix, 15, 'raise ValueError("needs a GPU")', "--device", "cpu", error="ValueError: no")
    assert "The condition that had to hold: self.device.startswith('cuda')." in cause.explanation
