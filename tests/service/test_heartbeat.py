"""The sign of life: sent while everything works, and only then."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Callable, Iterator

import pytest

from app.service.config import HeartbeatConfig
from app.service.heartbeat import beat

pytestmark = pytest.mark.anyio


class Watch(http.server.ThreadingHTTPServer):
    """The watch from outside, on a real socket."""

    asked = 0
    status = 200


class Handler(http.server.BaseHTTPRequestHandler):
    server: Watch

    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def watch() -> Iterator[Watch]:
    server = Watch(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def config(port: int) -> HeartbeatConfig:
    return HeartbeatConfig.model_construct(
        url=HeartbeatConfig(url=f"http://127.0.0.1:{port}/ping/secret-word").url,  # type: ignore[arg-type]
        every=0.1,
    )


async def beaten(
    settings: HeartbeatConfig, until: Callable[[list[str]], bool], *, works: bool = True, seconds: float = 15.0
) -> list[str]:
    """Sends it until something holds of what was told, or for so many seconds."""
    told: list[str] = []
    task = asyncio.ensure_future(beat(lambda: settings, lambda: works, told.append))
    deadline = asyncio.get_running_loop().time() + seconds
    while not until(told) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.02)
    task.cancel()
    return told


def never(_: list[str]) -> bool:
    return False


async def test_it_is_sent_again_and_again(watch: Watch) -> None:
    assert await beaten(config(watch.server_port), lambda _: watch.asked > 2) == []
    assert watch.asked > 2


async def test_nothing_is_sent_while_a_loop_fails(watch: Watch) -> None:
    await beaten(config(watch.server_port), never, works=False, seconds=1.0)
    assert watch.asked == 0


async def test_without_an_address_nothing_happens(watch: Watch) -> None:
    assert await beaten(HeartbeatConfig(), never, seconds=0.2) == []
    assert watch.asked == 0


async def test_a_refusal_is_told_without_the_address(watch: Watch) -> None:
    watch.status = 404
    told = await beaten(config(watch.server_port), lambda told: len(told) > 1)
    assert set(told) == {"the heartbeat's address answered 404"}


async def test_an_address_where_nobody_listens_is_told_and_tried_again() -> None:
    told = await beaten(config(1), lambda told: len(told) > 1)
    assert set(told) == {"the heartbeat's address can't be reached (ConnectError)"}
    assert len(told) > 1
