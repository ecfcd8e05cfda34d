"""One supervised server inside `serve`: kept running as `run` would keep it, and steered by wishes in the store."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace

import structlog

from app.core.command import Command
from app.core.errors import CrashcartError, LaunchError, StoreError
from app.core.vocabulary import Engine, Safety
from app.service.config import ServerConfig
from app.service.following import Stop, Timings
from app.service.intake import store_not_started
from app.service.logterminal import LogTerminal
from app.service.options import RunOptions, RunResult
from app.service.recovery import command_of, members_of
from app.service.rulebook import Rulebook
from app.service.runner import Runner
from app.store.store import Store
from app.store.wishes import ServerWish
from app.store.words import Decision

_POLL = 0.25  # seconds between looks for wishes
_LOCK_AGAIN = 3.0  # seconds until it is tried again to act for a server that another Crashcart acts for
_FOREVER = float("inf")


class Supervisor:
    """Looks after one server until it is told to leave; the server itself goes on then."""

    def __init__(
        self, name: str, server: ServerConfig, store: Store, rulebook: Rulebook, timings: Timings | None = None
    ) -> None:
        self.name = name
        self.server = server
        self._store = store
        self._rulebook = rulebook
        self._timings = timings or Timings()
        self._log = structlog.get_logger("crashcart.server").bind(server=name)
        self._leaving = asyncio.Event()
        self._runner: Runner | None = None
        self._wanted = server.start
        self._after = 0  # the newest wish that is not ours to carry out

    async def run(self) -> None:
        """Runs until `leave`."""
        with ExitStack() as held:
            if not await self._locked(held):
                return
            self._after = self._store.newest_transition()
            if self._store.last_wish(self.name) is ServerWish.STOP:
                self._wanted = False
            if self._proposal_waits() and not self._lives():
                self._log.info("a proposed fix waits for a person: it is not started before that is decided")
                self._wanted = False
            self._wanted = self._wanted or self._lives()
            if not self._wanted:
                self._store.not_wanted(self.name)
            while not self._leaving.is_set():
                if self._wanted:
                    self._wanted = False
                    await self._look_after()
                else:
                    await self._idle()

    def leave(self) -> None:
        """Ends the looking after. The server goes on."""
        self._leaving.set()
        if self._runner is not None:
            self._runner.stop.leave()

    def update(self, server: ServerConfig) -> None:
        """A changed configuration. What belongs to the process itself counts from its next start."""
        if (server.command, server.env, server.cwd) != (self.server.command, self.server.env, self.server.cwd):
            self._log.info("its command changed: that counts from its next start")
        self.server = server
        if self._runner is not None:
            options = replace(
                self._runner.options,
                mode=server.mode,
                allow=Safety(server.allow),
                max_relaunches=server.max_relaunches,
                hands_off=server.hands_off,
                hooks=server.hooks.hooks,
            )
            self._runner.options = self._runner.actor.options = options
            self.use_rules()

    def use_rules(self) -> None:
        """New rules count from the next launch on: the one under way keeps what it has read."""
        if self._runner is not None:
            self._runner.pipeline = self._rulebook.pipeline
            self._runner.checker = self._runner.actor.checker = self._rulebook.checker

    # -- acting for it

    async def _locked(self, held: ExitStack) -> bool:
        """Takes the server's lock; waits while another Crashcart has it."""
        told = False
        launch = self._launch()
        while not self._leaving.is_set():
            try:
                held.enter_context(
                    self._store.lock_server(
                        self.name, engine=self._engine(launch), mode=self.server.mode, command=launch.words()
                    )
                )
            except StoreError as error:
                if not told:
                    self._log.warning(f"{error} It is taken over when that one ends.")
                told = True
                await self._pause(_LOCK_AGAIN)
            else:
                return True
        return False

    async def _look_after(self) -> None:
        """One run: from a start, or a server found living, to its end."""
        options = self._options()
        self._runner = runner = Runner(
            options,
            self._store,
            self._rulebook.pipeline,
            LogTerminal(self.name),
            checker=self._rulebook.checker,
            timings=self._timings.of(self.server.settle, self.server.hang_restart),
        )
        running = asyncio.ensure_future(self._started(runner))
        try:
            while not (await asyncio.wait({running}, timeout=_POLL))[0]:
                self._heed(runner.stop)
            result = running.result()
            self._log.info(f"not running: {result.state}", exit=result.exit_code, incident=result.incident)
        except (CrashcartError, OSError) as error:
            self._log.error(f"not started: {error}", mend=getattr(error, "mend", None))
            if isinstance(error, LaunchError):
                store_not_started(self._store, self.name, options.command, self._engine(options.command), error)
        finally:
            self._runner = None
            if not running.done():
                runner.stop.leave()
                await asyncio.gather(running, return_exceptions=True)

    @staticmethod
    async def _started(runner: Runner) -> RunResult:
        runner.find_program()
        return await runner.look_after()

    def _heed(self, stop: Stop) -> None:
        wish = self._store.claim_wish(self.name, self._after)
        if wish is None:
            return
        view = self._store.get_server(self.name)
        if wish.wish is ServerWish.START and view is not None and view.process is not None:
            self._log.info("it runs already")
            return
        self._take(wish.wish)
        self._log.info(f"a person wishes: {wish.wish}")
        stop.ask()

    def _take(self, wish: ServerWish) -> None:
        if wish is ServerWish.RESTORE:
            self._store.give_back(self.name, "a person")
        self._wanted = wish is not ServerWish.STOP

    async def _idle(self) -> None:
        """Nothing runs: waits for a wish, or for a person's yes to a proposal."""
        wish = self._store.claim_wish(self.name, self._after)
        if wish is not None:
            self._take(wish.wish)
        elif (view := self._store.get_server(self.name)) is not None and view.decision is Decision.PENDING:
            self._wanted = True
        if not self._wanted:
            await self._pause(_POLL)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._leaving.wait(), seconds)
        except TimeoutError:
            return

    # -- what is started

    def _options(self) -> RunOptions:
        server = self.server
        launch = self._launch()
        return RunOptions(
            name=self.name,
            command=launch,
            engine=server.engine,
            mode=server.mode,
            allow=Safety(server.allow),
            health=server.health_url,
            preflight=server.preflight,
            max_relaunches=server.max_relaunches,
            canary=server.canary.canary if server.canary is not None else None,
            hands_off=server.hands_off,
            hooks=server.hooks.hooks,
            wait_decision=_FOREVER,
            cwd=server.cwd,
            adopt=True,
            pass_output=False,
        )

    def _launch(self) -> Command:
        """The configured command, with those fixes that made it work the last time."""
        given = self.server.launch or Command.parse(())
        view = self._store.get_server(self.name)
        if view is None or view.last_good_command is None:
            return given
        attempts = self._store.attempts(server=self.name)
        return command_of(given, view.last_good_command, attempts) or given

    def _engine(self, launch: Command) -> Engine:
        return self.server.engine or launch.engine or Engine.OTHER

    def _proposal_waits(self) -> bool:
        view = self._store.get_server(self.name)
        return view is not None and view.decision is Decision.PROPOSAL

    def _lives(self) -> bool:
        launches = self._store.launches(self.name, limit=1)
        return bool(launches) and launches[0].ended_at is None and bool(members_of(self._store, launches[0]))
