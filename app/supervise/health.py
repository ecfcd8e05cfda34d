"""Asking a server's health endpoint, and keeping what it said as evidence with its age."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal

import httpx

# SGLang answers 200 after a second (it generates a token) and 503 only after 20 s: a shorter wait never sees it.
ANSWER_WAIT = 25.0
_CONNECT_WAIT = 2.0

Kind = Literal["ok", "bad", "refused", "timeout"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a health endpoint: `at` is monotonic seconds, `latency` how long it took."""

    kind: Kind
    at: float
    latency: float
    status: int | None = None
    who: str = "health"

    def describe(self, now: float) -> str:
        """The answer as evidence: what, how slow, how long ago."""
        said = {
            "ok": f"{self.who} answered {self.status} in {self.latency:.1f} s",
            "bad": f"{self.who} answered {self.status} after {self.latency:.1f} s",
            "refused": f"{self.who} refused or dropped the connection",
            "timeout": f"{self.who} did not answer within {self.latency:.0f} s",
        }[self.kind]
        age = now - self.at
        return said if age < 1.5 else f"{said}, {age:.0f} s ago"


@dataclass
class Health:
    """An endpoint that is asked, one question at a time. Kept are the last answer and how many bad ones came in a row.

    With `body` it is asked by POST: a canary, which is a real request and not only a question whether it lives.
    """

    url: str
    answer_wait: float = ANSWER_WAIT
    who: str = "health"
    body: str | None = None  # JSON
    last: Answer | None = None
    bad_in_a_row: int = 0
    bad_since: float | None = None
    asked_at: float | None = None  # when the question now open was asked
    _client: httpx.AsyncClient = field(init=False, repr=False)

    def __post_init__(self) -> None:
        wait = httpx.Timeout(self.answer_wait, connect=min(_CONNECT_WAIT, self.answer_wait))
        # The environment's proxies are for elsewhere: a local server is asked directly.
        self._client = httpx.AsyncClient(timeout=wait, trust_env=False)

    @property
    def ok(self) -> bool:
        return self.last is not None and self.last.kind == "ok"

    async def ask(self) -> Answer:
        """Asks once. Nothing that a server does raises: it is an answer."""
        self.asked_at = start = time.monotonic()
        status: int | None = None
        try:
            if self.body is None:
                response = await self._client.get(self.url)
            else:
                headers = {"Content-Type": "application/json"}
                response = await self._client.post(self.url, content=self.body, headers=headers)
            status = response.status_code
            kind: Kind = "ok" if response.is_success else "bad"
        except httpx.ConnectTimeout:
            kind = "refused"
        except httpx.TimeoutException:
            kind = "timeout"
        except (httpx.HTTPError, httpx.InvalidURL):
            kind = "refused"
        now = time.monotonic()
        answer = Answer(kind, at=now, latency=now - start, status=status, who=self.who)
        self._keep(answer, start)
        return answer

    def describe(self) -> str:
        """What is known now, as evidence."""
        now = time.monotonic()
        waiting = now - self.asked_at if self.asked_at is not None else 0.0
        if waiting > 3:
            return f"{self.who} has not answered for {waiting:.0f} s"
        return self.last.describe(now) if self.last else f"{self.who} was not asked yet"

    async def close(self) -> None:
        await self._client.aclose()

    async def __aenter__(self) -> Health:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _keep(self, answer: Answer, asked: float) -> None:
        self.last = answer
        self.asked_at = None
        if answer.kind == "ok":
            self.bad_in_a_row, self.bad_since = 0, None
        else:
            self.bad_in_a_row += 1
            self.bad_since = self.bad_since if self.bad_since is not None else asked
