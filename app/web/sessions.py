"""Who looks at the pages: a signed cookie, and the mark that forms carry against posts from other sites.

Nothing is kept on the server: cookies outlive a restart, and die with the token that they were given for.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass

from fastapi import Request, Response

_DAYS = 30
_AGE = _DAYS * 24 * 3600


@dataclass(frozen=True, slots=True)
class Session:
    """One browser."""

    id: str
    issued: int


class Sessions:
    """Reads and writes the cookie. `key` is the state folder's own; `token` is what a login asks for, if anything."""

    def __init__(self, key: bytes, token: str | None = None) -> None:
        self._token = token
        self._key = hmac.new(key, f"pages\0{token or ''}".encode(), hashlib.sha256).digest()
        # Browsers share cookies among the ports of a host: two Crashcarts must not take each other's.
        self.cookie = f"crashcart_{self._sign('cookie')[:8]}"

    @property
    def asks(self) -> bool:
        """Whether pages demand a login."""
        return self._token is not None

    def read(self, request: Request) -> Session | None:
        """The session of a request, if its cookie is ours and not too old."""
        name, _, rest = request.cookies.get(self.cookie, "").partition(".")
        issued, _, signature = rest.partition(".")
        genuine = hmac.compare_digest(signature.encode(), self._sign("session", name, issued).encode())
        if not genuine or not issued.isdecimal() or not 0 <= time.time() - int(issued) < _AGE:
            return None
        return Session(name, int(issued))

    def allows(self, request: Request) -> bool:
        """Whether the request may see what the pages show."""
        return not self.asks or self.read(request) is not None

    def begin(self, request: Request, response: Response) -> Session:
        """Gives the browser a new session."""
        session = Session(secrets.token_urlsafe(16), int(time.time()))
        value = f"{session.id}.{session.issued}.{self._sign('session', session.id, str(session.issued))}"
        secure = request.url.scheme == "https"
        response.set_cookie(self.cookie, value, max_age=_AGE, httponly=True, samesite="lax", secure=secure)
        return session

    def end(self, response: Response) -> None:
        """Takes the session away."""
        response.delete_cookie(self.cookie)

    def mark(self, session: Session) -> str:
        """What each form of this session carries."""
        return self._sign("form", session.id)

    def genuine(self, session: Session, mark: str) -> bool:
        """Whether a posted form is one that this session was given."""
        return hmac.compare_digest(mark.encode(), self.mark(session).encode())

    def opens(self, token: str) -> bool:
        """Whether this is the token."""
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())

    def _sign(self, *parts: str) -> str:
        return hmac.new(self._key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()
