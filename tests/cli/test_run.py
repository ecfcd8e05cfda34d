"""`crashcart run` as a program: its words, its exit codes, its JSON, its question at a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli.commands import build_app
from app.cli.run import duration
from app.core.command import Command
from app.core.errors import UsageError
from app.core.vocabulary import Engine
from app.service.options import default_health, default_name

CRASHCART = [sys.executable, "-c", "from app.cli.main import main; main()"]
SERVER = """
import argparse, http.server
parser = argparse.ArgumentParser(prog="serve")
parser.add_argument("--context-length")
parser.add_argument("--model-path")
parser.add_argument("--port", type=int)
args = parser.parse_args()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
print("serving", args.context_length, flush=True)
server.serve_forever()
"""


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path, port: int) -> list[str]:
    script = tmp_path / "serve.py"
    script.write_text(SERVER)
    return [sys.executable, str(script), "--model-path", "m", "--port", str(port)]


def words(tmp_path: Path, *rest: str) -> list[str]:
    options = ["--name", "box", "--engine", "sglang", "--state", str(tmp_path / "state"), "--settle", "100ms"]
    return [*CRASHCART, "run", *options, *rest]


def ended(tmp_path: Path, *rest: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words(tmp_path, *rest), capture_output=True, text=True, check=False, timeout=40)


@contextmanager
def started(command: list[str], **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A run that does not outlive its test; nor does its server."""
    with subprocess.Popen(command, **streams) as run:
        try:
            yield run
        finally:
            for _ in range(2):
                if run.poll() is None:
                    run.send_signal(signal.SIGTERM)
                    time.sleep(0.1)


def refused(*rest: str) -> UsageError:
    error = CliRunner().invoke(build_app(["run"]), ["run", *rest]).exception
    assert isinstance(error, UsageError)
    return error


def read_until(stream: int, text: str, seconds: float = 20.0) -> str:
    seen, deadline = "", time.monotonic() + seconds
    while text not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([stream], [], [], 0.1)[0]:
            seen += os.read(stream, 65536).decode("utf-8", "replace")
    return seen


# -- usage


def test_without_a_launch_command_it_is_a_usage_error_with_a_mend() -> None:
    error = refused("--name", "box")

    assert str(error) == "There is no launch command."
    assert "crashcart run -- python3" in (error.mend or "")


def test_a_program_that_does_not_exist_is_exit_2(tmp_path: Path) -> None:
    run = ended(tmp_path, "--", "no-such-server", "--port", "1")

    assert run.returncode == 2
    assert "The program 'no-such-server' was not found." in run.stderr


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--settle", "soon", "is no duration"),
        ("--allow", "manual", "is not possible"),
        ("--health", "localhost", "is no URL"),
        ("--log", "/nonexistent/log", "can't be written"),
        ("--name", "a/b", "can't be a server's name"),
    ],
)
def test_wrong_options_are_named(option: str, value: str, said: str) -> None:
    assert said in str(refused(option, value, "--", "true"))


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30.0), ("30s", 30.0), ("2m", 120.0), ("1.5h", 5400.0), ("200ms", 0.2)]
)
def test_durations_are_read_with_and_without_a_unit(text: str, seconds: float) -> None:
    assert duration(text, "--settle") == seconds


def test_a_negative_duration_is_refused() -> None:
    with pytest.raises(UsageError, match="--settle '-3' is no duration"):
        duration("-3", "--settle")


# -- defaults


SGLANG = Command.parse(["python3", "-m", "sglang.launch_server", "--model-path", "m"])


def test_name_and_health_follow_engine_host_and_port() -> None:
    command = SGLANG.set("--port", "31000").set("--host", "0.0.0.0")

    assert default_name(SGLANG, None) == "sglang-30000"
    assert default_name(command, None) == "sglang-31000"
    assert default_health(command, None) == "http://127.0.0.1:31000/health"
    assert default_health(SGLANG.set("--host", "::1"), None) == "http://[::1]:30000/health"


def test_no_health_endpoint_is_guessed_for_an_unknown_program_or_behind_tls() -> None:
    assert default_health(Command.parse(["./serve", "--port", "1"]), None) is None
    assert default_health(SGLANG.set("--ssl-keyfile", "k"), Engine.SGLANG) is None


# -- runs


