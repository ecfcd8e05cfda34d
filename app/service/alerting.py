"""Slack in effect: one sender for the state folder, which begins anew when the configuration names another webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from app.alerts.sender import Sender
from app.alerts.webhook import Webhook
from app.service.config import Config
from app.store.outbox import AlertView
from app.store.store import Store


class Alerting:
    """Runs the sender that the configuration asks for; without a webhook it waits for one."""

    def __init__(self, store: Store, config: Callable[[], Config]) -> None:
        """`config` is asked anew after `change`."""
        self._store = store
        self._config = config
        self._ended = asyncio.Event()
        self._stopping = False
        self._log = structlog.get_logger("crashcart")

    def change(self) -> None:
        """The configuration may be another: a post under way is ended first."""
        self._ended.set()

    def stop(self) -> None:
        """Ends `run` behind the post that is under way."""
        self._stopping = True
        self._ended.set()

    async def run(self) -> None:
        """Sends until `stop`. StoreError is for the caller."""
        while not self._stopping:
            self._ended = asyncio.Event()
            config = self._config()
            slack = config.slack
            if slack.webhook_url is None:
                await self._ended.wait()
                continue
            webhook = Webhook(
                slack.webhook_url.get_secret_value(),
                allow_private=slack.allow_private_addresses,
                timeout=slack.timeout,
            )
            await Sender(self._store, webhook, config.base_url, tell=self._tell).run(self._ended)

    def _tell(self, said: str, alert: AlertView) -> None:
        tell = self._log.info if said == "sent" else self._log.warning
        tell(f"message to Slack {said}", incident=alert.incident_id, kind=alert.kind)
