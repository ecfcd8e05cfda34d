"""`crashcart demo`: the whole story on real processes, and nothing left behind when it is broken off."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from app.cli.demo import Quotation
from app.service.demo import typed, wrong_command
from app.service.own_command import OwnCommand

PROGRAM = Path(sys.executable).with_name("crashcart")


def start(state: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(PROGRAM), "demo", "--state", str(state), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "COLUMNS": "60", "NO_COLOR": "1"},
        text=True,
    )


def of_demo(state: Path) -> list[int]:
    """Processes that belong to a performance with this state folder."""
    found = []
    for process in psutil.process_iter(["environ", "status"]):
        variables = process.info["environ"] or {}
        if variables.get("CRASHCART_STATE", "").startswith(str(state)) and process.info["status"] != "zombie":
            found.append(process.pid)
    return found


@pytest.mark.timeout(180)
def test_the_story_ends_as_told_and_leaves_no_process_behind(tmp_path: Path) -> None:
    demo = start(tmp_path, "--json")
    output, _ = demo.communicate(timeout=170)
    assert demo.returncode == 0, output
    summary = json.loads(output)
    assert {name: summary[name] for name in ("launches", "failed", "resolved")} == {
        "launches": 4,
        "failed": 3,
        "resolved": True,
    }
    assert summary["check"]["exit_code"] == 1
    assert summary["killed"]["told"] is True
    assert of_demo(tmp_path) == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_breaking_it_off_ends_every_process(tmp_path: Path, number: signal.Signals) -> None:
    demo = start(tmp_path)
    assert demo.stdout is not None
    for line in demo.stdout:
        if "Load weight begin" in line:
            break
    demo.send_signal(number)
    output = demo.communicate(timeout=60)[0]
    assert demo.returncode == 130, output
    assert of_demo(tmp_path) == []


def test_a_second_demo_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    first = start(tmp_path)
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "demo").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        second = start(tmp_path)
        output = second.communicate(timeout=30)[0]
        assert second.returncode == 2
        assert "Another demo is being played" in output
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)


def test_a_servers_usage_block_is_folded_to_its_first_and_last_line() -> None:
    output = io.StringIO()
    quoted = Quotation(Console(file=output, width=80))
    for line in ("usage: server [-h]", "              [--a A]", "              [--b B]", "server: error: no"):
        quoted.server_line(line)
    assert output.getvalue().splitlines() == [
        "  │ usage: server [-h]",
        "  │   … 2 more lines of usage",
        "  │ server: error: no",
    ]


def test_a_servers_terminal_codes_are_made_harmless() -> None:
    output = io.StringIO()
    Quotation(Console(file=output, width=80)).server_line("\x1b]0;title\x07text")
    assert "\x1b" not in output.getvalue()


def test_the_typed_command_keeps_the_assignment_first_behind_the_dashes() -> None:
    assert " -- SGLANG_ENABLE_SPEC_V2=True " in typed(["check", "--", *wrong_command(30000)])


def test_lines_of_a_command_come_in_the_order_of_their_writing() -> None:
    lines: list[str] = []
    with OwnCommand(["--version"], env={}, show=lines.append) as command:
        code = command.wait(30)
    assert code == 0
    assert [line.split()[0] for line in lines] == ["crashcart"]
