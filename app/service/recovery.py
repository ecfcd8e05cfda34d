"""What an earlier Crashcart left behind when it was killed: told, put right, and never done again by itself."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.command import Command
from app.core.errors import LaunchError
from app.core.model import Exit
from app.core.redact import redact_words
from app.core.vocabulary import Mode, Outcome
from app.diagnosis.pipeline import Pipeline
from app.service.intake import keep_evidence, kept_of, mark_of, store_death
from app.service.options import RunOptions, Terminal
from app.store.store import Store
from app.store.views import AttemptView, LaunchView
from app.store.words import AttemptKind
from app.supervise.group import Group, Member, marked
from app.supervise.tail import Tail


def recover(options: RunOptions, store: Store, pipeline: Pipeline, terminal: Terminal) -> LaunchView | None:
    """Writes down how the launches before ended. One that still lives is handed back, where it may be adopted.

    Without adoption it refuses to start beside it. To be called while holding the server's lock.
    """
    left = store.recover(options.name)
    unfinished = [_with_process(store, launch) for launch in left.unfinished]
    living = [launch for launch in unfinished if members_of(store, launch)]
    if living and not options.adopt:
        raise _still_runs(store, living[0])
    for launch in reversed(unfinished):
        if launch not in living:
            _finish(options, store, pipeline, terminal, launch)
    for attempt in left.interrupted:
        terminal.say(
            f"Crashcart ended in the middle of a {attempt.kind} ({attempt.rule}): it is not repeated by itself"
        )
    return living[0] if living else None


def members_of(store: Store, launch: LaunchView) -> list[Member]:
    """The living processes of a launch that another Crashcart started.

    Of one that was killed before it could write the process down, those are meant that carry the launch's mark.
    """
    if launch.process is None:
        return marked(mark_of(store, launch.id)) if launch.ran else []
    return Group(launch.process.pid, mark_of(store, launch.id), since=launch.started_at.timestamp()).members()


def _with_process(store: Store, launch: LaunchView) -> LaunchView:
    """The launch with its process written down, where Crashcart was killed between the start and that."""
    if launch.process is not None or not (members := members_of(store, launch)):
        return launch
    store.launch_started(launch.id, members[0].pid, members[0].pid)
    return store.launch(launch.id)


def command_of(given: Command, words: tuple[str, ...], attempts: Sequence[AttemptView]) -> Command | None:
    """The command whose stored (redacted) words these are, secrets and all: the one given, or with earlier fixes."""
    command = given
    for attempt in (None, *sorted(attempts, key=lambda one: one.id)):
        if attempt is not None and attempt.kind is AttemptKind.RELAUNCH and attempt.fix is not None:
            changed = command.apply(attempt.fix)
            if tuple(redact_words(changed.words())) != attempt.command:
                continue
            command = changed
        if tuple(redact_words(command.words())) == words:
            return command
    return None


def _still_runs(store: Store, launch: LaunchView) -> LaunchError:
    living = members_of(store, launch)
    return LaunchError(
        f"{launch.server} still runs from before, without supervision: process {', '.join(map(str, living))}.",
        mend=f"Stop it first: kill {' '.join(str(member.pid) for member in living)}",
    )


def _finish(options: RunOptions, store: Store, pipeline: Pipeline, terminal: Terminal, launch: LaunchView) -> None:
    """Writes the end of a launch that nobody saw end: a failure by its log is an incident like any other."""
    kept = kept_of(store, launch)
    given = options.command
    same = tuple(redact_words(given.words())) == launch.command
    command = given if same else Command.parse(launch.command, engine=launch.engine)
    session = pipeline.session(engine=launch.engine, command=command)
    if kept is not None:
        with Tail(kept.log, kept.start) as tail:
            while data := tail.read():
                session.feed(data)
    session.close()
    diagnosis = session.diagnose(Exit())
    phase = max(launch.phase, diagnosis.phase, key=lambda reached: reached.order)
    if diagnosis.outcome is not Outcome.FAILED:
        text = "it ended while no Crashcart watched"
        store.launch_ended(launch.id, Exit(), phase, diagnosis, asked=False, evidence=text)
        return
    death = store_death(store, launch.id, command, Exit(), phase, diagnosis, Mode.OFF)
    store.claim_death(options.name)
    if kept is not None:
        keep_evidence(store, death, kept, kept.log.stat().st_size)
    terminal.say(f"the launch before ended unseen: incident {death.incident_id}, {diagnosis.causes[0].title}")
