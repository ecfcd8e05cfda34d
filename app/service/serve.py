"""`serve`: wires store, supervision, following, alerts, retention and the web together, and takes up changes.

The loops meet only in the store. Each is a task of its own here: one that fails is told and begun again, and holds
up no other. Servers outlive the service, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import structlog
import uvicorn
from watchfiles import awatch

from app import __version__
from app.core.errors import ConfigError, CrashcartError, UsageError
from app.core.resources import rules_folder
from app.service.alerting import Alerting
from app.service.config import Config, Listen, ServerConfig
from app.service.configfile import load_config
from app.service.followed import watched_servers
from app.service.following import Timings
from app.service.heartbeat import beat
from app.service.intake_files import FileIntake
from app.service.metrics import Metrics
from app.service.others import Others
from app.service.ownlog import Seldom
from app.service.retention import kept_in_bounds
from app.service.retriage import retriage
from app.service.rulebook import Rulebook
from app.service.supervising import Supervisor
from app.store.locks import locked
from app.store.store import Store

AsgiApp = Callable[..., Awaitable[None]]
Loop = Callable[[], Awaitable[None]]

_GRACE = 3  # seconds that requests under way get at the end
_END = 15.0  # seconds that the loops get to end in order
_IN_ORDER = ("following", "alerts")
_AGAIN = 5.0  # seconds until a loop that failed begins again
_CHANGE_STEP = 50  # ms: an editor writes a file in several steps
_BACKLOG = 2048


class Override(NamedTuple):
    """Where the command line says to listen; it holds over reloads too."""

    host: str | None = None
    port: int | None = None


class Service:
    """The running service: what the web and each loop need to know of it."""

    def __init__(
        self,
        config: Config,
        path: Path | None,
        store: Store,
        *,
        timings: Timings | None = None,
        override: Override | None = None,
    ) -> None:
        self.config = config
        self.path = path
        self._override = override or Override()
        self.store = store
        self.timings = timings or Timings(log_limit=config.retention.server_log)
        self.rulebook = Rulebook(store.state, config.rules)
        self.started_at = datetime.now(UTC)
        self.ready = False
        self.metrics = Metrics(self)
        self.supervisors: dict[str, Supervisor] = {}
        self.intake: FileIntake | None = None
        self.alerting = Alerting(store, lambda: self.config)
        self.others = Others(store, lambda: self.config, lambda: self.rulebook.pipeline)
        self._log = structlog.get_logger("crashcart")
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failed: set[str] = set()  # loops that wait to begin again
        self._stopping = asyncio.Event()
        self._newer_rules = asyncio.Event()
        self._newer_rules.set()
        self._reloading = asyncio.Lock()

    @property
    def failing(self) -> tuple[str, ...]:
        """The loops that do not run at this moment."""
        ended = {name for name, task in self._tasks.items() if task.done()}
        storing = {"storing"} if self.intake is not None and self.intake.unstored else set()
        return tuple(sorted(self._failed | ended | storing))

    async def run(self, make_app: Callable[[Service], AsgiApp]) -> int:
        """Serves until SIGINT or SIGTERM. UsageError when the address is taken, StoreError when another serves."""
        with (
            locked(self.store.folder("locks") / "service", "the service of this state folder"),
            _bound(self.config.listen) as listening,
            self._signals(),
        ):
            server = _Server(
                uvicorn.Config(
                    make_app(self),
                    http="httptools",
                    log_config=None,
                    access_log=False,
                    server_header=False,
                    date_header=True,
                    timeout_graceful_shutdown=_GRACE,
                    proxy_headers=False,
                )
            )
            self._begin()
            web = asyncio.ensure_future(server.serve(sockets=[listening]))
            try:
                self._greet(listening)
                stopping = asyncio.ensure_future(self._stopping.wait())
                await asyncio.wait({web, stopping}, return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
            finally:
                await self._end(server, web)
        return 0

    def stop(self) -> None:
        """Asks for the end of the service; the servers go on."""
        self._log.info("stopping; servers go on")
        self._stopping.set()

    # -- changes

    async def reload(self) -> bool:
        """Takes up configuration and rules anew; False when the file is wrong: then all stays as it was."""
        async with self._reloading:
            try:
                if self.path is not None and self.path.stat().st_size == 0:
                    # What an editor or `>` leaves for a moment.
                    raise ConfigError(f"{self.path} is empty.", mend="Write at least `servers: {}` to mean that.")
                config = load_config(self.path, host=self._override.host, port=self._override.port)
                await asyncio.to_thread(self.rulebook.load, config.rules)
            except OSError as error:
                self._log.error(f"not reloaded: {self.path} can't be read: {error.strerror}")
                return False
            except CrashcartError as error:
                self._log.error(f"not reloaded: {error}", mend=error.mend)
                return False
            fixed = ("listen", "token", "state", "log_format", "log_level")
            kept = {key: getattr(self.config, key) for key in fixed}
            if waiting := [key for key in fixed if getattr(config, key) != kept[key]]:
                self._log.warning("these keys count from the next start only", keys=waiting)
            self.config = config.model_copy(update=kept)
            self._match_supervisors()
            for supervisor in self.supervisors.values():
                supervisor.use_rules()
            if self.intake is not None:
                watched = watched_servers(config.watched)
                self.intake.change(watched, pipeline=self.rulebook.pipeline, roots=config.log_roots)
            self.alerting.change()
            self._tell_rules()
            self._newer_rules.set()
            self._log.info("reloaded", servers=list(self.config.servers))
            return True

    async def _watch_changes(self) -> None:
        """Reloads when the configuration or a rule changes."""
        while True:
            other_folders = asyncio.Event()
            rules = [folder for folder in (*self.config.rules, rules_folder()) if folder.is_dir()]
            async with asyncio.TaskGroup() as group:
                group.create_task(self._reload_on(rules, other_folders, deep=True))
                if self.path is not None:
                    group.create_task(self._reload_on([self.path.absolute().parent], other_folders, deep=False))

    async def _reload_on(self, folders: list[Path], other_folders: asyncio.Event, *, deep: bool) -> None:
        async for changes in awatch(
            *folders,
            step=_CHANGE_STEP,
            debounce=_CHANGE_STEP * 4,
            recursive=deep,
            watch_filter=self._concerns,
            stop_event=other_folders,
            ignore_permission_denied=True,
        ):
            self._log.info("changed", files=sorted({path for _, path in changes}))
            before = self.config.rules
            await self.reload()
            if self.config.rules != before:
                other_folders.set()

    def _concerns(self, _change: object, path: str) -> bool:
        changed = Path(path)
        if self.path is not None and changed == self.path.absolute():
            return True
        roots = [folder.absolute() for folder in (*self.config.rules, rules_folder())]
        return changed.suffix in (".yaml", ".yml") and any(changed.is_relative_to(root) for root in roots)

    # -- loops

    def _begin(self) -> None:
        self._match_supervisors()
        loops: dict[str, Loop] = {
            "changes": self._watch_changes,
            "following": self._follow,
            "alerts": self.alerting.run,
            "retention": self._keep_in_bounds,
            "processes": self.others.run,
            "retriage": self._diagnose_again,
            "heartbeat": self._beat,
        }
        for name, loop in loops.items():
            self._tasks[name] = asyncio.ensure_future(self._kept_up(name, loop))

    async def _diagnose_again(self) -> None:
        """At the start and after each reload: the rules may be newer than what is stored."""
        while True:
            await self._newer_rules.wait()
            self._newer_rules.clear()
            for one in await asyncio.to_thread(retriage, self.store, self.rulebook.pipeline):
                self._log.info("diagnosed again", incident=one.incident_id, before=one.before, after=one.after)

    async def _beat(self) -> None:
        await beat(lambda: self.config.heartbeat, lambda: self.ready and not self.failing, Seldom(self._log.warning))

    async def _keep_in_bounds(self) -> None:
        await kept_in_bounds(self.store, lambda: self.config)

    def _is_ready(self) -> None:
        self.ready = True

    async def _follow(self) -> None:
        """Follows the logs of servers that others start."""
        self.intake = FileIntake(
            self.store,
            self.rulebook.pipeline,
            watched_servers(self.config.watched),
            roots=self.config.log_roots,
            following=self._is_ready,
            trouble=Seldom(self._log.warning),
        )
        await self.intake.run(self._stopping)

    def _match_supervisors(self) -> None:
        """Supervises what the configuration says now, and leaves alone what it does not name any more."""
        wanted = self.config.supervised
        for name in self.supervisors.keys() - wanted.keys():
            self._log.info("no longer supervised; it goes on", server=name)
            self.supervisors.pop(name).leave()
        for name, server in wanted.items():
            if name in self.supervisors:
                self.supervisors[name].update(server)
            else:
                self._supervise(name, server)

    def _supervise(self, name: str, server: ServerConfig) -> None:
        supervisor = Supervisor(name, server, self.store, self.rulebook, self.timings)
        self.supervisors[name] = supervisor
        self._tasks[f"server {name}"] = asyncio.ensure_future(self._kept_up(f"server {name}", supervisor.run))

    async def _kept_up(self, name: str, loop: Loop) -> None:
        """Runs a loop, and begins it again when it failed: no fault of one may end the service."""
        while True:
            try:
                await loop()
            except Exception:  # noqa: BLE001 - the edge: told with its trace, and begun again
                self._log.exception(f"{name}: it failed and begins again in {_AGAIN:g} s")
                self._failed.add(name)
                await asyncio.sleep(_AGAIN)
                self._failed.discard(name)
            else:
                return

    async def _end(self, server: uvicorn.Server, web: asyncio.Task[None]) -> None:
        self.ready = False
        self._stopping.set()
        server.should_exit = True
        self.alerting.stop()
        for supervisor in self.supervisors.values():
            supervisor.leave()
        # Who reads, posts or supervises ends in order, and stores what it knows; who only waits is cancelled.
        in_order = [task for name, task in self._tasks.items() if name in _IN_ORDER or name.startswith("server ")]
        for task in self._tasks.values():
            if task not in in_order:
                task.cancel()
        await asyncio.wait([web, *self._tasks.values()], timeout=_END)
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(web, *self._tasks.values(), return_exceptions=True)
        self._log.info("stopped")

    # -- signals and words

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        reloads: set[asyncio.Task[bool]] = set()

        def reload() -> None:
            task = asyncio.ensure_future(self.reload())
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        wanted = {signal.SIGINT: self.stop, signal.SIGTERM: self.stop, signal.SIGHUP: reload}
        for number, handler in wanted.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in wanted:
                loop.remove_signal_handler(number)

    def _greet(self, listening: socket.socket) -> None:
        """The first lines say what a person needs."""
        listen = Listen(self.config.listen.host, listening.getsockname()[1])
        self._log.info(f"Crashcart {__version__}", config=str(self.path or "none"), state=str(self.store.state))
        for name, server in self.config.servers.items():
            what = f"supervised, mode {server.mode}" if server.command else f"watched, {len(server.watch)} patterns"
            self._log.info(f"{name}: {what}")
        self._tell_rules()
        self._log.info(f"pages and API at {listen.url}", url=listen.url)

    def _tell_rules(self) -> None:
        rules = self.rulebook.rules
        self._log.info(f"{len(rules.rules)} rules", skipped=len(rules.problems))
        for problem in rules.problems:
            self._log.warning(f"rule skipped: {problem}", mend=problem.mend)


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: the service has them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _bound(listen: Listen) -> Iterator[socket.socket]:
    """The listening socket; bound before anything begins, so that a taken port costs nothing."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"{listen.host} is no address of this machine: {error}.", mend="Change `listen`.") from error
    with bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(address)
            bound.listen(_BACKLOG)
        except OSError as error:
            raise UsageError(
                f"{listen.host}:{listen.port} can't be listened on: {error.strerror}.",
                mend="End the program that has it, or choose another --port."
                if error.errno == errno.EADDRINUSE
                else "Choose an address of this machine, and a port that this user may open.",
            ) from error
        bound.setblocking(False)
        yield bound
