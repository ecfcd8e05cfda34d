"""Processes that others started: found by their log or port, and missed when they end in silence."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.service.others import writers_of
from tests.flow.service import Service, free_port

SERVER = """
import signal, socket, sys, time
lines = "[2026-01-12 10:00:00] server_args=ServerArgs(model_path='org/model')\\n"
lines += "[2026-01-12 10:00:09] The server is fired up and ready to roll!\\n"
def end(*_):
    print("[2026-01-12 10:01:00] INFO:     Shutting down", flush=True)
    print("[2026-01-12 10:01:00] INFO:     Waiting for application shutdown.", flush=True)
    print("[2026-01-12 10:01:00] INFO:     Application shutdown complete.", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(lines, end="", flush=True)
time.sleep(60)
"""


@contextmanager
def server(log: Path, port: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody's server, whose output goes to a log."""
    with log.open("ab") as out:
        process = subprocess.Popen([sys.executable, "-c", SERVER, str(port)], stdout=out)
    with process:  # the log is open in the server alone
        yield process
        process.kill()


def watching(log: Path, more: str = "") -> str:
    return f"log_roots: ['{log.parent}']\nservers:\n  kimi: {{watch: ['{log}'], engine: sglang{more}}}\n"


def test_a_server_that_is_killed_without_a_word_is_an_incident(tmp_path: Path, log: Path) -> None:
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        with server(log) as process:
            service.until("/servers/kimi", lambda found: found["pid"] == process.pid)
            process.send_signal(signal.SIGKILL)
            process.wait(5)
            [incident] = service.until("/incidents", lambda found: found["items"])["items"]
        state = service.get("/servers/kimi")["state"]
        service.stop()
    assert (incident["category"], state) == ("killed-by-signal", "exited")
    assert "process is gone" in incident["title"]


def test_a_server_that_was_asked_to_stop_is_no_incident(tmp_path: Path, log: Path) -> None:
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        with server(log) as process:
            service.until("/servers/kimi", lambda found: found["pid"] == process.pid)
            process.send_signal(signal.SIGTERM)
            process.wait(5)
            service.until("/servers/kimi", lambda found: found["state"] == "stopped")
        items = service.get("/incidents")["items"]
        service.stop()
    assert items == []


def test_a_server_is_found_by_its_port_where_another_writes_its_log(tmp_path: Path, log: Path) -> None:
    port = free_port()
    with Service(tmp_path, watching(log, f", port: {port}")) as service:
        service.until_ready()
        with server(log.with_name("other.out"), port) as process:
            log.write_text("[2026-01-12 10:00:09] The server is fired up and ready to roll!\n")
            service.until("/servers/kimi", lambda found: found["pid"] == process.pid)
        service.stop()


def test_who_reads_a_log_is_not_taken_for_its_server(log: Path) -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    with log.open("rb") as reading, subprocess.Popen(sleeping, stdin=reading) as reader:
        found = writers_of({log})
        reader.kill()
    assert found == {}


def test_of_several_writers_the_one_that_started_the_others_is_the_server(log: Path) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    with (
        log.open("ab") as out,
        subprocess.Popen([sys.executable, "-c", child], stdout=out, start_new_session=True) as parent,
    ):
        found = writers_of({log})
        parent.kill()
        subprocess.run(["pkill", "-s", str(parent.pid)], check=False)
    assert found == {log: parent.pid}
