"""The loop that brings messages from the outbox to Slack. A relaunch never waits for it: they meet in the store.

What holds across SIGKILL at any moment: a message waits in the outbox until Slack took it; one whose post had not
begun is posted after the restart; messages of one incident go out in order. One window can't be closed, because an
incoming webhook knows no key by which a repeated post could be told: between the first byte of a post and our note
that it was accepted. A message caught in there is NOT posted again (never twice); it is kept as failed, its incident
shows "may have arrived", and the incident's next message goes out as usual.

A post that timed out, or whose connection broke before an answer, is posted again: Slack did not accept it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from app.alerts.message import message
from app.alerts.telling import collect
from app.alerts.webhook import Answer, Webhook
from app.store.models import now
from app.store.outbox import AlertView
from app.store.store import Store

BEGUN = "being posted"  # kept as the error of a message from the first byte on
_DOUBT = "Crashcart ended while this was being posted: it may have arrived. It is not sent again."
_GIVE_UP = timedelta(hours=24)
_LONGEST = 600.0

Tell = Callable[[str, AlertView], None]


class Sender:
    """Sends what is due. There must be only one for a state folder."""

    def __init__(
        self,
        store: Store,
        webhook: Webhook,
        base_url: str,
        *,
        look: float = 0.5,
        first_wait: float = 1.0,
        tell: Tell | None = None,
    ) -> None:
        self._store = store
        self._webhook = webhook
        self._base_url = base_url
        self._look = look
        self._first_wait = first_wait
        self._tell = tell
        self._not_before = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Works until `stop` is set; a post under way is ended first. StoreError is for the caller."""
        await asyncio.to_thread(self.take_up)
        seen = await asyncio.to_thread(self._store.last_alerted)
        while not stop.is_set():
            seen = await asyncio.to_thread(collect, self._store, seen)
            if not await self.send_one():
                await _sleep(self._look, stop)

    def take_up(self) -> None:
        """Settles what an earlier sender left behind in the middle of a post."""
        for alert in self._store.alerts_in_doubt():
            if alert.error == BEGUN:
                self._store.alert_failed(alert.id, _DOUBT, None)
                if self._tell is not None:
                    self._tell(f"given up: {_DOUBT}", alert)
            else:
                self._store.alert_failed(alert.id, "not posted yet", 0.0)

    async def send_one(self) -> bool:
        """Posts the next message that is due; False when there is none, or Slack asked to wait."""
        clock = asyncio.get_running_loop().time
        if clock() < self._not_before:
            return False
        alert = await asyncio.to_thread(self._store.claim_alert)
        if alert is None:
            return False

        marks: list[asyncio.Future[None]] = []

        async def begun() -> None:
            marks.append(asyncio.ensure_future(asyncio.to_thread(self._store.alert_begun, alert.id, BEGUN)))
            await asyncio.shield(marks[-1])

        body = message(alert.incident_id, alert.kind, alert.facts, self._base_url)
        answer = await self._webhook.post(body, begun)
        await asyncio.gather(*marks)  # a time-out may have left it writing: it must not come after the outcome
        if answer.wait is not None:
            self._not_before = clock() + answer.wait  # Slack means the webhook, not this one message
        await asyncio.to_thread(self._note, alert, answer)
        return True

    def _note(self, alert: AlertView, answer: Answer) -> None:
        if answer.sent:
            self._store.alert_sent(alert.id)
            said = "sent"
        elif answer.again and now() - alert.created_at < _GIVE_UP:
            backoff = min(_LONGEST, self._first_wait * 2 ** min(alert.attempts - 1, 20))
            self._store.alert_failed(alert.id, answer.error, backoff if answer.wait is None else answer.wait)
            said = f"will be tried again: {answer.error}"
        else:
            self._store.alert_failed(alert.id, answer.error, None)
            said = f"given up: {answer.error}"
        if self._tell is not None:
            self._tell(said, alert)


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
