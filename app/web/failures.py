"""Wrong tokens by address: after a few of them, whoever guesses has to wait."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque

from fastapi import Request

_MOST = 5  # wrong tokens within
_SECONDS = 60.0
_ADDRESSES = 10_000  # that are remembered; of more, those that failed longest ago are let go


class Failures:
    """Kept in memory: after a restart everybody may try again."""

    def __init__(self) -> None:
        self._at: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, address: str) -> None:
        """Another wrong token from an address."""
        times = self._at.setdefault(address, deque(maxlen=_MOST))
        times.append(time.monotonic())
        self._at.move_to_end(address)
        while len(self._at) > _ADDRESSES:
            self._at.popitem(last=False)

    def wait(self, address: str) -> int:
        """Seconds until an address may try again; 0 for now."""
        times = self._at.get(address)
        if times is None or len(times) < _MOST:
            return 0
        return max(0, math.ceil(times[0] + _SECONDS - time.monotonic()))


def address_of(request: Request) -> str:
    """Who asks: the address at the other end of the connection, a proxy's where there is one."""
    return request.client.host if request.client is not None else ""
