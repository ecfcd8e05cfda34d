"""The contract of `crashcart diagnose`, held on the real process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

USAGE = """\
usage: launch_server.py [-h] --model-path MODEL_PATH [--port PORT] [--host HOST]
                        [--context-length CONTEXT_LENGTH]
launch_server.py: error: unrecognized arguments: --contxt-length 8
"""
UNKNOWN = """\
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/sglang/srt/x.py", line 1, in f
    g()
WeirdError: token hf_abcdefghijklmnopqrstuvwxyz0123456789 \x1b[31mred\x1b[0m [bold]x[/bold]
"""
COMMAND = (
    "A=b c",
    "python3",
    "-m",
    "sglang.launch_server",
    "--model-path",
    "m",
    "--api-key",
    "sk-1",
    "--contxt-length=8",
)


@pytest.fixture(scope="module", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A state folder of their own; the compiled patterns in it serve all of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRASHCART_STATE", str(tmp_path_factory.mktemp("state")))
        yield


def crashcart(*arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from app.cli.main import main; main()", *arguments]
    return subprocess.run(program, input=stdin, capture_output=True, text=True, env=os.environ | env, timeout=50)


def answer(*arguments: str, stdin: str = "") -> dict[str, Any]:
    done = crashcart("diagnose", *arguments, stdin=stdin)
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(USAGE)
    return path


def test_the_answer_has_exactly_the_keys_of_the_contract(log: Path) -> None:
    found = answer(str(log), "--json", "--exit-code", "2", "--", *COMMAND)
    assert set(found) == {
        "outcome", "phase", "engine", "engine_version", "launch", "causes", "symptoms", "evidence", "elapsed_ms",
    }  # fmt: skip
    assert set(found["causes"][0]) == {
        "rule", "category", "title", "explanation", "confidence", "line", "rank", "action", "fix", "safety", "loses",
        "command",
    }  # fmt: skip


def test_the_corrected_command_is_byte_for_byte_what_was_typed_but_for_the_change(log: Path) -> None:
    found = answer(str(log), "--json", "--", *COMMAND)
    assert found["launch"] == {"command": list(COMMAND), "origin": "given"}
    assert found["causes"][0]["command"] == [*COMMAND[:-1], "--context-length=8"]
    assert found["causes"][0]["fix"] == {
        "set": {}, "remove": [], "rename": {"--contxt-length": "--context-length"}, "env_set": {}, "env_unset": [],
    }  # fmt: skip


def test_a_known_cause_exits_with_1_and_shows_its_line(log: Path) -> None:
    done = crashcart("diagnose", str(log), "--json")
    assert done.returncode == 1
    line = json.loads(done.stdout)["causes"][0]["line"]
    assert line == {"number": 3, "text": "launch_server.py: error: unrecognized arguments: --contxt-length 8"}


def test_an_unknown_cause_exits_with_3() -> None:
    done = crashcart("diagnose", "-", "--json", "--exit-code", "1", stdin=UNKNOWN)
    assert done.returncode == 3
    assert json.loads(done.stdout)["causes"][0]["category"] == "unknown"


def test_nothing_to_say_exits_with_0() -> None:
    done = crashcart("diagnose", "-", "--json", stdin="hello\n")
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (0, "unknown")


def test_an_empty_log_is_no_failure() -> None:
    assert crashcart("diagnose", "-", stdin="").returncode == 0


@pytest.mark.parametrize("code", ["-9", "137"])
def test_exit_codes_are_read_as_pythons_and_as_a_shells(code: str) -> None:
    found = answer("-", "--json", "--exit-code", code, stdin="hello\n")
    assert found["causes"][0]["category"] == "killed-by-signal"


def test_several_logs_are_answered_line_by_line(log: Path, tmp_path: Path) -> None:
    (tmp_path / "other.log").write_text("hello\n")
    done = crashcart("diagnose", str(log), str(tmp_path / "other.log"), "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["log"], line["outcome"]) for line in lines] == [
        (str(log), "failed"),
        (str(tmp_path / "other.log"), "unknown"),
    ]
    assert done.returncode == 1


def test_a_folder_a_missing_file_and_a_binary_one_are_refused_with_a_mend(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(10_000))
    (tmp_path / "log.gz").write_bytes(b"\x1f\x8b\x08" + bytes(50))
    for name in ("", "missing.log", "weights.bin", "log.gz"):
        done = crashcart("diagnose", str(tmp_path / name))
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    "arguments", [["diagnose"], ["diagnose", "-", "--engine", "nope"], ["diagnose", "-", "--nope"]]
)
def test_usage_errors_exit_with_2(arguments: list[str]) -> None:
    assert crashcart(*arguments).returncode == 2


def test_an_unbalanced_quotation_in_a_pasted_command_exits_with_2(log: Path) -> None:
    assert crashcart("diagnose", str(log), "--", "python3 'x").returncode == 2


def test_a_command_pasted_as_one_text_is_split_as_a_shell_does(log: Path) -> None:
    found = answer(str(log), "--json", "--", "A='b c' python3 -m sglang.launch_server --contxt-length 8")
    assert found["launch"]["command"] == ["A=b c", "python3", "-m", "sglang.launch_server", "--contxt-length", "8"]


def test_the_servers_own_options_are_not_taken_for_crashcarts(log: Path) -> None:
    found = answer(str(log), "--json", "--", "vllm", "serve", "m", "--json", "--", "x", "--engine", "y")
    assert found["launch"]["command"] == ["vllm", "serve", "m", "--json", "--", "x", "--engine", "y"]


def test_secrets_of_the_log_are_not_repeated() -> None:
    done = crashcart("diagnose", "-", "--json", "--exit-code", "1", stdin=UNKNOWN)
    assert "hf_abcdefghijklmnop" not in done.stdout


def test_the_card_says_what_why_where_and_how(log: Path) -> None:
    text = crashcart("diagnose", str(log), "--", *COMMAND).stdout
    assert "--contxt-length is no flag of SGLang" in text
    assert f"Proof: {log}:3" in text
    assert "[---contxt-length=8-] {+--context-length=8+}" in text
    assert "\nA='b c' python3 -m sglang.launch_server --model-path m --api-key sk-1 --context-length=8\n" in text


def test_the_card_shows_a_hostile_line_as_text() -> None:
    text = crashcart("diagnose", "-", "--exit-code", "1", stdin=UNKNOWN).stdout
    assert "[bold]x[/bold]" in text
    assert "\x1b" not in text


def test_a_machine_on_which_nothing_can_be_written_is_no_obstacle(log: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert crashcart("diagnose", str(log), CRASHCART_STATE=str(tmp_path / "file" / "state")).returncode == 1


def test_no_colour_reaches_a_pipe_or_a_person_who_wants_none(log: Path) -> None:
    done = crashcart("diagnose", str(log), "--", *COMMAND, NO_COLOR="1", FORCE_COLOR="")
    assert "\x1b[" not in done.stdout
