"""`crashcart doctor` on real files, folders, ports and a real HTTP server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Said

Asked = Callable[..., Said]


@pytest.fixture
def free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def examined(asked: Asked, tmp_path: Path, free: int) -> Callable[[str], dict[str, Any]]:
    """Runs it on a configuration; gives the failed checks by id, and all under "all"."""

    def examine(text: str) -> dict[str, Any]:
        path = tmp_path / "crashcart.yaml"
        path.write_text(text if "listen" in text else f"listen: 127.0.0.1:{free}\n{text}")
        said = asked("doctor", "--config", str(path), "--json")
        failed = {check["id"]: check for check in said.json["checks"] if not check["ok"]}
        assert said.code == (1 if failed else 0)
        assert all(check["hint"] for check in failed.values())
        return {**failed, "all": {check["id"] for check in said.json["checks"]}}

    return examine


@pytest.fixture
def hook() -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(500 if "broken" in self.path else 405)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_all_is_well_where_it_is(examined: Callable[[str], dict[str, Any]], tmp_path: Path, hook: str) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").touch()
    found = examined(f"""
log_roots: [{tmp_path}]
slack: {{webhook_url: {hook}/services/x, allow_private_addresses: true}}
servers:
  a: {{watch: '{tmp_path}/logs/*.log'}}
  b: {{command: [sh, -c, 'true']}}
""")

    assert found.keys() == {"all"}
    assert found["all"] == {
        "rules-valid",
        "state-writable",
        "disk-room",
        "port-free",
        "log-root",
        "log-readable",
        "folder-watchable",
        "program-found",
        "webhook-reachable",
    }


def test_a_taken_port_is_found(examined: Callable[[str], dict[str, Any]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = examined(f"listen: 127.0.0.1:{taken.getsockname()[1]}")

    assert "is held by" in found["port-free"]["text"]


def test_a_wrong_rule_is_found(examined: Callable[[str], dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "rules" / "any").mkdir(parents=True)
    (tmp_path / "rules" / "any" / "bad.yaml").write_text("id: any/bad\nnonsense: 1\n")

    assert "bad.yaml" in examined(f"rules: [{tmp_path}/rules]")["rules-valid"]["text"]


def test_a_program_that_is_not_there_is_found(examined: Callable[[str], dict[str, Any]]) -> None:
    found = examined("servers: {a: {command: no-such-program-anywhere, cwd: /no/such/folder}}")

    assert "was not found" in found["program-found"]["text"]
    assert "is no folder" in found["folder-found"]["text"]


def test_a_root_that_is_not_there_is_found(examined: Callable[[str], dict[str, Any]]) -> None:
    assert "log-root" in examined("log_roots: [/no/such/root]")


def test_a_log_that_leads_out_of_the_roots_is_found(examined: Callable[[str], dict[str, Any]], tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.log").symlink_to("/etc/hostname")
    found = examined(f"log_roots: ['{logs}']\nservers: {{a: {{watch: ['{logs}/*.log']}}}}")
    assert found["log-readable"]["text"].endswith("is never followed: it is no file, or leads out of log_roots")


def test_following_our_own_log_is_found(examined: Callable[[str], dict[str, Any]], state: Path, tmp_path: Path) -> None:
    (state / "servers" / "a").mkdir(parents=True)
    (state / "servers" / "a" / "log").touch()
    found = examined(f"log_roots: [{tmp_path}]\nservers: {{a: {{watch: '{tmp_path}/**/log'}}}}")

    assert "Crashcart itself" in found["own-log"]["text"]


def test_a_webhook_that_is_broken_or_silent_is_found(
    examined: Callable[[str], dict[str, Any]], hook: str, free: int
) -> None:
    ours = "allow_private_addresses: true"
    broken = examined(f"slack: {{webhook_url: {hook}/broken, {ours}}}")["webhook-reachable"]
    silent = examined(f"slack: {{webhook_url: 'http://127.0.0.1:{free}/secret', {ours}}}")["webhook-reachable"]
    assert "HTTP 500" in broken["text"]
    assert "ConnectError" in silent["text"]
    assert "secret" not in str(silent)


def test_a_webhook_on_a_private_address_is_found(examined: Callable[[str], dict[str, Any]], hook: str) -> None:
    found = examined(f"slack: {{webhook_url: {hook}/services/x}}")["webhook-reachable"]
    assert found["text"] == "it lies on a private address: nothing is sent"


def test_people_get_a_line_a_check_and_a_hint(asked: Asked, tmp_path: Path) -> None:
    path = tmp_path / "crashcart.yaml"
    path.write_text("listen: 127.0.0.1:0\nservers: {a: {command: no-such-program-anywhere}}")
    said = asked("doctor", "--config", str(path))

    assert "FAIL  program-found  a: no-such-program-anywhere was not found\n      Give its whole path" in said.out
    assert said.code == 1


def test_a_wrong_configuration_is_a_usage_error(asked: Asked, tmp_path: Path) -> None:
    path = tmp_path / "crashcart.yaml"
    path.write_text("listn: 1")

    assert asked("doctor", "--config", str(path)).code == 2
