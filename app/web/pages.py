"""The dashboard under /ui: incidents, what happened and was done, deciding on proposed fixes, and servers.

Pages are whole without JavaScript. With it, htmx fetches the same page again when the stream tells of a change and
puts its `#live` part in place of the old one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.parse import parse_qs, quote, urlencode

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

from app.core.errors import CrashcartError, NotFoundError, StaleError
from app.core.vocabulary import Category, IncidentStatus
from app.rules.load import RuleSet
from app.service.asking import look
from app.store.store import Store
from app.store.views import ServerView
from app.store.wishes import ServerWish
from app.store.words import Wish
from app.web.failures import Failures, address_of
from app.web.incident_page import incident_page
from app.web.log_page import log_page
from app.web.news import news
from app.web.presenting import STATIC, environment
from app.web.pulse import Pulse
from app.web.sessions import Sessions

_PAGE = 50
_FORM_LIMIT = 8 * 1024
_SEARCH = 200  # characters of what is looked for
_UNRESOLVED = tuple(status for status in IncidentStatus if status is not IncidentStatus.RESOLVED)
_TABS: Mapping[str, tuple[str, tuple[IncidentStatus, ...]]] = {
    "unresolved": ("Unresolved", _UNRESOLVED),
    "yours": ("Needs you", (IncidentStatus.PROPOSED, IncidentStatus.NEEDS_HUMAN)),
    "resolved": ("Resolved", (IncidentStatus.RESOLVED,)),
    "all": ("All", tuple(IncidentStatus)),
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def add_pages(
    app: FastAPI, store: Store, *, token: str | None = None, rules: Callable[[], RuleSet] = RuleSet
) -> Sessions:
    """Puts the pages into the service. Where there is a token, they ask for it; the sessions tell who gave it."""
    sessions = Sessions(store.key.key, token)
    app.mount("/ui/static", StaticFiles(directory=STATIC), name="static")  # before the pages' own catch-all
    app.include_router(_Pages(store, sessions, rules).router())
    return sessions


class _RefusedError(Exception):
    """A request that gets a page saying why."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(text)
        self.status, self.title, self.text = status, title, text


