"""The practice server dies, loads and serves as the demo and its README promise."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.core.resources import practice_folder

EAGLE = ("--speculative-algorithm", "EAGLE3", "--speculative-eagle-topk", "4")


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
    return number


@pytest.fixture
def started(port: int, tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def start(*arguments: str, port: int, log: Path, **env: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "practice_server",
        "--model-path",
        "practice/tiny",
        "--port",
        str(port),
        *arguments,
    ]
    variables = {**os.environ, "PYTHONPATH": str(practice_folder()), "PRACTICE_LOAD_SECONDS": "0.3", **env}
    with log.open("wb") as output:
        return subprocess.Popen(command, env=variables, stdout=output, stderr=output, start_new_session=True)


def run(*arguments: str, port: int, log: Path, **env: str) -> tuple[int, str]:
    process = start(*arguments, port=port, log=log, **env)
    return process.wait(20), log.read_text()


def health(port: int) -> int | None:
    """The status of /health, None while the port is closed."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except urllib.error.URLError:
        return None


def test_an_unknown_flag_ends_with_argparses_usage_and_exit_code_2(port: int, tmp_path: Path) -> None:
    code, log = run(*EAGLE, "--num-speculative-tokens", "16", port=port, log=tmp_path / "log")
    assert code == 2
    assert log.startswith("usage: practice_server [-h] --model-path MODEL_PATH")
    assert log.endswith("practice_server: error: unrecognized arguments: --num-speculative-tokens 16\n")


def test_draft_settings_without_steps_end_with_a_bare_assertion_and_exit_code_1(port: int, tmp_path: Path) -> None:
    code, log = run(*EAGLE, "--speculative-num-draft-tokens", "16", port=port, log=tmp_path / "log")
    assert code == 1
    assert re.search(r'File ".*/server_args\.py", line \d+, in _handle_speculative_decoding\n', log)
    assert log.endswith("AssertionError\n")


def test_spec_v2_with_a_tree_dies_in_the_overlap_loop_and_kills_its_own_tree(port: int, tmp_path: Path) -> None:
    steps = ("--speculative-num-draft-tokens", "16", "--speculative-num-steps", "3")
    code, log = run(*EAGLE, *steps, port=port, log=tmp_path / "log", SGLANG_ENABLE_SPEC_V2="True")
    assert code == -signal.SIGKILL
    frames = re.findall(r", in (\w+)\n", log)
    assert frames[:4] == ["run_scheduler_process", "event_loop_overlap", "run_batch", "forward_batch_generation"]
    assert log.endswith("SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n")


def test_the_corrected_command_is_closed_then_warming_then_ready(
    port: int, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    steps = ("--speculative-num-draft-tokens", "16", "--speculative-num-steps", "3")
    started.append(start(*EAGLE, *steps, port=port, log=tmp_path / "log"))
    seen: list[int | None] = []
    deadline = time.monotonic() + 15
    while 200 not in seen and time.monotonic() < deadline:
        answer = health(port)
        if not seen or seen[-1] != answer:
            seen.append(answer)
        time.sleep(0.02)
    assert seen == [None, 503, 200]


def test_ctrl_c_ends_it_cleanly(port: int, tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    started.append(start(port=port, log=tmp_path / "log"))
    deadline = time.monotonic() + 15
    while health(port) != 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    started[0].send_signal(signal.SIGINT)
    assert started[0].wait(10) == 0


def test_its_scheduler_does_not_outlive_a_killed_parent(
    port: int, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    log = tmp_path / "log"
    started.append(start(port=port, log=log, PRACTICE_LOAD_SECONDS="30"))
    deadline = time.monotonic() + 15
    while "0% Completed" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    started[0].kill()
    started[0].wait(10)
    deadline = time.monotonic() + 5
    while group_lives(started[0].pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not group_lives(started[0].pid)


def group_lives(group: int) -> bool:
    """Whether a process of the group still runs; one that is dead but not reaped doesn't."""
    for process in psutil.process_iter(["pid", "status"]):
        try:
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                return True
        except ProcessLookupError:
            continue
    return False
