"""The real application on a real socket, in a thread of the test."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from app.service.config import Config
from app.service.serve import Service
from app.store.store import Store
from app.web.app import create_app


@contextmanager
def serving(store: Store, **keys: object) -> Iterator[str]:
    """Serves a store; gives the address."""
    service = Service(Config.model_validate(keys), None, store)
    service.ready = True
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(
            uvicorn.Config(
                create_app(service),
                loop="uvloop",
                http="httptools",
                log_config=None,
                lifespan="off",
                timeout_graceful_shutdown=1,
            )
        )
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
