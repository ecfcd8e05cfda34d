"""One post to Slack's incoming webhook, and what its answer means."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from app.alerts.neutral import neutral

_LONGEST_WAIT = 3600.0  # what a Retry-After may ask for
_ANSWER = 2048  # bytes of an answer that are read, for the error shown


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a post. `wait` is what Slack asked for (429), `again` whether it may work later."""

    sent: bool
    error: str = ""
    again: bool = False
    wait: float | None = None


class Webhook:
    """The webhook of the configuration. Its address is a secret: no error ever shows it."""

    def __init__(self, url: str, *, allow_private: bool = False, timeout: float = 10.0) -> None:
        self._url = httpx.URL(url)
        self._allow_private = allow_private
        self._timeout = timeout

    async def post(self, body: Mapping[str, Any], begun: Callable[[], Awaitable[None]]) -> Answer:
        """Posts once. `begun` is awaited before the first byte goes out; whatever happens earlier sent nothing.

        A new connection each time: on one that was kept open nobody can know whether a lost post had arrived.
        """

        async def trace(event: str, _info: Mapping[str, Any]) -> None:
            if event.endswith("send_request_headers.started"):
                await begun()

        try:
            async with asyncio.timeout(self._timeout):
                return await self._post(body, trace)
        except TimeoutError:
            return Answer(False, f"Slack did not answer within {self._timeout:g} s", again=True)
        except httpx.TransportError as error:
            return Answer(False, f"Slack can't be reached ({type(error).__name__})", again=True)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError):
            return Answer(False, "slack.webhook_url is no address that can be posted to")

    async def _post(self, body: Mapping[str, Any], trace: Callable[..., Awaitable[None]]) -> Answer:
        url, headers, extensions = self._url, {"Content-Type": "application/json"}, {"trace": trace}
        if not self._allow_private:
            address = await self._public_address()
            if address is None:
                return Answer(False, "the webhook lies on a private address; see slack.allow_private_addresses")
            # The very address that was judged is used: a name may point elsewhere a moment later.
            headers["Host"] = url.netloc.decode("ascii")
            extensions["sni_hostname"] = url.host  # type: ignore[assignment]
            url = url.copy_with(host=address)
        limits = httpx.Timeout(self._timeout)
        async with (
            httpx.AsyncClient(timeout=limits, trust_env=self._allow_private, follow_redirects=False) as client,
            client.stream("POST", url, content=json.dumps(body), headers=headers, extensions=extensions) as response,
        ):
            if response.is_success:
                return Answer(True)  # accepted: a body that never ends changes nothing about it
            return await self._refused(response)

    async def _public_address(self) -> str | None:
        """An address of the webhook's host when all of them are public, else None. OSError is a lack of network."""
        loop = asyncio.get_running_loop()
        port = self._url.port or (443 if self._url.scheme == "https" else 80)
        try:
            found = await loop.getaddrinfo(self._url.host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpx.ConnectError("the name can't be looked up") from error
        addresses = [str(one[4][0]) for one in found]
        return addresses[0] if addresses and all(map(is_public, addresses)) else None

    async def _refused(self, response: httpx.Response) -> Answer:
        status = response.status_code
        if status == 429:
            return Answer(False, "Slack asked to wait (429)", again=True, wait=retry_after(response.headers))
        if status >= 500 or status == 408:
            wait = retry_after(response.headers) if "retry-after" in response.headers else None
            return Answer(False, f"Slack answered {status}", again=True, wait=wait)
        said = b""
        async for part in response.aiter_bytes():
            said += part
            if len(said) >= _ANSWER:
                break
        text = neutral(said.decode("utf-8", "replace"), 200)
        return Answer(False, f"Slack answered {status}: {text}" if text else f"Slack answered {status}")


def is_public(address: str) -> bool:
    """Whether an address belongs to the internet at large."""
    one = ipaddress.ip_address(address.partition("%")[0])
    mapped = one.ipv4_mapped if isinstance(one, ipaddress.IPv6Address) else None
    return (mapped or one).is_global and not one.is_multicast


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds that Slack asks to wait: a number or a date; a minute where it says nothing readable."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_WAIT)
    try:
        return min(max(0.0, parsedate_to_datetime(text).timestamp() - time.time()), _LONGEST_WAIT)
    except (ValueError, TypeError, OverflowError):
        return 60.0
