"""`run`: one server, launched, followed, and after a death brought back within the rules.

Intake (this loop, up to the stored death) and acting (`app.service.acting`) meet only in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from app.core.command import Command
from app.core.errors import LaunchError, StoreError
from app.core.model import Exit, Progress
from app.core.vocabulary import Category, Engine, Mode, Phase, ServerState
from app.diagnosis.pipeline import Pipeline, Session
from app.service.acting import Actor, Next
from app.service.following import Ended, Follower, Reports, Stop, Timings
from app.service.intake import (
    Death,
    Kept,
    keep_evidence,
    kept_of,
    mark_of,
    note_start,
    store_death,
    with_hang,
)
from app.service.options import RunOptions, RunResult, Terminal
from app.service.policy import Limits
from app.service.preflight import Preflight
from app.service.recovery import command_of, recover
from app.store.store import Store
from app.store.views import LaunchView
from app.store.words import AttemptOutcome
from app.supervise import guards
from app.supervise.health import Health
from app.supervise.hooks import run_hook
from app.supervise.kernellog import kernel_records, monotonic_of
from app.supervise.memorykill import Before, memory_facts
from app.supervise.ports import Holder, port_holder
from app.supervise.process import Adopted, Child, exists_program
from app.supervise.surroundings import Subject, look_around
from app.supervise.tail import PassThrough, Tail


@dataclass
class Launch:
    """A launch under way."""

    id: int
    command: Command
    child: Child
    follower: Follower
    kept: Kept
    memory: Before
    attempt_id: int | None = None
    began: float = field(default_factory=time.time)

    @property
    def subject(self) -> Subject:
        return Subject(self.command, self.kept.log.parent, self.began, self.memory.group)

    def facts(self) -> dict[str, object]:
        """What the kernel knows of its end."""
        records = kernel_records(monotonic_of(self.began)) or []
        return memory_facts(self.memory, self.child.group.everyone(), records)


class Runner:
    """Runs one server until a person stops it or nothing more may be done."""

    def __init__(
        self,
        options: RunOptions,
        store: Store,
        pipeline: Pipeline,
        terminal: Terminal,
        *,
        checker: Pipeline | None = None,
        timings: Timings | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`pipeline` must answer at once; `checker` is for pre-flight, and may run an engine's `--help` for seconds."""
        self.log = options.log or store.server_folder(options.name) / "log"
        self.options = replace(options, log=self.log)
        self.store = store
        self.terminal = terminal
        self.pipeline = pipeline
        self.timings = timings or Timings()
        self.stop = Stop()
        # Without pre-flight nothing is asked that takes seconds.
        self.checker = (checker if options.preflight else None) or pipeline
        self.actor = Actor(self.options, store, self.checker, terminal, self.stop, limits or Limits())
        self.actor.port_wait = self.timings.port_wait
        self.engine = options.engine or options.command.engine or Engine.OTHER
        self.command = options.command
        self.incident: int | None = None
        self.launches = 0
        self._store_failed = False
        self._current: Launch | None = None
        self._after_ready: asyncio.Future[None] | None = None  # kept: a task that nobody holds may vanish
        self._hang: int | None = None  # the incident of a hang that lasts

    async def run(self) -> RunResult:
        """Runs to the end. LaunchError when the server can't be started at all."""
        options = self.options
        self.find_program()
        words = options.command.words()
        with (
            self.store.lock_server(options.name, engine=self.engine, mode=options.mode, command=words),
            self._signals(),
        ):
            result = await self.look_after()
        self._last_words()
        return result

    def find_program(self) -> None:
        """LaunchError when there is nothing to start."""
        if not exists_program(self.options.command):
            raise LaunchError(
                f"The program {self.options.command.argv[0]!r} was not found.",
                category=Category.MISSING_DEPENDENCY,
                mend="Give its whole path, or activate the environment that it is installed in.",
            )

    async def look_after(self) -> RunResult:
        """The same for who holds the server's lock already and cares for signals."""
        options = self.options
        words = options.command.words()
        living = recover(options, self.store, self.pipeline, self.terminal)
        exit_code = await self._launch_and_relaunch(living)
        view = self.store.get_server(options.name)
        return RunResult(
            server=options.name,
            exit_code=exit_code,
            state=view.state if view else ServerState.EXITED,
            incident=self.incident,
            launches=self.launches,
            command=(self.actor.suggestion or self.command).words(),
            changed=(self.actor.suggestion or self.command).words() != words,
        )

    async def _launch_and_relaunch(self, living: LaunchView | None) -> int:
        if living is not None:
            return await self._until_given_up(self._adopt(living))
        next_launch = await self.actor.take_up(self.command)
        if next_launch is None and self.options.preflight:
            check = Preflight(self.options, self.store, self.checker, self.actor)
            go, next_launch = await check.passed(self.command, self.engine)
            self.incident = check.incident or self.incident
            if not go:
                return 130 if self.stop.asked.is_set() else 1
        self.command = next_launch.command if next_launch else self.command
        await self._ground_clear()
        return await self._until_given_up(await self._start(self.command, next_launch))

    async def _until_given_up(self, launch: Launch) -> int:
        while True:
            ended = await self._followed(launch)
            if ended.how == "asked":
                return await (self._left(launch) if self.stop.leaving else self._stopped(launch))
            death = await self._died(launch, ended)
            next_launch = await self.actor.act(death)
            if next_launch is None:
                return death.exit.shell_code or 1
            self.command = next_launch.command
            try:
                launch = await self._start(self.command, next_launch)
            except LaunchError as error:
                self.store.needs_human(death.incident_id, f"it could not be started again: {error}")
                raise

    # -- before the first start

    async def _ground_clear(self) -> None:
        """The guards of the first launch. A port that is taken would cost a whole model load to find out."""
        room = guards.disk_room(self.store.state)
        if not room.ok:
            raise LaunchError(
                f"There is {room.text}.",
                category=Category.DISK_FULL,
                mend="Free some space, or choose a folder with --state DIR.",
            )
        if not self.options.preflight or self.options.mode is Mode.OFF:
            return
        free = await guards.port_free(self.command.port, self.command.host, self.timings.port_wait)
        if not free.ok:
            raise LaunchError(
                f"The server can't have its port: {free.text}.",
                category=Category.PORT_IN_USE,
                mend="End that process, or choose another --port. --no-preflight starts it all the same.",
            )

    # -- one launch

    async def _start(self, command: Command, chosen: Next | None) -> Launch:
        log = self.log
        attempt = chosen.attempt_id if chosen else None
        stranger = port_holder(command.port, command.host) if command.port else None
        session = self.pipeline.session(engine=self.options.engine, command=command)
        launch_id = self.store.begin_launch(
            self.options.name,
            command.words(),
            self.engine,
            self.options.mode,
            attempt_id=attempt,
            log_path=log,
            health_url=self.options.health,
        )
        try:
            kept = Kept(log, log.stat().st_size if log.exists() else 0)
            note_start(self.store, self.options.name, launch_id, kept)
            child = Child.start(command, log=log, mark=mark_of(self.store, launch_id), cwd=self.options.cwd)
        except (OSError, LaunchError) as error:
            self._could_not_start(launch_id, attempt, str(error))
            if isinstance(error, LaunchError):
                raise
            raise LaunchError(f"The log {log} can't be written: {error}.", mend="Choose another with --log.") from error
        self.store.launch_started(launch_id, child.pid, child.pid, log)
        self.launches += 1
        self.actor.group = child.group
        follower = self._follower(launch_id, command, child, session, kept, stranger)
        return Launch(launch_id, command, child, follower, kept, Before.of(child.pid), attempt)

    def _adopt(self, left: LaunchView) -> Launch:
        """Takes over a server that an earlier Crashcart started: its log is read again from where it began."""
        words = left.command
        known = command_of(self.options.command, words, self.store.attempts(server=self.options.name))
        self.command = known or Command.parse(words, engine=left.engine)
        kept = kept_of(self.store, left) or Kept(self.log, self.log.stat().st_size if self.log.exists() else 0)
        process = left.process
        child = Adopted(process.pid if process else 0, mark_of(self.store, left.id), left.started_at.timestamp())
        self.actor.group = child.group
        self.launches += 1
        session = self.pipeline.session(engine=self.options.engine, command=self.command)
        follower = self._follower(left.id, self.command, child, session, kept, None)
        if left.phase is Phase.READY:
            follower.was_ready = True
            child.group.call_roll()
        self.terminal.say(f"process {child.pid} still runs from before and is looked after again")
        began = left.started_at.timestamp()
        return Launch(left.id, self.command, child, follower, kept, Before.of(child.pid), left.attempt_id, began)

    async def _left(self, launch: Launch) -> int:
        """Crashcart ends and the server goes on: the next Crashcart takes it over."""
        launch.child.release()
        await self._close(launch)
        self.terminal.say(f"process {launch.child.pid} goes on; the next Crashcart looks after it again")
        return 0

    async def _followed(self, launch: Launch) -> Ended:
        self._current = launch
        try:
            return await launch.follower.until_ended()
        except BaseException:
            # A fault of ours must not take a server down that serves; but nobody may think that it is looked after.
            launch.child.release()
            self.terminal.say(f"process {launch.child.pid} goes on without supervision")
            raise

    def _could_not_start(self, launch_id: int, attempt: int | None, text: str) -> None:
        self.store.launch_ended(launch_id, Exit(), Phase.STARTING, asked=False, evidence=text)
        if attempt is not None:
            self.store.end_attempt(attempt, AttemptOutcome.FAILED, text)

    def _follower(
        self, launch_id: int, command: Command, child: Child, session: Session, kept: Kept, stranger: Holder | None
    ) -> Follower:
        health = Health(self.options.health, self.timings.answer_wait) if self.options.health else None
        return Follower(
            child=child,
            session=session,
            tail=Tail(kept.log, kept.start),
            reports=Reports(
                self._on_state,
                self._on_ready,
                lambda text: self._on_settled(launch_id, command, text),
                lambda text, idle: self._on_stuck(launch_id, session, text, idle),
                self._on_recovered,
            ),
            stop=self.stop,
            timings=self.timings,
            health=health,
            canary=self._canary(),
            canary_every=self.options.canary.every if self.options.canary else 0.0,
            passing=PassThrough(kept.log, kept.start, self.terminal.pass_on) if self.options.pass_output else None,
            stranger=stranger,
            may_end=self.options.mode is not Mode.OFF,
            may_restart=lambda: self._may_restart(command),
            start=kept.start,
        )

    def _may_restart(self, command: Command) -> bool:
        """Whether a server that hangs may be ended: only where mode, hours and budgets let it be started again."""
        if self.options.mode is not Mode.AUTO or self._hang is None:
            return False
        try:
            return self.actor.would_restart(self._hang, command)
        except StoreError:
            return False

    def _canary(self) -> Health | None:
        wanted = self.options.canary
        return None if wanted is None else Health(wanted.url, wanted.timeout, "canary", wanted.body)

    async def _close(self, launch: Launch) -> None:
        follower = launch.follower
        follower.session.close()
        if follower.health is not None:
            await follower.health.close()
        if follower.canary is not None:
            await follower.canary.close()
        if follower.passing is not None:
            await asyncio.to_thread(follower.passing.close)
        follower.tail.close()

    async def _hook(self, name: str, argv: tuple[str, ...], launch: Launch) -> None:
        """Runs a hook of the operator's; what became of it stands in the history."""
        if not argv:
            return
        port, pid = launch.command.port, launch.child.pid
        about = partial(run_hook, argv, self.options.hooks.timeout, server=self.options.name, port=port, pid=pid)
        hook = asyncio.ensure_future(asyncio.to_thread(about))
        hurry = asyncio.ensure_future(self.stop.hurry.wait())
        await asyncio.wait({hook, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        text = f"hook {name} {hook.result() if hook.done() else 'is not waited for: a person is in a hurry'}"
        self.terminal.say(text)
        with self._store_may_fail():
            self.store.add_transition(self.options.name, "hook", text, incident_id=self.incident)

    async def _stopped(self, launch: Launch) -> int:
        """A person's stop always wins: nothing is planned after it."""
        follower = launch.follower
        if not self.stop.hurry.is_set():
            await self._hook("before_stop", self.options.hooks.before_stop, launch)
        exit = await launch.child.end(self.timings.end_grace, hurry=self.stop.hurry)
        await follower.last_words()
        if launch.attempt_id is not None and not follower.settled and self.incident is not None:
            self.store.needs_human(
                self.incident, "a person stopped the server before it was known whether the fix held"
            )
        self.store.launch_ended(launch.id, exit, follower.phase, asked=True)
        await self._close(launch)
        self.terminal.say(f"stopped ({exit})")
        return 0 if follower.was_ready else exit.shell_code or 1

    async def _died(self, launch: Launch, ended: Ended) -> Death:
        """From an end that nobody asked for to the stored incident. Only then the rest is cleared away."""
        follower = launch.follower
        if ended.how == "doomed":
            self.terminal.say(f"hung: {ended.evidence}; its processes are ended")
            looking = asyncio.ensure_future(asyncio.to_thread(look_around, launch.subject))
            diagnosis = with_hang(follower.session.diagnose(Exit()), ended.evidence)
            await looking  # before its processes are gone
            await self._hook("before_stop", self.options.hooks.before_stop, launch)
            exit = await launch.child.end(self.timings.end_grace, hurry=self.stop.hurry)
        else:
            exit = await launch.child.wait()
            looking = asyncio.ensure_future(asyncio.to_thread(look_around, launch.subject))
            follower.session.close()
            facts = await asyncio.to_thread(launch.facts)
            diagnosis = follower.session.diagnose(exit, facts, expected_running=True)
        phase = follower.phase
        death = await self._stored(
            lambda: store_death(self.store, launch.id, launch.command, exit, phase, diagnosis, self.options.mode)
        )
        self.incident = death.incident_id
        kept = Kept(launch.kept.log, follower.start)
        end = follower.tail.offset
        await self._close(launch)
        self.terminal.say(f"{exit} while {phase}: incident {death.incident_id}")
        surroundings = await looking
        left = await launch.child.group.end(self.timings.leftover_grace, hurry=self.stop.hurry)
        if left:
            self.terminal.say(f"still alive: {', '.join(map(str, left))}")
        keep_evidence(self.store, death, kept, end, surroundings)
        self._tell_regression(death)
        return death

    async def _stored(self, write: Callable[[], Death]) -> Death:
        """A death that can't be written just now (the database is held, the disk is full) is written later: without it
        nothing may be done, and what nobody knows of is not brought back. A person's stop ends the waiting."""
        while True:
            try:
                return write()
            except StoreError as error:
                self.terminal.say(f"the death is not stored yet, and is tried again: {error}")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.stop.asked.wait(), self.timings.store_again)
                if self.stop.asked.is_set():
                    raise

    def _tell_regression(self, death: Death) -> None:
        incident = self.store.incident(death.incident_id)
        held = [attempt for attempt in incident.attempts if attempt.outcome is AttemptOutcome.HELD]
        if incident.regressed and held:
            text = f"regression: the fix of {held[-1].rule} had held, and the server died again"
            self.store.add_transition(self.options.name, "regressed", text, incident_id=incident.id)
            self.terminal.say(text)

    # -- what the follower reports

    def _on_state(self, state: ServerState, evidence: str, progress: Progress) -> None:
        with self._store_may_fail():
            self.store.set_state(self.options.name, state, evidence, progress)

    def _on_ready(self, evidence: str) -> None:
        self.terminal.say(f"ready: {evidence}")
        if self._current is not None:
            self._after_ready = asyncio.ensure_future(
                self._hook("after_ready", self.options.hooks.after_ready, self._current)
            )
        with self._store_may_fail():
            open_incident = self.store.unresolved_incident(self.options.name)
            if open_incident is not None:
                self.incident = open_incident.id
                self.store.verifying(
                    open_incident.id, f"ready: {evidence}; it must stay so for {self.timings.settle:g} s"
                )

    def _on_settled(self, launch_id: int, command: Command, evidence: str) -> None:
        text = f"ready and stayed so for {self.timings.settle:g} s: {evidence}"
        with self._store_may_fail():
            resolved = self.store.settled(launch_id, text)
            if resolved is not None:
                self.terminal.say(f"incident {resolved} is resolved: {text}")
                if command.words() != self.options.command.words():
                    self.terminal.show_command("The command that works", command)

    def _on_stuck(self, launch_id: int, session: Session, evidence: str, idle: bool) -> None:
        """A hang is an incident while the server still lives. What is done about it is said at once."""
        self.terminal.say(f"hung: {evidence}")
        with self._store_may_fail():
            diagnosis = with_hang(session.diagnose(Exit()), evidence)
            mark = diagnosis.fingerprint or Category.HANG.value
            self.incident = self._hang = self.store.open_or_join_incident(self.options.name, mark, diagnosis, launch_id)
            self._plan_for_hang(self._hang, idle)

    def _plan_for_hang(self, incident: int, idle: bool) -> None:
        after = self.timings.patience.restart
        if self.options.mode is Mode.OFF:
            return
        if self.options.mode is Mode.AUTO and not self.actor.would_restart(incident, self.command):
            self.store.needs_human(incident, "it hangs, and by budget or hours no restart is done alone now")
        elif self.options.mode is Mode.AUTO and idle and after is not None:
            text = f"it is restarted when it has shown no sign of life for {after:g} s"
            self.store.add_transition(self.options.name, "note", text, incident_id=incident)
        elif self.options.mode is Mode.AUTO:
            why = "its processes use the processor" if not idle else "restarts after a hang are switched off"
            self.store.needs_human(incident, f"it hangs, but {why}: a person has to end it")
        else:
            self.store.needs_human(incident, "it hangs: in mode propose a living server is ended by a person only")

    def _on_recovered(self, evidence: str) -> None:
        incident, self._hang = self._hang, None
        if incident is None:
            return
        text = f"it answers again: {evidence}"
        self.terminal.say(text)
        with self._store_may_fail():
            self.store.recovered(incident, text)

    @contextlib.contextmanager
    def _store_may_fail(self) -> Iterator[None]:
        """A server that serves must not be given up because its state can't be written just now."""
        try:
            yield
            self._store_failed = False
        except StoreError as error:
            if not self._store_failed:
                self.terminal.say(f"{error} The server goes on.")
            self._store_failed = True

    # -- signals and the end

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM ask for an end, twice at once. A closed terminal (SIGHUP) ends nothing."""
        loop = asyncio.get_running_loop()
        wanted = {signal.SIGINT: self._on_stop, signal.SIGTERM: self._on_stop, signal.SIGHUP: _ignore}
        for number, handler in wanted.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in wanted:
                loop.remove_signal_handler(number)

    def _on_stop(self) -> None:
        self.terminal.say("killing it at once" if self.stop.asked.is_set() else "stopping (once more kills at once)")
        self.stop.ask()

    def _last_words(self) -> None:
        suggestion = self.actor.suggestion
        if suggestion is not None:
            self.terminal.show_command("Corrected command", suggestion)
        if self.incident is not None:
            self.terminal.say(f"incident {self.incident}: crashcart incidents show {self.incident}")


def _ignore() -> None:
    """Nothing: being called at all replaces the default of dying."""
