"""`crashcart serve` as a process: checking, serving, reloading, ending; its servers outlive it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from app.core.vocabulary import ServerState
from app.store.store import Store
from tests.conftest import Said

CRASHCART = [sys.executable, "-c", "from app.cli.main import main; main()"]
SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Serving:
    """A service under way."""

    folder: Path
    state: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None
    pids: set[int] = field(default_factory=set)

    def configure(self, text: str = "") -> Path:
        path = self.folder / "crashcart.yaml"
        partial = path.with_suffix(".new")
        partial.write_text(f"listen: 127.0.0.1:{self.port}\n{text}")
        partial.replace(path)
        return path

    def server(self, name: str, port: int) -> str:
        script = self.folder / "server.py"
        script.write_text(SERVER)
        health = f"http://127.0.0.1:{port}/health"
        words = json.dumps([sys.executable, str(script), "--port", str(port)])
        return f"  {name}: {{command: {words}, health: '{health}', preflight: false}}\n"

    def start(self) -> None:
        command = [*CRASHCART, "--state", str(self.state), "serve", "--config", str(self.folder / "crashcart.yaml")]
        log = (self.folder / "service.log").open("ab")
        with log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log, text=True)
        self.until(lambda: self.get("/readyz").status_code == 200)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(20)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=5)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "service.log").read_text().splitlines()]

    def until(self, holds: Callable[[], Any], seconds: float = 30) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if found := holds():
                    return found
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError((self.folder / "service.log").read_text())

    def ready(self, name: str) -> int:
        def look() -> int | None:
            with Store.open(self.state) as store:
                view = store.get_server(name)
            if view is None or view.state is not ServerState.READY:
                return None
            return view.pid

        pid = int(self.until(look))
        self.pids.add(pid)
        return pid


@pytest.fixture
def serving(tmp_path: Path, state: Path) -> Iterator[Serving]:
    one = Serving(tmp_path, state)
    yield one
    if one.process is not None and one.process.poll() is None:
        one.process.kill()
        one.process.wait()
    for pid in one.pids:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)


def test_check_tells_what_would_be_served(asked: Callable[..., Said], tmp_path: Path) -> None:
    path = tmp_path / "crashcart.yaml"
    path.write_text("log_roots: [/var]\nservers: {a: {command: x, mode: auto}, b: {watch: /var/b.log}}")
    said = asked("serve", "--check", "--config", str(path))

    assert said.code == 0
    assert "a: supervised, mode auto\n  b: watched: /var/b.log\n" in said.out


def test_check_of_a_wrong_file_ends_with_two_and_starts_nothing(asked: Callable[..., Said], tmp_path: Path) -> None:
    path = tmp_path / "crashcart.yaml"
    path.write_text("servers: {a: {comand: x}}")
    said = asked("serve", "--check", "--config", str(path))

    assert said.code == 2
    assert "servers.a.comand: there is no such key. Did you mean command?" in said.err


def test_check_finds_rules_that_would_be_skipped(asked: Callable[..., Said], tmp_path: Path) -> None:
    path = tmp_path / "crashcart.yaml"
    path.write_text(f"rules: [{tmp_path}/none]")
    said = asked("serve", "--check", "--json", "--config", str(path))

    assert said.code == 2
    assert said.json["ok"] is False


def test_it_answers_and_ends_when_asked(serving: Serving) -> None:
    serving.configure()
    serving.start()

    assert serving.get("/healthz").json()["status"] == "ok"
    assert b"crashcart_rules " in serving.get("/metrics").content
    assert serving.stop() == 0


def test_a_taken_address_is_a_usage_error(serving: Serving, asked: Callable[..., Said]) -> None:
    path = serving.configure()
    with socket.create_server(("127.0.0.1", serving.port)):
        said = asked("serve", "--config", str(path))

    assert said.code == 2
    assert "can't be listened on" in said.err


def test_two_services_do_not_share_a_state_folder(serving: Serving) -> None:
    path = serving.configure()
    serving.start()
    second = subprocess.run(
        [*CRASHCART, "--state", str(serving.state), "serve", "--config", str(path), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert second.returncode == 2
    assert "already acts for the service of this state folder" in second.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_outlives_the_service_and_is_taken_over(serving: Serving, number: signal.Signals) -> None:
    serving.configure("servers:\n" + serving.server("kimi", free_port()))
    serving.start()
    pid = serving.ready("kimi")
    serving.stop(number)
    assert psutil.pid_exists(pid)

    serving.start()
    serving.until(lambda: b'crashcart_server_ready{server="kimi"} 1.0' in serving.get("/metrics").content)
    assert serving.ready("kimi") == pid


def test_a_server_that_is_added_to_the_file_is_started(serving: Serving) -> None:
    serving.configure()
    serving.start()
    serving.configure("servers:\n" + serving.server("late", free_port()))

    assert serving.ready("late") > 0


def test_a_hangup_signal_reloads_and_a_wrong_file_changes_nothing(serving: Serving) -> None:
    serving.configure("servers:\n" + serving.server("kimi", free_port()))
    serving.start()
    serving.ready("kimi")
    serving.configure("servers: {kimi: {comand: x}}")
    assert serving.process is not None
    serving.process.send_signal(signal.SIGHUP)
    told = serving.until(lambda: [one for one in serving.log() if "not reloaded" in one["event"]])

    assert "Did you mean command?" in told[0]["event"]
    assert serving.get("/readyz").json() == {"status": "ready", "failing": []}


def test_the_first_lines_say_what_a_person_needs(serving: Serving) -> None:
    serving.configure()
    serving.start()
    events = [one["event"] for one in serving.log()[:5]]

    assert events[0].startswith("Crashcart ")
    assert f"pages and API at http://127.0.0.1:{serving.port}" in events
