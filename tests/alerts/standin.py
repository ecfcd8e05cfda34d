"""A real HTTP server in Slack's place."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answering = tuple[int, dict[str, str], float]  # status, headers, seconds to wait before them


class Slack:
    """Answers as planned, then 200; keeps what came and what it accepted."""

    def __init__(self) -> None:
        self.plan: list[Answering] = []
        self.came: list[tuple[float, dict[str, Any]]] = []
        self.accepted: list[str] = []
        self.endless = False
        slack = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                slack.came.append((time.monotonic(), body))
                status, headers, wait = slack.plan.pop(0) if slack.plan else (200, {}, 0.0)
                if status == 200:
                    slack.accepted.append(body["text"])
                time.sleep(wait)
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(b"no_such_hook")
                    self.wfile.flush()
                    if slack.endless:
                        time.sleep(1)
                except OSError:
                    return

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/T/B/verysecret"


@contextmanager
def standing_in() -> Iterator[Slack]:
    """The server, answering until the end."""
    one = Slack()
    thread = threading.Thread(target=one.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield one
    finally:
        one.server.shutdown()
        thread.join()
        one.server.server_close()
