"""`crashcart serve` beside servers that others start: what their logs say becomes state, incidents and answers."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.flow.service import Service

LOADING = """\
[2026-01-12 10:00:00] server_args=ServerArgs(model_path='org/model', tp_size=1)
[2026-01-12 10:00:01 TP0] Load weight begin. avail mem=78.00 GB
Loading safetensors checkpoint shards:  67% Completed | 2/3 [00:01<00:01,  1.30it/s]
"""
READY = "[2026-01-12 10:00:09] The server is fired up and ready to roll!\n"
FAILURE = "launch_server.py: error: unrecognized arguments: --num-speculative-tokens 16\n"


def watching(log: Path, more: str = "") -> str:
    servers = f"servers:\n  eagle: {{watch: ['{log.parent}/*.log'], engine: sglang}}\n"
    return f"log_roots: ['{log.parent}']\n{servers}{more}"


def write(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def incidents(service: Service, count: int) -> list[dict[str, Any]]:
    found = service.until("/incidents", lambda answer: len(answer["items"]) >= count)
    items: list[dict[str, Any]] = found["items"]
    return items


def test_a_failure_in_a_followed_log_is_an_incident_with_its_cause(tmp_path: Path, log: Path) -> None:
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        write(log, FAILURE)
        [incident] = incidents(service, 1)
        service.stop()
    assert (incident["server"], incident["category"]) == ("eagle", "unknown-argument")


def test_what_a_followed_log_said_up_to_its_failure_is_kept(tmp_path: Path, log: Path) -> None:
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        write(log, LOADING + FAILURE)
        incidents(service, 1)
        service.stop()
    log.unlink()
    [kept] = service.state.glob("incidents/1/launch-*/log")
    assert kept.read_text() == LOADING + FAILURE


def test_of_a_long_log_the_end_before_the_failure_is_kept(tmp_path: Path, log: Path) -> None:
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        write(log, LOADING + READY * 10_000 + FAILURE)
        incidents(service, 1)
        service.stop()
    [excerpt] = service.state.glob("incidents/1/launch-*/log-excerpt")
    kept = excerpt.read_text()
    assert kept.endswith(READY + FAILURE)
    assert 250_000 < len(kept) < 270_000


def test_a_log_that_leads_out_of_the_roots_is_not_followed_and_that_is_said(tmp_path: Path, log: Path) -> None:
    elsewhere = tmp_path / "elsewhere.log"
    elsewhere.write_text(FAILURE)
    (log.parent / "link.log").symlink_to(elsewhere)
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        service.stop()
    assert "link.log is not followed: it leads out of log_roots" in service.log.read_text()


def test_a_followed_log_tells_how_far_loading_is_and_when_it_is_ready(tmp_path: Path, log: Path) -> None:
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        write(log, LOADING)
        loading = service.until("/servers/eagle", lambda server: server["state"] == "loading")
        assert loading["progress"]["percent"] == 67
        write(log, READY)
        service.until("/servers/eagle", lambda server: server["state"] == "ready")
        service.stop()


def test_a_bare_word_about_a_watched_server_is_answered_with_what_its_log_shows(tmp_path: Path, log: Path) -> None:
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        write(log, FAILURE)
        incidents(service, 1)
        answer = httpx.post(f"{service.url}/incidents/ingest", json={"server": "eagle", "text": "crashed"}, timeout=20)
        service.stop()
    assert answer.json()["diagnosis"]["causes"][0]["category"] == "unknown-argument"


@pytest.mark.parametrize("how", ["signal", "file"])
def test_nothing_is_lost_while_the_configuration_is_reloaded(tmp_path: Path, log: Path, how: str) -> None:
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        for number in range(1, 41):
            write(log, f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {number}.00 MiB.\n")
            if number % 10 == 0 and how == "signal":
                service.signal(signal.SIGHUP)
            elif number % 10 == 0:
                service.configure(watching(log, f"  other{number}: {{watch: ['{log.parent}/other.log']}}\n"))
            time.sleep(0.03)

        def told() -> list[str]:
            [incident] = incidents(service, 1)
            timeline = service.get(f"/incidents/{incident['id']}")["timeline"]
            return [entry["text"] for entry in timeline if entry["kind"] == "failed"]

        deadline = time.monotonic() + 15
        while len(told()) < 40 and time.monotonic() < deadline:
            time.sleep(0.2)
        texts = told()
        service.stop()
    assert [any(f"allocate {number}.00 MiB" in text for text in texts) for number in range(1, 41)] == [True] * 40
    assert len(texts) == 40


def test_a_log_that_a_glob_gains_later_is_followed(tmp_path: Path, log: Path) -> None:
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        write(log.with_name("later.log"), FAILURE)
        assert incidents(service, 1)[0]["category"] == "unknown-argument"
        service.stop()


def test_a_log_whose_folder_is_made_later_is_followed(tmp_path: Path, log: Path) -> None:
    text = f"log_roots: ['{tmp_path}']\nservers:\n  late: {{watch: ['{tmp_path}/late/*.log'], engine: sglang}}\n"
    with Service(tmp_path, text) as service:
        service.until_ready()
        (tmp_path / "late").mkdir()
        write(tmp_path / "late" / "a.log", FAILURE)
        assert incidents(service, 1)[0]["server"] == "late"
        service.stop()


def test_a_healthy_log_gives_no_incident(tmp_path: Path, log: Path) -> None:
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        write(log, LOADING + READY + "[2026-01-12 10:00:10] INFO: 127.0.0.1 - GET /health 200 OK\n" * 50)
        service.until("/servers/eagle", lambda server: server["state"] == "ready")
        assert service.get("/incidents")["items"] == []
        service.stop()


def test_a_watched_server_that_was_not_seen_yet_is_not_gone(tmp_path: Path, log: Path) -> None:
    log.unlink()
    with Service(tmp_path, watching(log)) as service:
        service.until_ready()
        server = service.get("/servers/eagle")
        answer = httpx.post(f"{service.url}/incidents/ingest", json={"server": "eagle", "text": "crashed"}, timeout=20)
        service.stop()
    assert (server["state"], server["evidence"]) == ("starting", "nothing was seen of it yet")
    assert answer.json()["incident"] is None
    assert "gone" not in answer.json()["text"]
