"""Crashcart's own log on stderr: JSON lines for machines, or a line for people; never a secret in it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

from app.core.redact import redact_text
from app.core.text import neutralise

Event = MutableMapping[str, Any]


def set_up_logs(
    form: str = "auto", level: str = "info", secrets: tuple[str, ...] = (), to: TextIO | None = None
) -> None:
    """Sends our events and those of libraries the same way. `form`: auto, json or human."""
    stream = to or sys.stderr
    human = form == "human" or (form == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if human else "iso", utc=not human),
        structlog.processors.format_exc_info,
        _Redact(secrets),
    ]
    last: Processor = _for_people if human else structlog.processors.JSONRenderer(ensure_ascii=False)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # They tell each request and each change of a file; we tell what follows from it.
    for name in ("uvicorn.access", "watchfiles", "httpx", "httpcore", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


class Seldom:
    """Passes the same text on once in a while only: a disk that is full must not be filled by saying so."""

    def __init__(self, tell: Callable[[str], object], every: float = 60.0) -> None:
        """`every`: seconds between two times."""
        self._tell = tell
        self._every = every
        self._told: dict[str, float] = {}

    def __call__(self, text: str) -> None:
        at = time.monotonic()
        self._told = {told: when for told, when in self._told.items() if at - when < self._every}
        if text not in self._told:
            self._told[text] = at
            self._tell(text)


class _Redact:
    """Takes secrets out of every text of an event, and what would steer a terminal."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = [secret for secret in secrets if secret]

    def __call__(self, _logger: Any, _method: str, event: Event) -> Event:
        return {key: self._clean(value) for key, value in event.items()}

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, "***")
            return redact_text(value)
        if isinstance(value, (list, tuple)):
            return [self._clean(one) for one in value]
        return value


def _for_people(_logger: Any, _method: str, event: Event) -> str:
    at, level, what = event.pop("timestamp", ""), event.pop("level", ""), event.pop("event", "")
    trace = event.pop("exception", None)
    rest = " ".join(f"{key}={value}" for key, value in event.items() if not key.startswith("_"))
    mark = {"warning": "! ", "error": "✖ ", "critical": "✖ "}.get(level, "")
    line = neutralise(f"{at}  {mark}{what}  {rest}".rstrip()).replace("\n", " ")
    return f"{line}\n{neutralise(trace)}" if trace else line
