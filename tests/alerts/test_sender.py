"""Messages against a real HTTP server in Slack's place."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from app.alerts.sender import Sender
from app.alerts.webhook import Webhook
from app.store.store import Store
from app.store.words import AlertStatus
from tests.alerts.standin import Slack, standing_in

Dying = Callable[..., tuple[int, int]]

_SENDER = """
import asyncio, sys
from pathlib import Path
from app.alerts.sender import Sender
from app.alerts.webhook import Webhook
from app.store.store import Store
with Store.open(Path(sys.argv[1])) as store:
    webhook = Webhook(sys.argv[2], allow_private=True, timeout=5)
    asyncio.run(Sender(store, webhook, "http://x", look=0.02, first_wait=0.05).run(asyncio.Event()))
"""


@pytest.fixture
def slack() -> Iterator[Slack]:
    with standing_in() as one:
        yield one


def deliver(store: Store, url: str, *, until: AlertStatus = AlertStatus.SENT, timeout: float = 5.0) -> None:
    """Runs a sender until every message has that status."""

    async def work() -> None:
        stop = asyncio.Event()
        webhook = Webhook(url, allow_private=True, timeout=timeout)
        task = asyncio.create_task(Sender(store, webhook, "http://x", look=0.02, first_wait=0.05).run(stop))
        async with asyncio.timeout(8):
            while not task.done():
                known = store.alerts()
                if known and all(alert.status is until for alert in known):
                    break
                await asyncio.sleep(0.02)
        stop.set()
        await task

    asyncio.run(work())


def test_a_death_and_its_end_are_told_in_order(store: Store, slack: Slack, dies: Dying) -> None:
    _, incident = dies()
    store.resolve(incident, "it stayed ready for 60 s")

    deliver(store, slack.url)

    assert slack.accepted == ["kimi is down: EAGLE needs --speculative-num-steps", "kimi is well again"]


def test_nothing_is_sent_twice_by_the_next_sender(store: Store, slack: Slack, dies: Dying) -> None:
    dies()
    deliver(store, slack.url)
    deliver(store, slack.url)

    assert len(slack.came) == 1


def test_of_many_deaths_in_an_episode_the_first_is_told(store: Store, slack: Slack, dies: Dying) -> None:
    for _ in range(20):
        dies()

    deliver(store, slack.url)

    assert len(slack.came) == 1


def test_retry_after_is_kept(store: Store, slack: Slack, dies: Dying) -> None:
    slack.plan = [(429, {"Retry-After": "1"}, 0.0)]
    dies()

    deliver(store, slack.url)

    assert slack.came[1][0] - slack.came[0][0] >= 1.0
    assert len(slack.accepted) == 1


def test_a_failing_slack_holds_back_later_messages_of_the_incident(store: Store, slack: Slack, dies: Dying) -> None:
    slack.plan = [(500, {}, 0.0), (503, {}, 0.0)]
    _, incident = dies()
    store.resolve(incident, "well")

    deliver(store, slack.url)

    assert [body["text"].split(":")[0] for _, body in slack.came] == ["kimi is down"] * 3 + ["kimi is well again"]


def test_a_post_without_an_answer_is_tried_again(store: Store, slack: Slack, dies: Dying) -> None:
    slack.plan = [(500, {}, 0.6)]
    dies()

    deliver(store, slack.url, timeout=0.3)

    assert len(slack.accepted) == 1


def test_a_body_that_does_not_end_changes_nothing(store: Store, slack: Slack, dies: Dying) -> None:
    slack.endless = True
    dies()

    deliver(store, slack.url, timeout=0.5)

    assert len(slack.came) == 1


def test_a_refusal_is_final_and_shown_without_the_address(store: Store, slack: Slack, dies: Dying) -> None:
    slack.plan = [(404, {}, 0.0)]
    dies()

    deliver(store, slack.url, until=AlertStatus.FAILED)

    assert store.alerts()[0].error == "Slack answered 404: no_such_hook"
    assert len(slack.came) == 1


def test_a_slack_that_is_not_there_yet_loses_nothing(store: Store, slack: Slack, dies: Dying) -> None:
    dies()
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(_run(store, "http://127.0.0.1:1/x"), 0.4))

    deliver(store, slack.url)

    assert len(slack.accepted) == 1


def test_a_private_address_is_not_posted_to_unless_allowed(store: Store, slack: Slack, dies: Dying) -> None:
    dies()

    async def work() -> None:
        sender = Sender(store, Webhook(slack.url), "http://x")
        task = asyncio.create_task(sender.run(stop := asyncio.Event()))
        while not any(alert.status is AlertStatus.FAILED for alert in store.alerts()):
            await asyncio.sleep(0.02)
        stop.set()
        await task

    asyncio.run(asyncio.wait_for(work(), 5))

    assert slack.came == []


def test_sigkill_while_slack_fails_loses_nothing_and_doubles_nothing(
    store: Store, state: Path, slack: Slack, dies: Dying
) -> None:
    _, incident = dies()
    store.resolve(incident, "well")
    slack.plan = [(500, {}, 0.0)] * 6
    for posts in (1, 2, 3):
        with killed_sender(state, slack.url) as process:
            _wait(partial(_came, slack, store, posts))
            process.send_signal(signal.SIGKILL)

    deliver(store, slack.url)

    assert [text.split(":")[0] for text in slack.accepted] == ["kimi is down", "kimi is well again"]


def test_sigkill_while_slack_takes_the_message_does_not_double_it(
    store: Store, state: Path, slack: Slack, dies: Dying
) -> None:
    """The one window that can't be closed: it errs towards not sending twice, and says so on the incident."""
    dies()
    slack.plan = [(200, {}, 0.5)]
    with killed_sender(state, slack.url) as process:
        _wait(lambda: len(slack.came) == 1)
        process.send_signal(signal.SIGKILL)

    deliver(store, slack.url, until=AlertStatus.FAILED)

    assert len(slack.accepted) == 1
    assert "may have arrived" in (store.alerts()[0].error or "")


def test_a_message_claimed_but_not_posted_goes_out_after_a_restart(store: Store, slack: Slack, dies: Dying) -> None:
    _, incident = dies()
    store.queue_alert(incident, "resolved", {"server": "kimi", "title": "t", "category": "c", "text": "x"})
    store.claim_alert()

    deliver(store, slack.url)

    assert slack.accepted.count("kimi is well again") == 1


def killed_sender(state: Path, url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _SENDER, str(state), url])


async def _run(store: Store, url: str) -> None:
    webhook = Webhook(url, allow_private=True)
    await Sender(store, webhook, "http://x", look=0.02, first_wait=0.05).run(asyncio.Event())


def _came(slack: Slack, store: Store, posts: int) -> bool:
    """So many posts came, and none is under way."""
    return len(slack.came) >= posts and all(alert.status is not AlertStatus.SENDING for alert in store.alerts())


def _wait(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 8
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.005)
