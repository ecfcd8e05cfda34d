"""The taking-in side of `run`: a launch, what became of it, and the one transaction in which a death is stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.core.command import Command
from app.core.errors import CrashcartError
from app.core.model import Cause, Diagnosis, Exit
from app.core.vocabulary import Action, Category, Confidence, Engine, Mode, Origin, Outcome, Phase, Safety
from app.diagnosis.fingerprint import fingerprint
from app.service.history import since_last_healthy
from app.store.encode import diagnosis_in
from app.store.store import Store
from app.store.views import LaunchView
from app.store.words import Decision
from app.supervise.evidence import keep
from app.supervise.surroundings import Reading


@dataclass(frozen=True, slots=True)
class Death:
    """A launch that failed, as stored. `ran` is false where pre-flight stopped it before it was started."""

    launch_id: int
    incident_id: int
    command: Command
    diagnosis: Diagnosis
    phase: Phase
    exit: Exit
    ran: bool = True


@dataclass(frozen=True, slots=True)
class Kept:
    """Where a launch's output lies in the kept log."""

    log: Path
    start: int


def mark_of(store: Store, launch_id: int) -> str:
    """What every process of a launch carries in its environment."""
    return f"{store.state}#{launch_id}"


def note_start(store: Store, name: str, launch_id: int, kept: Kept) -> None:
    """Writes down where a launch's output begins, so that a later Crashcart can read it when we are killed."""
    path = store.server_folder(name) / "launch.json"
    partial = path.with_suffix(".partial")
    partial.touch(mode=0o600)
    partial.chmod(0o600)  # one that was left behind may have other rights
    partial.write_text(json.dumps({"launch": launch_id, "log": str(kept.log), "start": kept.start}), encoding="utf-8")
    partial.replace(path)


def kept_of(store: Store, launch: LaunchView) -> Kept | None:
    """Where the output of a launch lies that an earlier Crashcart started."""
    if launch.log_path is None or not launch.log_path.is_file():
        return None
    try:
        noted = json.loads((store.server_folder(launch.server) / "launch.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if noted.get("launch") != launch.id:
        return None
    start = int(noted.get("start", 0))
    return Kept(launch.log_path, start if start <= launch.log_path.stat().st_size else 0)


def store_death(
    store: Store, launch_id: int, command: Command, exit: Exit, phase: Phase, diagnosis: Diagnosis, mode: Mode
) -> Death:
    """Intake's last step: all that a death changes, in one transaction."""
    server = store.get_server(store.launch(launch_id).server)
    past = since_last_healthy(server.last_good_command if server else None, command.words())
    if past is not None:
        diagnosis = replace(diagnosis, evidence=(*diagnosis.evidence, past))
    decision = Decision.NONE if mode is Mode.OFF else Decision.PENDING
    incident = store.record_death(launch_id, exit, phase, diagnosis, decision=decision)
    return Death(launch_id, incident, command, diagnosis, phase, exit)


def store_findings(
    store: Store,
    name: str,
    command: Command,
    engine: Engine | None,
    mode: Mode,
    findings: Sequence[Cause],
    attempt: int | None,
) -> Death:
    """The same for a launch that pre-flight stopped: it is recorded as one that never ran."""
    launch = store.begin_launch(name, command.words(), engine, mode, attempt_id=attempt, ran=False)
    diagnosis = of_findings(command, engine, findings)
    death = store_death(store, launch, command, Exit(), Phase.STARTING, diagnosis, mode)
    return replace(death, ran=False)


def store_not_started(store: Store, name: str, command: Command, engine: Engine | None, error: CrashcartError) -> int:
    """An incident for a person, where a server could not even be started; returns its id."""
    cause = Cause(
        rule="any/not-started",
        category=getattr(error, "category", None) or Category.UNKNOWN,
        title="The server could not be started",
        explanation=" ".join(filter(None, (str(error), error.mend))),
        confidence=Confidence.HIGH,
        action=Action.NONE,
    )
    death = store_findings(store, name, command, engine, Mode.OFF, [cause], None)
    store.needs_human(death.incident_id, str(error))
    return death.incident_id


def of_findings(command: Command, engine: Engine | None, findings: Sequence[Cause]) -> Diagnosis:
    """Pre-flight findings in the shape of a diagnosis."""
    top = findings[0]
    return Diagnosis(
        outcome=Outcome.FAILED,
        phase=Phase.STARTING,
        engine=engine,
        command=command.words(),
        origin=Origin.GIVEN,
        causes=tuple(findings),
        fingerprint=fingerprint(engine=engine, category=top.category, rule=top.rule, root=top.explanation),
    )


def with_hang(diagnosis: Diagnosis, evidence: str) -> Diagnosis:
    """The diagnosis of a server that hangs: the cause that its log shows, else the hang itself."""
    if (
        diagnosis.outcome is Outcome.FAILED
        and diagnosis.causes
        and diagnosis.causes[0].category is not Category.UNKNOWN
    ):
        return diagnosis
    cause = Cause(
        rule="any/half-dead",
        category=Category.HANG,
        title="The server hangs: its process lives, but it does not serve any more",
        explanation=f"{evidence[:1].upper()}{evidence[1:]}.",
        confidence=Confidence.HIGH,
        action=Action.RESTART,
        safety=Safety.SAFE,
        trusted=True,
    )
    mark = fingerprint(engine=diagnosis.engine, category=Category.HANG, rule=cause.rule)
    return replace(diagnosis, outcome=Outcome.FAILED, causes=(cause,), fingerprint=mark)


def keep_evidence(store: Store, death: Death, kept: Kept, end: int, surroundings: Sequence[Reading] = ()) -> Path:
    """Copies what proves a death before the next launch: it stays when the log is rotated or removed."""
    return keep(
        store.evidence_folder(death.incident_id) / f"launch-{death.launch_id}",
        log=kept.log,
        start=kept.start,
        end=end,
        words=death.command.words(),
        exit=death.exit,
        diagnosis=diagnosis_in(death.diagnosis),
        surroundings=surroundings,
    )
