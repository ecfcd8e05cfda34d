"""What `crashcart serve` tells Slack: a real service, a followed log, and a real HTTP server in Slack's place."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.core.resources import practice_folder
from tests.alerts.standin import Slack, standing_in
from tests.flow.service import Service, free_port

STORY = (
    "{} is down: --max-total-tokns is no flag of SGLang",
    "{}: a fix waits for your decision",
    "{} is being started again",
    "{} is well again",
)
FAILURE = "launch_server.py: error: unrecognized arguments: --num-speculative-tokens {number}\n"


@pytest.fixture
def slack() -> Iterator[Slack]:
    with standing_in() as one:
        yield one


def watching(log: Path, url: str) -> str:
    return (
        f"log_roots: ['{log.parent}']\n"
        f"slack: {{webhook_url: '{url}', allow_private_addresses: true}}\n"
        f"servers:\n  eagle: {{watch: ['{log.parent}/*.log'], engine: sglang}}\n"
    )


def fails(log: Path, number: int = 16) -> None:
    with log.open("a") as file:
        file.write(FAILURE.format(number=number))


def until_told(slack: Slack, times: int, seconds: float = 15) -> list[str]:
    deadline = time.monotonic() + seconds
    while len(slack.accepted) < times and time.monotonic() < deadline:
        time.sleep(0.05)
    return list(slack.accepted)


def test_a_failure_in_a_followed_log_is_told_with_its_cause_and_a_link(tmp_path: Path, log: Path, slack: Slack) -> None:
    with Service(tmp_path, watching(log, slack.url)) as service:
        service.until_ready()
        fails(log)
        [text] = until_told(slack, 1)
        assert "eagle" in text
        assert "--num-speculative-tokens" in text
        assert f"{service.url}/ui/incidents/1" in str(slack.came[0][1])
        service.stop()


def test_a_failure_that_was_sent_in_is_told_once(tmp_path: Path, log: Path, slack: Slack) -> None:
    with Service(tmp_path, watching(log, slack.url)) as service:
        service.until_ready()
        for _ in range(2):
            body = {"server": "ci-box", "text": "ValueError: the zebra is missing\n", "exit_code": 1}
            httpx.post(f"{service.url}/incidents/ingest", json=body).raise_for_status()
        [text] = until_told(slack, 1)
        assert "ci-box is down" in text
        time.sleep(1)
        assert len(slack.accepted) == 1
        service.stop()


def test_a_message_that_slack_refused_for_now_arrives_once_after_a_kill(
    tmp_path: Path, log: Path, slack: Slack
) -> None:
    slack.plan = [(500, {}, 0.0)] * 2
    with Service(tmp_path, watching(log, slack.url)) as service:
        service.until_ready()
        fails(log)
        # Killed before the refusal is noted, the message would be one that may have arrived: never sent again.
        deadline = time.monotonic() + 15
        while "will be tried again" not in service.log.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        service.kill()
        service.start()
        service.until_ready()
        assert len(until_told(slack, 1)) == 1
        time.sleep(1)
        assert len(slack.accepted) == 1
        service.stop()


def test_a_webhook_that_is_configured_later_is_used_from_then_on(tmp_path: Path, log: Path, slack: Slack) -> None:
    silent = watching(log, slack.url).replace("slack:", "# slack:")
    with Service(tmp_path, silent) as service:
        service.until_ready()
        service.configure(watching(log, slack.url))
        service.until("/servers", lambda found: bool(found))
        time.sleep(1)
        fails(log)
        assert len(until_told(slack, 1)) == 1
        service.stop()
    assert "reloaded" in service.log.read_text()
    assert "verysecret" not in service.log.read_text()


def test_a_fix_is_told_from_its_proposal_until_it_held_in_order(tmp_path: Path, slack: Slack) -> None:
    slack.plan = [(429, {"Retry-After": "1"}, 0.0)]  # what comes later waits behind the first message
    words = [sys.executable, str(practice_folder() / "practice_server"), "--model-path", "practice/tiny-llama"]
    words += ["--port", str(free_port()), "--max-total-tokns", "4096"]
    keys = f"command: {json.dumps(words)}, engine: sglang, mode: propose, settle: 1s, preflight: false"
    text = f"slack: {{webhook_url: '{slack.url}', allow_private_addresses: true}}\nservers:\n  kimi: {{{keys}}}\n"
    with Service(tmp_path, text) as service:
        service.until_ready()
        proposal = service.until("/incidents/1", lambda found: found["proposal"], seconds=30)["proposal"]
        until_told(slack, 2)
        approval = {"decision": "approve", "fix_id": proposal["fix_id"]}
        httpx.post(f"{service.url}/incidents/1/fix", json=approval).raise_for_status()
        service.until("/incidents/1", lambda found: found["status"] == "resolved", seconds=30)
        told = until_told(slack, 4, seconds=20)
        httpx.post(f"{service.url}/servers/kimi/stop").raise_for_status()
        service.until("/servers/kimi", lambda server: server["state"] == "stopped")
        service.stop()
    assert told == [headline.format("kimi") for headline in STORY]
    applied = next(str(body) for _, body in slack.came if body["text"] == STORY[2].format("kimi"))
    assert ("--max-total-tokns 4096" in applied, "--max-total-tokens 4096" in applied) == (True, True)
