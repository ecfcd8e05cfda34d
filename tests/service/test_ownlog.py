"""Crashcart's own log: one JSON object a line, or a line for people, and no secret in either."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from app.service.ownlog import Seldom, set_up_logs

SECRET = "correct-horse-battery-staple"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def told(form: str, level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    set_up_logs(form, level, (SECRET,), stream)
    return stream


def test_an_event_is_one_object_a_line() -> None:
    stream = told("auto")
    structlog.get_logger("crashcart").warning("it\nhappened", server="kimi", count=3)
    line = json.loads(stream.getvalue())

    assert {key: line[key] for key in ("event", "level", "server", "count")} == {
        "event": "it\nhappened",
        "level": "warning",
        "server": "kimi",
        "count": 3,
    }


def test_libraries_log_the_same_way() -> None:
    stream = told("json")
    logging.getLogger("uvicorn.error").error("broken %s", "pipe")

    assert json.loads(stream.getvalue())["event"] == "broken pipe"


def test_people_get_one_line_that_steers_no_terminal() -> None:
    stream = told("human")
    structlog.get_logger().warning("a\x1b[31mb\nc", server="kimi")

    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
    assert "server=kimi" in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "human"])
def test_secrets_are_taken_out_wherever_they_stand(form: str) -> None:
    stream = told(form)
    log = structlog.get_logger()
    log.info(
        f"token {SECRET}", url=f"http://x/{SECRET}", words=["--api-key", "hf_abcdefghijklmnopqrstuvwxyz0123456789"]
    )
    try:
        raise ValueError(SECRET)
    except ValueError:
        log.exception("failed")

    assert SECRET not in stream.getvalue()
    assert "hf_abc" not in stream.getvalue()


def test_what_is_below_the_level_is_left_out() -> None:
    stream = told("json", "warning")
    structlog.get_logger().info("quiet")
    logging.getLogger("any.library").info("quiet too")

    assert stream.getvalue() == ""


def test_the_same_trouble_is_told_once_in_a_while() -> None:
    told: list[str] = []
    tell = Seldom(told.append, every=60.0)
    for text in ("disk full", "disk full", "locked"):
        tell(text)
    assert told == ["disk full", "locked"]
