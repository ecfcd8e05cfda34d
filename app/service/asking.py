"""Answers to people and agents who ask about a server: what it does now, and waiting until it is ready or down.

The store says what was last seen; these answers also look whether the processes behind it still exist.
"""

from __future__ import annotations

import time
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from app.core.errors import NotFoundError
from app.core.model import Diagnosis
from app.core.vocabulary import ServerState
from app.store.processes import alive
from app.store.rows import DOWN
from app.store.store import Store
from app.store.texts import described_end, reached
from app.store.views import LaunchView, ProposalView, ServerView

POLL = 0.1
# How long an unknown name, or a server that died before anyone asked, may still turn out to be being started.
GRACE = 2.0
_OLD_NEWS = timedelta(seconds=5)
_HEALTH_WAIT = 2.0


class Until(StrEnum):
    """What can be waited for."""

    READY = "ready"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Truth:
    """What a server does now. `evidence` says how that is known; `supervised` whether a Crashcart acts for it."""

    state: ServerState
    evidence: str
    pid: int | None
    supervised: bool

    @property
    def down(self) -> bool:
        return self.state in DOWN


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of a wait. `exit_code`: 0 reached, 1 it won't be reached by itself, 4 the time is up."""

    server: ServerView
    state: ServerState
    exit_code: int
    text: str
    launch: LaunchView | None = None
    proposal: ProposalView | None = None
    incident_id: int | None = None

    @property
    def reached(self) -> bool:
        return self.exit_code == 0

    @property
    def diagnosis(self) -> Diagnosis | None:
        return self.launch.diagnosis if self.launch else None


def look(server: ServerView) -> Truth:
    """Holds what is stored about a server against the processes that exist."""
    supervised = alive(server.supervisor)
    if supervised or server.state in DOWN:
        return Truth(server.state, server.evidence, server.pid, supervised)
    if _of_others(server):
        return _look_at_watched(server)
    seen = reached_of(server)
    watcher = f"the Crashcart (pid {server.supervisor.pid})" if server.supervisor else "the Crashcart"
    if server.process is not None and alive(server.process):
        text = f"process {server.process.pid} runs, but {watcher} that supervised it is gone; last seen: {seen}"
        return Truth(server.state, text, server.process.pid, supervised=False)
    process = f"process {server.process.pid}" if server.process else "its process"
    text = f"gone: neither {process} nor {watcher} that supervised it runs any more; last seen: {seen}"
    return Truth(ServerState.EXITED, text, None, supervised=False)


def _of_others(server: ServerView) -> bool:
    """Whether others start this server, and its log tells of it."""
    return server.supervisor is None and (server.watched or server.launch_id is None)


def _look_at_watched(server: ServerView) -> Truth:
    """Its log tells of it, and its process where that was found. What was never known is not missed."""
    if server.process is None or alive(server.process):
        return Truth(server.state, server.evidence, server.pid, supervised=False)
    text = f"gone: process {server.process.pid} does not run any more; last seen: {reached_of(server)}"
    return Truth(ServerState.EXITED, text, None, supervised=False)


def reached_of(server: ServerView) -> str:
    """The stored state with its percentage: "loading 67 %"."""
    progress = server.progress
    if progress is not None and progress.phase.value == server.state.value:
        return reached(progress.phase, progress.percent)
    return str(server.state)


def wait(
    store: Store,
    name: str,
    until: Until = Until.READY,
    timeout: float | None = None,
    *,
    poll: float = POLL,
    grace: float = GRACE,
) -> Answer:
    """Waits until a server is ready, or down; returns at once when neither will come about by itself.

    NotFoundError when the server stays unknown for the grace time.
    """
    looks = Looks(store, name, until, timeout, poll=poll, grace=grace)
    while (answer := looks.look()) is None:
        time.sleep(looks.pause)
    return answer


class Looks:
    """One wait as single looks, for those who may not sleep: call `look`, then let `pause` seconds pass."""

    def __init__(
        self,
        store: Store,
        name: str,
        until: Until = Until.READY,
        timeout: float | None = None,
        *,
        poll: float = POLL,
        grace: float = GRACE,
    ) -> None:
        self._store, self._name = store, name
        self._timeout, self._poll, self._grace = timeout, poll, grace
        self._watch = _Watch(store, until, began=datetime.now(UTC), grace=grace)
        self._begin = time.monotonic()

    @property
    def pause(self) -> float:
        """How long to wait until the next look."""
        if self._timeout is None:
            return self._poll
        return max(0.0, min(self._poll, self._timeout - (time.monotonic() - self._begin)))

    def look(self) -> Answer | None:
        """The answer, if there is one by now or the time is up."""
        spent = time.monotonic() - self._begin
        late = self._timeout is not None and spent >= self._timeout
        server = self._store.get_server(self._name)
        if server is None:
            if late or spent >= self._grace:
                raise unknown(self._store, self._name)
            return None
        answer = self._watch.answer(server, spent)
        return self._watch.late(server, spent) if answer is None and late else answer


