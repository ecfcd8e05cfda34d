"""A real HTTP server answers well, badly, late and not at all."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from app.supervise.health import Answer, Health

pytestmark = pytest.mark.anyio


@contextmanager
def serving(status: int, after: float = 0.0) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(after)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/health"
        finally:
            server.shutdown()
            thread.join()


async def test_200_is_ok_and_says_how_long_it_took() -> None:
    with serving(200, after=0.2) as url:
        async with Health(url) as health:
            answer = await health.ask()

    assert (answer.kind, answer.status, answer.latency >= 0.2) == ("ok", 200, True)


async def test_503_is_a_bad_answer_with_its_status() -> None:
    with serving(503) as url:
        async with Health(url) as health:
            answer = await health.ask()

    assert (answer.kind, answer.status) == ("bad", 503)


async def test_a_closed_port_is_refused_and_no_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with Health(f"http://127.0.0.1:{unused.getsockname()[1]}/health") as health:
            answer = await health.ask()

    assert (answer.kind, answer.status) == ("refused", None)


async def test_no_answer_in_time_is_a_timeout() -> None:
    with serving(200, after=0.5) as url:
        async with Health(url, answer_wait=0.1) as health:
            answer = await health.ask()

    assert answer.kind == "timeout"


async def test_an_answer_slower_than_a_second_is_still_waited_for() -> None:
    with serving(200, after=1.6) as url:
        async with Health(url) as health:
            answer = await health.ask()

    assert answer.kind == "ok"


async def test_bad_answers_in_a_row_are_counted_until_a_good_one() -> None:
    with serving(503) as bad, serving(200) as good:
        async with Health(bad) as health:
            await health.ask()
            await health.ask()
            counted = health.bad_in_a_row
            health.url = good
            await health.ask()

    assert (counted, health.bad_in_a_row, health.bad_since) == (2, 0, None)


async def test_an_old_answer_tells_its_age() -> None:
    answer = Answer("ok", at=100.0, latency=1.04, status=200)

    assert answer.describe(now=112.0) == "health answered 200 in 1.0 s, 12 s ago"