class _Pages:
    def __init__(self, store: Store, sessions: Sessions, rules: Callable[[], RuleSet]) -> None:
        self._store = store
        self._rules = rules
        self._sessions = sessions
        self._failures = Failures()
        self._pulse = Pulse(store)
        self._templates = environment()

    def router(self) -> APIRouter:
        """The routes; pages are no part of the API's description."""
        router = APIRouter(include_in_schema=False)
        router.add_api_route("/", self.home, methods=["GET"])
        router.add_api_route("/ui", self.home, methods=["GET"])
        router.add_api_route("/ui/", self.home, methods=["GET"])
        router.add_api_route("/ui/incidents", self.incidents, methods=["GET"])
        router.add_api_route("/ui/incidents/{number}", self.incident, methods=["GET"])
        router.add_api_route("/ui/incidents/{number}/fix", self.decide, methods=["POST"])
        router.add_api_route("/ui/servers", self.servers, methods=["GET"])
        router.add_api_route("/ui/servers/{name}/wish", self.wish, methods=["POST"])
        router.add_api_route("/ui/servers/{name}/log", self.log, methods=["GET"])
        router.add_api_route("/ui/rules", self.rules, methods=["GET"])
        router.add_api_route("/ui/stream", self.stream, methods=["GET"])
        router.add_api_route("/ui/login", self.login_form, methods=["GET"])
        router.add_api_route("/ui/login", self.login, methods=["POST"])
        router.add_api_route("/ui/logout", self.logout, methods=["POST"])
        router.add_api_route("/ui/{rest:path}", self.lost, methods=["GET"])
        return router

    # -- pages

    def home(self) -> Response:
        """The incidents are what one comes for."""
        return RedirectResponse("/ui/incidents", status_code=303, headers=_HEADERS)

    def incidents(
        self,
        request: Request,
        show: str = "unresolved",
        server: str | None = None,
        category: str | None = None,
        before: Annotated[str | None, Query()] = None,
    ) -> Response:
        """The list; what it is narrowed to stands in the address."""
        if not self._sessions.allows(request):
            return self._to_login(request)
        show = show if show in _TABS else "unresolved"
        wanted = next((one for one in Category if one == category), None)
        found = self._store.incidents(
            status=_TABS[show][1], server=server or None, category=wanted, limit=_PAGE + 1, before=_number(before)
        )
        narrowed = {"server": server or "", "category": wanted or ""}

        def link(**changed: object) -> str:
            parts = {"show": show, **narrowed, **changed}
            return "/ui/incidents?" + urlencode({name: value for name, value in parts.items() if value})

        return self._page(
            request,
            "incidents.html",
            show=show,
            tabs=[(name, title, self._count(statuses)) for name, (title, statuses) in _TABS.items()],
            incidents=found[:_PAGE],
            older=link(before=found[_PAGE - 1].id) if len(found) > _PAGE else None,
            narrowed=[(name, value, link(**{name: ""})) for name, value in narrowed.items() if value],
            link=link,
            any_server=bool(self._store.list_servers()),
        )

    def incident(self, request: Request, number: str, decided: str | None = None) -> Response:
        """What happened, why, and what was done about it."""
        if not self._sessions.allows(request):
            return self._to_login(request)
        return self._incident(request, number, _number(decided))

    def servers(self, request: Request) -> Response:
        """What every server does now."""
        if not self._sessions.allows(request):
            return self._to_login(request)
        servers = self._store.list_servers()
        unresolved = {one.server: one for one in reversed(self._store.incidents(status=_UNRESOLVED, limit=500))}
        return self._page(
            request,
            "servers.html",
            servers=[
                (one, look(one), unresolved.get(one.name), self._store.missing(one.name), _wishes(one))
                for one in servers
            ],
        )

    def log(self, request: Request, name: str, before: str | None = None, q: str = "") -> Response:
        """A server's newest output; older lines by `before`."""
        if not self._sessions.allows(request):
            return self._to_login(request)
        server = self._store.get_server(name)
        if server is None:
            return self._message(request, _RefusedError(404, "Not found", f"There is no server {name}."))
        end = _number(before)
        page = log_page(server.log_path, end, q[:_SEARCH])
        return self._page(request, "log.html", server=server, page=page, before=end, q=q[:_SEARCH])

    def rules(self, request: Request, q: str = "") -> Response:
        """What is known, and how often each fix has held here."""
        if not self._sessions.allows(request):
            return self._to_login(request)
        known, words = self._rules(), q[:_SEARCH].lower().split()
        records = self._store.fix_records()
        found = [
            (rule, records.get(rule.id))
            for rule in known.rules
            if all(word in f"{rule.id} {rule.title} {rule.category or ''}".lower() for word in words)
        ]
        problems = known.problems
        return self._page(request, "rules.html", rules=found, total=len(known.rules), problems=problems, q=q[:_SEARCH])

    def stream(self, request: Request) -> Response:
        """Tells pages of news; 204 ends a browser's asking again."""
        return news(self._pulse, request) if self._sessions.allows(request) else Response(status_code=204)

    def lost(self, request: Request) -> Response:
        """An address that no page has."""
        if not self._sessions.allows(request):
            return self._to_login(request)
        return self._message(request, _RefusedError(404, "No such page", "There is no page at this address."))

    # -- forms

    async def decide(self, request: Request, number: str) -> Response:
        """A person approves or rejects a proposed fix."""
        try:
            form = await self._form(request)
        except _RefusedError as refused:
            return await run_in_threadpool(self._message, request, refused)
        return await run_in_threadpool(self._decide, request, number, form)

    def _decide(self, request: Request, number: str, form: Mapping[str, str]) -> Response:
        incident, fix, wish = _number(number), _number(form.get("fix_id")), form.get("decision", "")
        if fix is None or wish not in tuple(Wish):
            text = "The form names no fix, or neither approves nor rejects it. Nothing was changed."
            return self._message(request, _RefusedError(422, "That form is incomplete", text))
        client = request.client.host if request.client else "unknown address"
        try:
            self._store.decide(incident or 0, fix, Wish(wish), f"someone at the dashboard ({client})")
        except NotFoundError as error:
            return self._message(request, _not_found(error))
        except StaleError as error:
            stale = f"Nothing was changed: {error} Below is how things stand now."
            return self._incident(request, number, None, error=stale, status=409)
        return RedirectResponse(f"/ui/incidents/{incident}?decided={fix}", status_code=303, headers=_HEADERS)

    async def wish(self, request: Request, name: str) -> Response:
        """A person wants a server started, stopped, restarted, or back to its configured command."""
        try:
            form = await self._form(request)
        except _RefusedError as refused:
            return await run_in_threadpool(self._message, request, refused)
        return await run_in_threadpool(self._wish, request, name, form.get("wish", ""))

    def _wish(self, request: Request, name: str, wish: str) -> Response:
        if wish not in tuple(ServerWish):
            text = "The form names nothing that can be done with a server. Nothing was changed."
            return self._message(request, _RefusedError(422, "That form is incomplete", text))
        client = request.client.host if request.client else "unknown address"
        try:
            self._store.wish(name, ServerWish(wish), f"someone at the dashboard ({client})")
        except NotFoundError as error:
            return self._message(request, _not_found(error))
        except StaleError as error:
            return self._message(request, _RefusedError(409, "Nothing was changed", f"{error} {error.mend or ''}"))
        return RedirectResponse(f"/ui/servers#server-{quote(name)}", status_code=303, headers=_HEADERS)

    def login_form(self, request: Request) -> Response:
        """Asks for the token."""
        if self._sessions.allows(request):
            return self.home()
        return self._page(request, "login.html", error=None)

    async def login(self, request: Request) -> Response:
        """Takes the token and gives a session for it."""
        if wait := self._failures.wait(address_of(request)):
            text = f"Too many wrong tokens came from your address. Try again in {wait} s."
            answer = await run_in_threadpool(lambda: self._page(request, "login.html", status=429, error=text))
            answer.headers["Retry-After"] = str(wait)
            return answer
        try:
            form = await _fields(request)
        except _RefusedError as refused:
            return await run_in_threadpool(self._message, request, refused)
        if not self._sessions.opens(form.get("token", "")):
            self._failures.add(address_of(request))
            return await run_in_threadpool(
                lambda: self._page(request, "login.html", status=401, error="That is not the token.")
            )
        response = RedirectResponse(_own_path(form.get("next", "")), status_code=303, headers=_HEADERS)
        self._sessions.begin(request, response)
        return response

    async def logout(self, request: Request) -> Response:
        """Ends the session."""
        try:
            await self._form(request)
        except _RefusedError as refused:
            return await run_in_threadpool(self._message, request, refused)
        response = RedirectResponse("/ui/login", status_code=303, headers=_HEADERS)
        self._sessions.end(response)
        return response

    async def _form(self, request: Request) -> Mapping[str, str]:
        """A form's fields, when it is one that this browser got from us."""
        form = await _fields(request)
        session = self._sessions.read(request)
        if session is None or not self._sessions.genuine(session, form.get("csrf", "")):
            raise _RefusedError(
                403,
                "That form is not from this page",
                "It is too old, or another site sent it, or cookies are switched off. Nothing was changed. "
                "Open the page again and decide there.",
            )
        return form

    # -- making responses

    def _incident(
        self, request: Request, number: str, decided: int | None, error: str | None = None, status: int = 200
    ) -> Response:
        try:
            page = incident_page(self._store, _number(number) or 0, decided)
        except NotFoundError as missing:
            return self._message(request, _not_found(missing))
        return self._page(request, "incident.html", status=status, page=page, error=error)

    def _message(self, request: Request, refused: _RefusedError) -> Response:
        return self._page(
            request, "message.html", status=refused.status, heading=refused.title, text=refused.text, alone=True
        )

    def _to_login(self, request: Request) -> Response:
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse("/ui/login?" + urlencode({"next": path}), status_code=303, headers=_HEADERS)

    def _page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
        """A whole page; a browser without a session gets one where none has to be earned by a login."""
        response = HTMLResponse(status_code=status, headers=_HEADERS)
        session = self._sessions.read(request)
        if session is None and not self._sessions.asks:
            session = self._sessions.begin(request, response)
        allowed = self._sessions.allows(request)
        values |= {
            "csrf": self._sessions.mark(session) if session else "",
            "allowed": allowed,
            "asks": self._sessions.asks,
            "unresolved": self._count(_UNRESOLVED) if allowed else 0,
            "yours": self._count(_TABS["yours"][1]) if allowed else 0,
            "path": request.url.path,
            "address": str(request.url.path) + (f"?{request.url.query}" if request.url.query else ""),
            "next": _own_path(request.query_params.get("next", "")),
        }
        response.body = self._templates.get_template(template).render(values).encode()
        response.headers["content-length"] = str(len(response.body))
        return response

    def _count(self, statuses: tuple[IncidentStatus, ...]) -> int:
        counts = self._store.counts().incidents
        return sum(counts.get(status.value, 0) for status in statuses)


def _wishes(server: ServerView) -> tuple[ServerWish, ...]:
    """What a person may want of a server now; nothing where this service does not act for it."""
    if server.supervisor is None or server.supervisor.pid != os.getpid():
        return ()
    return (ServerWish.RESTART, ServerWish.STOP) if server.process is not None else (ServerWish.START,)


async def _fields(request: Request) -> Mapping[str, str]:
    """The fields of a small urlencoded form, the last of each name."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise _RefusedError(415, "That is no form", "This address takes the dashboard's own forms only.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _FORM_LIMIT:
            raise _RefusedError(413, "That form is too large", "Nothing was changed.")
    fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=20)
    return {name: values[-1] for name, values in fields.items()}


def _number(text: str | None) -> int | None:
    """A number of ours, which fits the database; None for anything else."""
    good = text is not None and text.isascii() and text.isdecimal() and len(text) <= 18
    return int(text) if good and text is not None else None


def _own_path(path: str) -> str:
    """Where to go on after the login: a page of ours, never another site."""
    return path if path.startswith("/ui/") and "\\" not in path and "//" not in path else "/ui/incidents"


def _not_found(error: CrashcartError) -> _RefusedError:
    return _RefusedError(404, "Not found", str(error))
