"""What `crashcart serve` tells Slack: a real service, a followed log, and a real HTTP server in Slack's place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.alerts.standin import Slack, standing_in
from tests.flow.service import Service

FAILURE = "launch_server.py: error: unrecognized arguments: --num-speculative-tokens {number}\n"


@pytest.fixture
def slack() -> Iterator[Slack]:
    with standing_in() as one:
        yield one


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "eagle.log"
    path.parent.mkdir()
    path.touch()
    return path


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
