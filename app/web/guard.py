"""What stands before every request: Host, Origin, token, and the bounds of bodies."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import zlib
from collections.abc import Callable
from urllib.parse import urlsplit

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.service.config import Config
from app.web.failures import Failures, address_of
from app.web.problems import Refusal, problem

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# They say nothing of servers, or have a login of their own.
_OPEN = ("/healthz", "/readyz", "/docs", "/openapi.json")
# What is read away after a refusal, so that a client that only writes gets its answer.
_DRAINED = 64 * 2**20
_STEP = 64 * 1024
BODY_SECONDS = 30.0  # in which a body must be complete: who sends slowly holds nobody up
_SHORT = 64 * 1024


class Guard:
    """ASGI middleware; `may_read` says whether a browser's session opens the API for reading."""

    def __init__(self, app: ASGIApp, config: Callable[[], Config], may_read: Callable[[Request], bool]) -> None:
        self._app = app
        self._config = config
        self._may_read = may_read
        self._failures = Failures()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        incoming = _Incoming(request, receive)
        body: bytes | None = None
        try:
            self._check(request)
            if request.method not in _SAFE:
                body = await incoming.read(_limit(request, self._config()))
        except Refusal as refusal:
            headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
            if refusal.status == 408:
                headers["Connection"] = "close"  # the rest of the body is not waited for
            if refusal.wait is not None:
                headers["Retry-After"] = str(refusal.wait)
            await incoming.drain()
            await problem(refusal.status, refusal.detail, mend=refusal.mend, headers=headers)(scope, receive, send)
            return
        await self._app(_unpacked(scope) if body else scope, receive if body is None else _given(body, receive), send)

    def _check(self, request: Request) -> None:
        config = self._config()
        host = _name(request.headers.get("host", ""))
        if not _known(host, config):
            raise Refusal(
                400, "This service is not reached under that host name.", mend="Add the name to `allowed_hosts`."
            )
        if request.method not in _SAFE and _foreign(request, config):
            raise Refusal(403, "Other sites may not post here.")
        path = request.url.path
        if config.token is None or path in _OPEN or path == "/" or path == "/ui" or path.startswith("/ui/"):
            return
        if _bearer(request, config.token.get_secret_value()):
            return
        if "authorization" in request.headers:
            if wait := self._failures.wait(address_of(request)):
                raise Refusal(429, "Too many wrong tokens came from your address.", mend=f"Wait {wait} s.", wait=wait)
            self._failures.add(address_of(request))
        if request.method not in _SAFE or not self._may_read(request):
            raise Refusal(401, "A valid token is needed.", mend="Send `Authorization: Bearer TOKEN`.")


def _limit(request: Request, config: Config) -> int:
    """Only logs are large."""
    return config.limits.body if request.url.path == "/incidents/ingest" else min(_SHORT, config.limits.body)


def _name(host: str) -> str:
    """A Host header without its port, in small letters."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _known(host: str, config: Config) -> bool:
    """Addresses are always ours: only names can be made to point here by others."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        names = {"localhost", config.listen.host, _name(urlsplit(config.base_url).netloc), *config.allowed_hosts}
        return host in {name.lower() for name in names}
    return True


def _foreign(request: Request, config: Config) -> bool:
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    ours = {request.headers.get("host", "").lower(), urlsplit(config.base_url).netloc.lower()}
    try:
        return urlsplit(origin).netloc.lower() not in ours
    except ValueError:
        return True


def _bearer(request: Request, token: str) -> bool:
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


class _Incoming:
    """The body of one request."""

    def __init__(self, request: Request, receive: Receive) -> None:
        self._request = request
        self._receive = receive
        self._taken = 0
        self._more = request.method not in _SAFE
        self._deadline = asyncio.get_running_loop().time() + BODY_SECONDS

    async def read(self, limit: int) -> bytes:
        """The whole body, unpacked; never more of it than the limit is held."""
        coding = self._request.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("identity", "gzip", "x-gzip"):
            raise Refusal(415, f"Bodies in {coding[:40]!r} can't be read.", mend="Send it plain or in gzip.")
        length = self._request.headers.get("content-length", "0")
        too_large = Refusal(413, f"The body is larger than {limit} bytes.", mend="Send the last part of the log.")
        if length.isdigit() and int(length) > limit:
            raise too_large
        unpack = zlib.decompressobj(wbits=31) if coding != "identity" else None
        held = bytearray()
        while self._more:
            chunk = await self._next()
            held += chunk if unpack is None else _inflated(unpack, chunk, limit + 1 - len(held))
            if len(held) > limit:
                raise too_large
        if unpack is not None and self._taken and not unpack.eof:
            raise Refusal(400, "The gzip body is cut off.")
        return bytes(held)

    async def drain(self) -> None:
        """Reads a refused body away, within reason: a client that is still writing would not see the answer."""
        if "100-continue" in self._request.headers.get("expect", ""):
            return
        with contextlib.suppress(Refusal):
            while self._more and self._taken < _DRAINED:
                await self._next()

    async def _next(self) -> bytes:
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            self._more = False
            raise Refusal(408, f"The body was not complete within {BODY_SECONDS:g} s.") from None
        self._more = message["type"] == "http.request" and bool(message.get("more_body", False))
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The body ended early.")
        chunk: bytes = message.get("body", b"")
        self._taken += len(chunk)
        return chunk


def _inflated(unpack: zlib._Decompress, chunk: bytes, room: int) -> bytes:
    """A chunk unpacked as far as there is room: a bomb is not given the chance to grow."""
    try:
        found = bytearray()
        while chunk and not unpack.eof and len(found) < room:
            found += unpack.decompress(chunk, min(_STEP, room - len(found)))
            chunk = unpack.unconsumed_tail
        return bytes(found)
    except zlib.error as error:
        raise Refusal(400, "The body is no gzip data.") from error


def _given(body: bytes, receive: Receive) -> Receive:
    """Hands on a body that was read."""
    told = False

    async def give() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give


def _unpacked(scope: Scope) -> Scope:
    """The request as if it had come plain."""
    headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"content-encoding"]
    return {**scope, "headers": headers}
