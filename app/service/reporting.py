"""A person or an agent says that a server crashed: Crashcart looks itself and answers with the truth."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.core.command import Command
from app.core.errors import CrashcartError, UsageError
from app.core.model import Diagnosis, Exit
from app.core.vocabulary import Category, Outcome, ServerState
from app.diagnosis.pipeline import Pipeline, Session
from app.service.asking import Truth, look, told, unknown
from app.service.intake import kept_of
from app.store.store import Store
from app.store.texts import described_end, reached
from app.store.views import LaunchView, ProposalView, ServerView
from app.store.words import Decision, TransitionKind

PipelineSource = Callable[[], Pipeline]

_BLOCK = 1 << 20
# What people say about a server is short and has none of the shapes of what a server says about itself.
_LONGEST_COMPLAINT = 60  # characters
_MOST_WORDS = 8
_LOG_SHAPE = re.compile(
    r"""\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d       # a time
    |^\s*[\[({<]|\w=\S|\S/\S+[/.]\w             # a prefix, a setting, a path
    |\w\.(?:py|cc|cpp|cu|cuh|h|hpp|c|rs|go):\d      # a line of a program
    |\b\w*(?:Error|Exception|Interrupt|Exit|Warning|Timeout)\b\s*(?::|$)  # an exception's name
    |\b(?:error|fatal|critical|panic|warning|exit(?:ed)?\ (?:code|with)|signal|errno|status)\b.{0,3}[:\d]
    |:\s+\S+.*:\s                                # bash: vllm: command not found
    |\(core\ dumped\)|\b(?:CUDA|NCCL|HIP|Xid)\b
    |--\w""",
    re.VERBOSE,
)
# What a shell says of a process that died stands alone and begins with a capital.
_SHELL_SAYS = re.compile(
    r"(?:Killed|Aborted|Terminated|Hangup|Segmentation fault|Bus error|Illegal instruction|Trace/breakpoint trap)\b\W*"
)


@dataclass(frozen=True, slots=True)
class Report:
    """The answer to a report. `crashed` is what Crashcart saw, not what was said."""

    server: ServerView
    truth: Truth
    crashed: bool
    text: str
    diagnosis: Diagnosis | None = None
    proposal: ProposalView | None = None
    incident_id: int | None = None

    @property
    def exit_code(self) -> int:
        """As `diagnose`: 0 nothing failed, 1 failed, cause known, 3 failed, cause unknown."""
        failed = self.diagnosis is not None and self.diagnosis.outcome is Outcome.FAILED
        if not self.crashed and not failed:
            return 0
        causes = self.diagnosis.causes if self.diagnosis else ()
        return 1 if causes and causes[0].category is not Category.UNKNOWN else 3


def report(store: Store, text: str, name: str | None, pipeline: PipelineSource) -> Report:
    """Looks at the server's process and kept log and says what is true of it.

    A bare word or two ("crashed") say only where to look; anything longer is log text, which is diagnosed together
    with the kept log. A death that nobody wrote down is stored now.
    """
    if not text.strip():
        raise UsageError("The report is empty.", mend='Say what you saw, for example: crashcart report "crashed"')
    server = _chosen(store, name)
    truth = look(server)
    launch = store.launch(server.launch_id) if server.launch_id is not None else None
    diagnosis = _diagnosed(store, server, truth, launch, "" if is_complaint(text) else text, pipeline)
    incident_id = _written_down(store, truth, launch, diagnosis)
    _note(store, server, text, incident_id)
    crashed = truth.state in (ServerState.EXITED, ServerState.GAVE_UP)
    return Report(
        server=server,
        truth=truth,
        crashed=crashed,
        text=_answer(store, server, truth, crashed, diagnosis, sent=not is_complaint(text)),
        diagnosis=diagnosis,
        proposal=store.incident(incident_id).proposal if incident_id is not None else None,
        incident_id=incident_id,
    )


def is_complaint(text: str) -> bool:
    """Whether this is what people say ("it crashed again", in any language), in contrast to text of a log."""
    said = text.strip()
    if not said or "\n" in said or len(said) > _LONGEST_COMPLAINT or len(said.split()) > _MOST_WORDS:
        return False
    return _LOG_SHAPE.search(said) is None and _SHELL_SAYS.fullmatch(said) is None


def _chosen(store: Store, name: str | None) -> ServerView:
    if name is not None:
        server = store.get_server(name)
        if server is None:
            raise unknown(store, name)
        return server
    servers = store.list_servers()
    candidates = [server for server in servers if look(server).state is not ServerState.READY]
    if len(candidates) == 1:
        return candidates[0]
    if not servers:
        raise UsageError(
            "No server is known in this state folder.",
            mend="A log alone is diagnosed by: crashcart diagnose LOG. Another folder is chosen with --state DIR.",
        )
    listed = "; ".join(f"{server.name} ({look(server).state})" for server in candidates or servers)
    what = "All servers are ready" if not candidates else "Several servers are not ready"
    raise UsageError(f"{what}: {listed}.", mend="Say which one is meant with --server NAME.")


def _diagnosed(
    store: Store, server: ServerView, truth: Truth, launch: LaunchView | None, text: str, pipeline: PipelineSource
) -> Diagnosis | None:
    """What was stored when the launch died; else, or with text to add, what the log says now."""
    if launch is None or (launch.diagnosis is not None and not text):
        return launch.diagnosis if launch else None
    if truth.state is ServerState.STOPPED and not text:
        return None
    session = reading_of(store, server, launch, pipeline())
    if text:
        session.feed(b"\n" + text.encode("utf-8", "replace") + b"\n")
    session.close()
    gone = truth.down and not launch.asked
    return session.diagnose(launch.exit if launch.ended_at is not None else Exit(), expected_running=gone)


def reading_of(store: Store, server: ServerView, launch: LaunchView, pipeline: Pipeline) -> Session:
    """The log of a launch, read as far as it was written."""
    session = pipeline.session(engine=server.engine, command=_command(launch))
    _feed_kept(store, launch, session.feed)
    return session


def reading(log: Path, launch: LaunchView, pipeline: Pipeline) -> Session:
    """A copy of a launch's log, read to its end. OSError is for the caller."""
    session = pipeline.session(engine=launch.engine, command=_command(launch))
    with log.open("rb") as file:
        while block := file.read(_BLOCK):
            session.feed(block)
    session.close()
    return session


def _feed_kept(store: Store, launch: LaunchView, feed: Callable[[bytes], None]) -> None:
    """Reads the launch's part of the kept log; a log that is gone is an empty one."""
    kept = kept_of(store, launch)
    path = kept.log if kept else launch.log_path
    if path is None:
        return
    try:
        with path.open("rb") as file:
            file.seek(kept.start if kept else 0)
            while block := file.read(_BLOCK):
                feed(block)
    except OSError:
        return


def _command(launch: LaunchView) -> Command | None:
    try:
        return Command.parse(launch.command) if launch.command else None
    except CrashcartError:
        return None


def _written_down(store: Store, truth: Truth, launch: LaunchView | None, diagnosis: Diagnosis | None) -> int | None:
    """The incident of a launch that died; one whose Crashcart was gone too is stored now."""
    if launch is None or not truth.down:
        return None
    if launch.ended_at is not None or truth.supervised or diagnosis is None:
        return launch.incident_id
    phase = max(launch.phase, diagnosis.phase, key=lambda phase: phase.order)
    return store.record_death(launch.id, Exit(), phase, diagnosis, decision=Decision.NONE)


def _note(store: Store, server: ServerView, text: str, incident_id: int | None) -> None:
    said = text.strip() if is_complaint(text) else f"{len(text.splitlines())} lines of log"
    store.add_transition(server.name, TransitionKind.REPORTED, f"reported: {said}", incident_id=incident_id)


def _answer(
    store: Store, server: ServerView, truth: Truth, crashed: bool, diagnosis: Diagnosis | None, *, sent: bool
) -> str:
    if crashed:
        launch = store.launch(server.launch_id) if server.launch_id is not None else None
        if launch is None or launch.ended_at is None or not launch.ran:
            return f"crashed: {truth.evidence}{_plans(server, truth)}"
        end = described_end(launch.exit, launch.phase, launch.percent)
        seen = "" if launch.exit.known else f" ({truth.evidence})"
        return f"crashed: {end}{seen}{_plans(server, truth)}"
    if truth.state is ServerState.STOPPED:
        return f"not crashed: {truth.evidence}"
    if server.launch_id is None and server.process is None and not truth.supervised:
        return f"unknown: {truth.evidence}"
    text = f"not crashed: {told(server, truth)}"
    if not truth.supervised and diagnosis is not None:
        text += f"; by its log: {reached(diagnosis.phase, diagnosis.progress.percent)}"
    if diagnosis is not None and diagnosis.outcome is Outcome.FAILED and diagnosis.causes:
        text += f"; but {'what was sent' if sent else 'its log'} shows: {diagnosis.causes[0].title}"
    return text


def _plans(server: ServerView, truth: Truth) -> str:
    """What is being done about it."""
    if truth.state is ServerState.GAVE_UP:
        return f"; {truth.evidence}"
    if not truth.supervised:
        return ""
    return {
        Decision.PENDING: "; Crashcart is deciding what to do",
        Decision.ACTING: "; Crashcart is bringing it back",
        Decision.PROPOSAL: "; a fix is proposed",
    }.get(server.decision, "")
