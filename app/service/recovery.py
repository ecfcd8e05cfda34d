"""What an earlier Crashcart left behind when it was killed: told, put right, and never done again by itself."""

from __future__ import annotations

from app.core.command import Command
from app.core.errors import LaunchError
from app.core.model import Exit
from app.core.redact import redact_words
from app.core.vocabulary import Mode, Outcome
from app.diagnosis.pipeline import Pipeline
from app.service.intake import keep_evidence, kept_of, mark_of, store_death
from app.service.options import RunOptions, Terminal
from app.store.store import Store
from app.store.views import LaunchView
from app.supervise.group import Group
from app.supervise.tail import Tail


def recover(options: RunOptions, store: Store, pipeline: Pipeline, terminal: Terminal) -> None:
    """Refuses to start beside a server that still lives; else writes down how the launches before ended.

    To be called while holding the server's lock.
    """
    left = store.recover(options.name)
    for launch in left.unfinished:
        _refuse_if_living(store, launch)
    for launch in reversed(left.unfinished):
        _finish(options, store, pipeline, terminal, launch)
    for attempt in left.interrupted:
        terminal.say(
            f"Crashcart ended in the middle of a {attempt.kind} ({attempt.rule}): it is not repeated by itself"
        )


def _refuse_if_living(store: Store, launch: LaunchView) -> None:
    if launch.process is None:
        return
    group = Group(launch.process.pid, mark_of(store, launch.id), since=launch.started_at.timestamp())
    if living := group.members():
        raise LaunchError(
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
