"""What holds against guessing, slow and many clients; over real sockets."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from app.store.store import Store
from app.web import guard
from tests.conftest import Dying
from tests.web.serving import serving

TOKEN = "a-long-random-word"


def test_who_guesses_tokens_has_to_wait(store: Store) -> None:
    with serving(store, token=TOKEN) as url:
        wrong = [httpx.get(f"{url}/incidents", headers={"Authorization": f"Bearer {at}"}) for at in range(7)]
        right = httpx.get(f"{url}/incidents", headers={"Authorization": f"Bearer {TOKEN}"})
    assert [answer.status_code for answer in wrong] == [401] * 5 + [429] * 2
    assert 0 < int(wrong[-1].headers["Retry-After"]) <= 60
    assert right.status_code == 200


def test_a_request_without_a_token_is_no_guess(store: Store) -> None:
    with serving(store, token=TOKEN) as url:
        codes = [httpx.get(f"{url}/incidents").status_code for _ in range(7)]
    assert codes == [401] * 7


def test_who_guesses_on_the_page_has_to_wait_and_is_told_how_long(store: Store) -> None:
    with serving(store, token=TOKEN) as url:
        wrong = [httpx.post(f"{url}/ui/login", data={"token": str(at)}) for at in range(6)]
    assert [answer.status_code for answer in wrong] == [401] * 5 + [429]
    assert "Try again in" in wrong[-1].text
    assert 0 < int(wrong[-1].headers["Retry-After"]) <= 60


def test_a_body_that_comes_too_slowly_is_408_and_the_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    with serving(store) as url:
        at = urlsplit(url)
        with socket.create_connection((at.hostname or "", at.port or 0), timeout=3) as client:
            head = f"POST /incidents/ingest HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Type: application/json\r\n"
            client.sendall(f'{head}Content-Length: 100\r\n\r\n{{"server"'.encode())
            answer = b"".join(iter(lambda: client.recv(4096), b"")).decode()  # to its end: it is closed
    assert answer.startswith("HTTP/1.1 408 ")


def test_many_viewers_are_each_told_once(store: Store, dies: Dying) -> None:
    viewers = 60
    ready = threading.Barrier(viewers + 1)

    def view(url: str) -> list[str]:
        seen: list[str] = []
        with httpx.stream("GET", f"{url}/stream", timeout=20) as stream:
            for line in stream.iter_lines():
                if line.startswith("retry"):
                    ready.wait(20)
                seen += [line] if line.startswith("id: ") else []
                if "event: transition" in line and len(seen) >= 2:
                    return seen
        return seen

    with serving(store) as url, ThreadPoolExecutor(viewers) as pool:
        seen = [pool.submit(view, url) for _ in range(viewers)]
        ready.wait(20)
        dies()
        found = [one.result(20) for one in seen]
    assert all(lines == found[0] for lines in found)
    assert len(set(found[0])) == len(found[0]) == 2
