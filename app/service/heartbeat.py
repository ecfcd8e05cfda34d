"""Tells a watch from outside that this service works: where the sign stops, somebody else raises the alarm.

Nothing is sent while a loop fails. The address is configured by the operator and may lie anywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx

from app.service.config import HeartbeatConfig

_TIMEOUT = 10.0  # seconds
_UNSET = 1.0  # seconds between looks for an address that a reload may bring


async def beat(config: Callable[[], HeartbeatConfig], works: Callable[[], bool], tell: Callable[[str], None]) -> None:
    """Asks the configured address again and again; `tell` gets what went wrong, without the address."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    async with httpx.AsyncClient(timeout=_TIMEOUT, follow_redirects=False) as client:
        while True:
            wanted = config()
            if wanted.url is None or loop.time() < due or not works():
                await asyncio.sleep(min(_UNSET, max(0.05, due - loop.time())) if wanted.url else _UNSET)
                continue
            due = loop.time() + wanted.every
            try:
                answer = await client.get(wanted.url.get_secret_value())
                if answer.is_error:
                    tell(f"the heartbeat's address answered {answer.status_code}")
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                tell(f"the heartbeat's address can't be reached ({type(error).__name__})")