def test_a_crash_passes_output_through_and_exits_with_the_servers_code(tmp_path: Path, server: list[str]) -> None:
    run = ended(tmp_path, "--mode", "off", "--no-preflight", "--", *server, "--context-lenght", "4")

    assert run.returncode == 2
    assert run.stdout.endswith("serve: error: unrecognized arguments: --context-lenght 4\n")
    assert "--context-length 4" in run.stderr


def test_json_is_the_only_thing_on_stdout(tmp_path: Path, server: list[str]) -> None:
    run = ended(tmp_path, "--json", "--no-preflight", "--", *server, "--context-lenght", "4")

    assert json.loads(run.stdout) == {
        "server": "box",
        "incident": 1,
        "launches": 1,
        "state": "exited",
        "command": [*server, "--context-length", "4"],
        "changed": True,
        "exit": 2,
    }
    assert "unrecognized arguments" in run.stderr


def test_a_signal_is_128_plus_its_number(tmp_path: Path) -> None:
    killed = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]

    assert ended(tmp_path, "--no-preflight", "--", *killed).returncode == 137


def test_a_server_that_says_0_by_itself_is_exit_1(tmp_path: Path) -> None:
    assert ended(tmp_path, "--no-preflight", "--", "true").returncode == 1


@pytest.fixture
def installed(tmp_path: Path, port: int) -> list[str]:
    """The server under the name of a program that Crashcart knows, so that its own --help is asked."""
    program = tmp_path / "sglang"
    known = SERVER.replace('parser.add_argument("--model-path")', 'parser.add_argument("--model-path")\n' + MORE_FLAGS)
    program.write_text(f"#!{sys.executable}\n{known}")
    program.chmod(0o755)
    return [str(program), "serve", "--model-path", "m", "--port", str(port)]


MORE_FLAGS = """
parser.add_argument("command")
for name in ("host", "tp-size", "dtype", "quantization", "tokenizer-path"):
    parser.add_argument(f"--{name}")
"""


def test_preflight_in_auto_mends_before_anything_is_started(tmp_path: Path, installed: list[str]) -> None:
    command = words(tmp_path, "--mode", "auto", "--json", "--", *installed, "--context-lenght", "4")
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stderr is not None
        said = read_until(run.stderr.fileno(), "is resolved")
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=20)
    result = json.loads(out)

    assert (run.returncode, result["launches"], result["exit"]) == (0, 1, 0)
    assert "serving 4" in said


def test_preflight_in_propose_without_a_terminal_starts_nothing(tmp_path: Path, server: list[str]) -> None:
    run = ended(tmp_path, "--json", "--", *server, "--context-lenght", "4")
    result = json.loads(run.stdout)

    assert (run.returncode, result["launches"], result["incident"]) == (1, 0, 1)
    assert "serve: error" not in run.stderr


def test_a_person_at_a_terminal_sees_the_difference_and_says_yes(tmp_path: Path, server: list[str]) -> None:
    ours, theirs = pty.openpty()
    command = words(tmp_path, "--no-preflight", "--", *server, "--context-lenght", "4")
    with started(command, stdin=theirs, stdout=theirs, stderr=theirs) as run:
        os.close(theirs)
        asked = read_until(ours, "[q]uit")
        os.write(ours, b"what?\n")
        read_until(ours, "[q]uit")
        os.write(ours, b"y\n")
        read_until(ours, "serving 4")
        read_until(ours, "is resolved")
        run.send_signal(signal.SIGTERM)
        read_until(ours, "stopped")
        code = run.wait(20)
    os.close(ours)

    assert "--context-lenght" in asked
    assert code == 0


def test_a_closed_terminal_ends_neither_crashcart_nor_the_server(tmp_path: Path, server: list[str], port: int) -> None:
    ours, theirs = pty.openpty()
    with started(words(tmp_path, "--", *server), stdin=theirs, stdout=theirs, stderr=theirs) as run:
        os.close(theirs)
        read_until(ours, "ready")
        run.send_signal(signal.SIGHUP)
        os.close(ours)
        time.sleep(0.5)
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            alive = run.poll() is None
        run.send_signal(signal.SIGTERM)
        code = run.wait(20)

    assert (alive, code) == (True, 0)


def test_a_second_run_of_the_same_name_is_refused(tmp_path: Path, server: list[str]) -> None:
    with started(words(tmp_path, "--", *server), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as run:
        assert run.stderr is not None
        read_until(run.stderr.fileno(), "ready")
        second = ended(tmp_path, "--", *server)
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=20)

    assert second.returncode == 2
    assert f"Another Crashcart (pid {run.pid}) already acts for box." in second.stderr
