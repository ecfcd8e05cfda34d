from __future__ import annotations

from pathlib import Path

import pytest

from app.core.command import Command
from app.core.model import Frame, Line
from app.diagnosis.source import Requirement, launch_prefixes, read_requirement, requirement_of_code

MODULE = """\
class ServerArgs:
    def check(self):
        if not self.adaptive and self.speculative_num_steps is None:
            assert (
                self.speculative_eagle_topk is None
                and self.speculative_num_draft_tokens is None
            )
        assert self.tp_size % self.dp_size == 0
        assert self.device in ("cpu", "cuda")
        assert isinstance(self.model, str)
        if self.page_size != 1 and not self.radix:
            raise ValueError
        try:
            pass
        finally:
            assert cfg.draft is not None or self.topk > 2
"""


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    python = tmp_path / "env" / "bin" / "python"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    (tmp_path / "env" / "server_args.py").write_text(MODULE)
    return tmp_path / "env"


def frame(file: Path | str, lineno: int, code: str = "") -> Frame:
    return Frame(str(file), lineno, "check", code, Line(1, "", ""))


def read(venv: Path, lineno: int, code: str = "") -> Requirement | None:
    return read_requirement(frame(venv / "server_args.py", lineno, code), (venv.resolve(),))


def kinds(requirement: Requirement | None) -> list[tuple[str, str]]:
    assert requirement is not None
    return [(check.attribute, check.kind) for check in requirement.checks]


@pytest.mark.parametrize("lineno", [4, 5, 6, 7])
def test_any_line_of_an_assert_leads_to_the_whole_condition(venv: Path, lineno: int) -> None:
    assert kinds(read(venv, lineno)) == [
        ("speculative_eagle_topk", "is-none"),
        ("speculative_num_draft_tokens", "is-none"),
    ]


def test_the_conditions_around_an_assert_are_its_guards(venv: Path) -> None:
    requirement = read(venv, 5)
    assert requirement is not None
    assert [(guard.attribute, guard.kind) for guard in requirement.guards] == [
        ("adaptive", "false"),
        ("speculative_num_steps", "is-none"),
    ]


def test_a_remainder_tests_both_settings(venv: Path) -> None:
    assert kinds(read(venv, 8)) == [("tp_size", "modulo"), ("dp_size", "modulo")]


def test_membership_names_the_values_allowed(venv: Path) -> None:
    requirement = read(venv, 9)
    assert requirement is not None
    assert requirement.checks[0].values == ("cpu", "cuda")


def test_calls_are_left_alone(venv: Path) -> None:
    assert kinds(read(venv, 10)) == []


def test_a_raise_requires_the_contrary_of_its_if(venv: Path) -> None:
    requirement = read(venv, 12)
    assert kinds(requirement) == [("page_size", "member"), ("radix", "true")]
    assert requirement is not None
    assert not any(check.certain for check in requirement.checks)


def test_parts_of_an_or_are_not_certain(venv: Path) -> None:
    requirement = read(venv, 16)
    assert requirement is not None
    assert [(check.attribute, check.kind, check.certain) for check in requirement.checks] == [
        ("draft", "is-not-none", False),
        ("topk", "compare", False),
    ]


def test_a_file_that_changed_since_the_log_was_written_is_not_believed(venv: Path) -> None:
    assert read(venv, 8, code="assert self.tp_size > 1") is None


def test_a_file_outside_the_prefix_is_never_opened(venv: Path, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere.py"
    outside.write_text(MODULE)
    assert read_requirement(frame(outside, 8), (venv.resolve(),)) is None


def test_a_link_that_leads_out_of_the_prefix_is_not_followed(venv: Path, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere.py"
    outside.write_text(MODULE)
    (venv / "link.py").symlink_to(outside)
    assert read_requirement(frame(venv / "link.py", 8), (venv.resolve(),)) is None


def test_dots_in_a_path_do_not_lead_out_of_the_prefix(venv: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text(MODULE)
    assert read_requirement(frame(f"{venv}/../elsewhere.py", 8), (venv.resolve(),)) is None


def test_source_is_parsed_and_never_run(venv: Path) -> None:
    trap = venv / "trap.py"
    trap.write_text(f"open({str(venv / 'ran')!r}, 'w')\nassert self.tp_size is None\n")
    assert kinds(read_requirement(frame(trap, 2), (venv.resolve(),))) == [("tp_size", "is-none")]
    assert not (venv / "ran").exists()


def test_a_file_that_is_no_python_says_nothing(venv: Path) -> None:
    (venv / "broken.py").write_text("assert (((\n")
    assert read_requirement(frame(venv / "broken.py", 1), (venv.resolve(),)) is None


def test_the_prefix_is_told_from_the_interpreters_place(venv: Path) -> None:
    command = Command.parse([str(venv / "bin" / "python"), "-m", "sglang.launch_server"])
    assert launch_prefixes(command) == (venv.resolve(),)


def test_a_console_script_leads_to_the_same_prefix(venv: Path) -> None:
    script = venv / "bin" / "vllm"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert launch_prefixes(Command.parse([str(script), "serve", "m"])) == (venv.resolve(),)


def test_an_interpreter_that_is_not_here_has_no_prefix() -> None:
    assert launch_prefixes(Command.parse(["/no/such/bin/python", "-m", "sglang.launch_server"])) == ()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("and self.speculative_num_draft_tokens is None", [("speculative_num_draft_tokens", "is-none")]),
        ("and cfg.speculative_num_draft_tokens is None", [("speculative_num_draft_tokens", "is-none")]),
        ("assert server_args.tp_size is not None", [("tp_size", "is-not-none")]),
        ('assert self.device in ["cpu"], "message"', [("device", "member")]),
        ("or not self.enable_lora", [("enable_lora", "false")]),
        ("self.tp_size % self.dp_size == 0", [("tp_size", "modulo"), ("dp_size", "modulo")]),
        ("and args.page_size > 0)", [("page_size", "compare")]),
        ("self.a_b is None and", [("a_b", "is-none")]),
        ("foo(self.x, self.y is None", []),
    ],
)
def test_a_piece_of_a_condition_is_read_wherever_it_was_cut(code: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(requirement_of_code(code)) == expected


@pytest.mark.parametrize("code", ["", "raise AssertionError", "x = (", "^^^^^"])
def test_a_line_without_a_condition_says_nothing(code: str) -> None:
    requirement = requirement_of_code(code)
    assert requirement is None or requirement.checks == ()