def unknown(store: Store, name: str) -> NotFoundError:
    """The error for a name that no server has."""
    known = ", ".join(server.name for server in store.list_servers())
    mend = f"Known servers: {known}." if known else "No server was ever run with this state folder."
    return NotFoundError(f"There is no server {name!r}.", mend=mend)


@dataclass
class _Watch:
    """One wait, and which launch it began with."""

    store: Store
    until: Until
    began: datetime
    grace: float
    first_launch: int | None = None

    def answer(self, server: ServerView, spent: float) -> Answer | None:
        """The answer, if there is one by now."""
        self.first_launch = self.first_launch or server.launch_id
        truth = look(server)
        if self.until is Until.DOWN:
            return self._if_down(server, truth)
        if truth.down:
            return None if self._may_come_back(server, truth, spent) else self._dead(1, server, truth)
        if truth.state is ServerState.READY and (truth.supervised or _of_others(server)):
            return self._tell(0, server, truth.state, f"ready: {truth.evidence}")
        if truth.supervised or (_of_others(server) and server.health_url is None):
            return None
        return self._left_alone(server, truth)

    def late(self, server: ServerView, spent: float) -> Answer:
        """The time is up: says what there is instead."""
        truth = look(server)
        text = f"not {self.until} within {spent:.0f} s: {told(server, truth)}"
        return self._tell(4, server, truth.state, text, server.launch_id if truth.down else None)

    def _if_down(self, server: ServerView, truth: Truth) -> Answer | None:
        if truth.down:
            return self._dead(0, server, truth)
        if server.launch_id == self.first_launch:
            return None
        # It went down and is being launched again, all between two looks.
        return self._tell(0, server, truth.state, self._end(self.first_launch, truth), self.first_launch)

    def _left_alone(self, server: ServerView, truth: Truth) -> Answer | None:
        """A server that outlived its Crashcart: only the server itself can still say that it is ready."""
        url = server.health_url
        if url is not None and healthy(url):
            return self._tell(0, server, ServerState.READY, f"ready: {url} answers; {truth.evidence}")
        return None if _of_others(server) else self._tell(1, server, truth.state, truth.evidence)

    def _may_come_back(self, server: ServerView, truth: Truth, spent: float) -> bool:
        """Whether a server that is down is about to be started, by whoever acts for it or by a run just begun."""
        if truth.supervised:
            since = server.supervisor_since
            return not server.decision.final or (since is not None and since > server.since)
        return spent < self.grace and server.since < self.began - _OLD_NEWS

    def _dead(self, exit_code: int, server: ServerView, truth: Truth) -> Answer:
        return self._tell(exit_code, server, truth.state, self._end(server.launch_id, truth), server.launch_id)

    def _end(self, launch_id: int | None, truth: Truth) -> str:
        launch = self.store.launch(launch_id) if launch_id is not None else None
        if launch is None or launch.ended_at is None:
            return truth.evidence
        end = described_end(launch.exit, launch.phase, launch.percent) if launch.ran else truth.evidence
        return f"{end}; {truth.evidence}" if truth.state is ServerState.GAVE_UP and launch.ran else end

    def _tell(
        self, exit_code: int, server: ServerView, state: ServerState, text: str, launch_id: int | None = None
    ) -> Answer:
        launch = self.store.launch(launch_id) if launch_id is not None else None
        incident_id = launch.incident_id if launch else None
        proposal = self.store.incident(incident_id).proposal if incident_id is not None else None
        return Answer(server, state, exit_code, text, launch, proposal, incident_id)


def told(server: ServerView, truth: Truth) -> str:
    """The truth in one line: "loading 67 % (Loading safetensors …)"."""
    if not truth.supervised or truth.down:
        return f"{truth.state}, {truth.evidence}" if truth.down else truth.evidence
    return f"{reached_of(server)} ({truth.evidence})"


def healthy(url: str) -> bool:
    """Whether a health endpoint answers with success. The environment's proxies are for elsewhere."""
    if not url.startswith(("http://", "https://")):
        return False
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_HEALTH_WAIT) as response:
            return 200 <= int(response.status) < 300
    except (OSError, ValueError):
        return False
