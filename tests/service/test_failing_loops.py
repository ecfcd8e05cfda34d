"""A loop of the service that failed is told until it runs again: people must not read health out of silence."""

from __future__ import annotations

import asyncio

import pytest

from app.service import serve
from app.service.config import Config
from app.service.serve import Service
from app.store.store import Store

pytestmark = pytest.mark.anyio


async def test_a_loop_that_failed_is_failing_until_it_begins_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_AGAIN", 0.2)
    service = Service(Config(), None, store)
    begun: list[tuple[str, ...]] = []

    async def loop() -> None:
        begun.append(service.failing)
        if len(begun) == 1:
            raise OSError("the disk is gone")

    keeping = asyncio.create_task(service._kept_up("following", loop))
    await asyncio.sleep(0.05)
    during = service.failing
    await keeping
    assert during == ("following",)
    assert [*begun, service.failing] == [(), (), ()]
