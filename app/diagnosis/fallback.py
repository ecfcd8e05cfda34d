"""What is said when no rule and no reader knows the cause: the best evidence, never a guess dressed as a cause."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise

from app.core.model import Cause, Event, Exit, Line, LogDigest, Raised, Symptom
from app.core.vocabulary import Action, Category, Confidence, Engine, Phase, Safety
from app.diagnosis.endings import signal_named
from app.diagnosis.mechanism import complaint, kind_of
from app.diagnosis.ranking import depth
from app.diagnosis.recognise import Places, Seen, interrupted
from app.diagnosis.whereabouts import ONLY_BEFORE_READY, is_slip, kind_by_place

_ASKED = ("SIGINT", "SIGTERM")
_NEAR_THE_END = 60  # lines that a dying program still prints after what killed it
_BEFORE_AN_ECHO = 12  # lines in which a program says why, before it says that it gives up
_CAUSES_WITHIN = 8
_AT_THE_END = 5  # a serving one logs on: what did not end the log did not end the server

# A program's own end after a failed check: either it says what, or it told before.
_WHAT = re.compile(r"\s*what\(\): +\S")
_BARE_ABORT = re.compile(r"(?:Aborted|SIGABRT|terminate called)\b")
_ENDS_ITSELF = ("sglang/child-failed", "sglang/subprocess-crashed")  # a launcher that kills its tree, itself as well
_TELLING_ECHOES = ("any/signal-reported", "ollama/load-failed")  # who reports the end repeats the reason

# Exceptions that code raises to itself before it raises what it means.
_INNER = (
    "KeyError", "AttributeError", "StopIteration", "Empty", "IndexError", "CancelledError",  # lookups
    "EOFError", "ConnectionResetError", "BrokenPipeError",  # the other end of a pipe is gone
)  # fmt: skip


def asked_for(exit: Exit, seen: Seen) -> bool:
    """Whether a person ended this server, as far as log and exit tell."""
    return seen.stopped_at is not None or exit.signal in _ASKED


def last_resort(
    digest: LogDigest,
    exit: Exit,
    seen: Seen,
    symptoms: Sequence[Symptom],
    harmless: Collection[int],
    engine: Engine | None,
) -> tuple[Cause, Event | None] | None:
    """The cause `unknown` or killed-by-signal, with the event that shows it; None when nothing failed.

    `harmless` are numbers of lines known to be noise.
    """
    place = Places(digest)
    killed = exit.signal is not None and exit.signal not in _ASKED
    event = _first_failure(digest, seen, symptoms, harmless, engine)
    if event is not None and not (exit.known or symptoms) and not _fatal(event, digest, seen, place):
        event = None
    if event is not None and killed and not symptoms and not _fatal(event, digest, seen, place):
        event = None
    echoes = {symptom.line.number for symptom in symptoms if symptom.line is not None}
    if event is None or _key_line(event).number in echoes or event.kind == "native":
        said = _said_signal(event, symptoms)
        if said is not None:
            return _killed(said[0], seen, said[1]), event
        # The others only saw it go; unless it says itself that it ends because one of them did.
        if (
            event is not None
            and event.kind != "native"
            and killed
            and not any(symptom.rule in _ENDS_ITSELF for symptom in symptoms)
        ):
            return _killed(exit.signal or "", seen, _key_line(event)), event
    if event is not None and event.kind == "native":
        what = next((line for line in event.lines if _WHAT.match(line.body)), None)
        plain = what is None and _BARE_ABORT.match(event.first.body) is not None
        before = _complaint(digest, seen, harmless, event.first) if plain else None
        return _unknown(what or before or event.first, event, exit, seen.phase), event
    if event is not None:
        return _unknown(
            _root_line(event), event, exit, seen.phase, telling=_key_line(event).number not in echoes
        ), event
    if symptoms:
        before = _complaint(digest, seen, harmless, symptoms[0].line)
        telling = before is not None or symptoms[0].rule in _TELLING_ECHOES
        return _unknown(before or symptoms[0].line, None, exit, seen.phase, telling=telling), None
    if killed and exit.signal is not None:
        return _killed(exit.signal, seen), None
    errors = [event for event in digest.events if event.kind == "error" and event.first.number not in harmless]
    if exit.code not in (None, 0) or (not exit.known and errors and _ends_with(errors[-1], digest, seen, place)):
        error = errors[0] if errors else None
        line = error.first if error else _complaint(digest, seen, harmless)
        return _unknown(line, error, exit, seen.phase, more=_causes_below(digest, line)), error
    return None


def unasked_end(exit: Exit, seen: Seen) -> Cause | None:
    """The end of a server that should have gone on: only supervision knows that nobody asked for it."""
    if exit.signal is not None:
        return _killed(exit.signal, seen)
    if exit.code is None:
        return None
    return Cause(
        rule="any/clean-exit",
        category=Category.UNKNOWN,
        title="The server ended by itself without an error",
        explanation=f"It ended with {exit} {_when(seen)}, and nobody asked it to. Its log shows no failure.",
        confidence=Confidence.MEDIUM,
        action=Action.RESTART,
        safety=Safety.SAFE,
        trusted=True,
    )


def _said_signal(event: Event | None, symptoms: Sequence[Symptom]) -> tuple[str, Line] | None:
    """The signal that ended a process, and the line that says so: the event's own, else that of the first echo.

    After another echo it is only the end of the cascade: whoever lost a sister kills the rest.
    """
    line = event.first if event is not None and event.kind == "native" else symptoms[0].line if symptoms else None
    name = signal_named(line) if line is not None else None
    return (name, line) if name is not None and line is not None else None


def _killed(signal: str, seen: Seen, line: Line | None = None) -> Cause:
    who = "the kernel's out-of-memory killer, a container's memory limit or a person"
    why = {
        "SIGKILL": f"Something outside did it: {who}. `dmesg` and the container's events tell which.",
        "SIGSEGV": "It crashed in native code: a driver, a kernel or an extension.",
        "SIGABRT": "It ended itself from native code after a failed check.",
        "SIGBUS": "It touched memory that could not be provided: often /dev/shm or a disk is full, or a file shrank.",
        "SIGILL": "It ran an instruction that this processor does not have: a build for another machine.",
        "SIGTERM": "Something outside asked it to end.",
        "SIGINT": "Something outside interrupted it.",
    }.get(signal, "The log does not say why.")
    return Cause(
        rule="any/killed-by-signal",
        category=Category.KILLED_BY_SIGNAL,
        title=f"The server was killed by {signal} {_when(seen)}",
        explanation=f"The process was killed by {signal} {_when(seen)}; its log shows nothing that led to it. {why}",
        confidence=Confidence.MEDIUM,
        line=line,
        rank=line.rank if line is not None else None,
        action=Action.RESTART,
        safety=Safety.SAFE,
        trusted=True,
    )


def _when(seen: Seen) -> str:
    if seen.phase is Phase.READY:
        return "while it was serving"
    percent = seen.progress.percent
    return f"at {seen.phase}" + (f" {percent:.0f} %" if percent is not None else "")


def _complaint(digest: LogDigest, seen: Seen, harmless: Collection[int], before: Line | None = None) -> Line | None:
    """The last line near the end, or shortly before an echo, that complains in a form of its own."""
    place = Places(digest)
    since = max(seen.ready_at or 0, place(before) - _BEFORE_AN_ECHO) if before is not None else seen.ready_at
    return complaint(
        (
            line
            for line in sorted(digest.tail, key=place)
            if (since is None or place(line) >= since) and (before is None or place(line) < place(before))
        ),
        harmless,
    )


def _causes_below(digest: LogDigest, line: Line | None) -> str:
    """What a Rust or Java program lists below its error: `Caused by:`, then the reasons, the root last."""
    below = [
        other.body for other in digest.tail if line is not None and 0 < other.number - line.number <= _CAUSES_WITHIN
    ]
    start = next((at for at, body in enumerate(below) if body.strip() == "Caused by:"), None)
    return "\n".join(below[start + 1 :]) if start is not None else ""


def _unknown(
    line: Line | None, event: Event | None, exit: Exit, phase: Phase, *, telling: bool = True, more: str = ""
) -> Cause:
    """`telling`: the line is no mere echo, so its words and `more` may tell what kind of failure it is."""
    ended = f" It ended with {exit}." if exit.code is not None else f" It was {exit}." if exit.signal else ""
    shown = "This line of the log is the nearest to it." if line is not None else "The log shows no error."
    root = _root(event) if event is not None else None
    said = f"{root.type}: {root.message}" if root is not None else line.body if line is not None else ""
    around = event.text if event is not None and root is None else ""
    words = () if is_slip(root) else (more, said, around)
    kinds = (found for text in words if (found := kind_of(text)) is not None)
    told = next((one for one in kinds if phase is not Phase.READY or one not in ONLY_BEFORE_READY), None)
    placed = kind_by_place(root, phase) if told is None else None
    kind = (told or placed) if telling else None
    by_words = f" By its {'words' if told else 'place'} it is of the kind {kind}." if kind is not None else ""
    return Cause(
        rule="any/unknown-failure" if kind is None else "any/by-its-words" if told else "any/by-its-place",
        category=kind or Category.UNKNOWN,
        title=_unknown_title(event),
        explanation=f"No rule knows this failure. {shown}{by_words}{ended}",
        confidence=Confidence.LOW,
        line=line,
        rank=event.rank if event is not None else line.rank if line is not None else None,
    )


def _unknown_title(event: Event | None) -> str:
    root = _root(event) if event is not None else None
    return f"Failed for a reason that no rule knows: {root.name}" if root else "Failed for a reason that no rule knows"


def _first_failure(
    digest: LogDigest, seen: Seen, symptoms: Sequence[Symptom], harmless: Collection[int], engine: Engine | None
) -> Event | None:
    """The first traceback or native crash of the deepest process; rather one that is no known echo."""
    place = Places(digest)
    echoes = {symptom.line.number for symptom in symptoms if symptom.line is not None}
    kinds = ("traceback", "native") if seen.phase is not Phase.STARTING else ("traceback", "native", "usage")
    events = [event for event in digest.events if event.kind in kinds]
    events = [event for event in events if not _is_harmless(event, seen, harmless, place)]
    events.sort(key=lambda event: (_key_line(event).number in echoes, depth(event, None, engine), place(event.first)))
    return events[0] if events else None


def _is_harmless(event: Event, seen: Seen, harmless: Collection[int], place: Places) -> bool:
    """Noise, a warning, or something that the server got over: it became ready afterwards."""
    if interrupted(event) or event.first.number in harmless or _key_line(event).number in harmless:
        return True
    if (event.first.level or "").upper().startswith(("WARN", "INFO", "DEBUG")):
        return True
    after_stop = seen.stopped_at is not None and place(event.last) >= seen.stopped_at
    return after_stop or (seen.ready_at is not None and place(event.last) < seen.ready_at)


def _fatal(event: Event, digest: LogDigest, seen: Seen, place: Places) -> bool:
    """Whether a log that says nothing of its end ends with this event."""
    if seen.last_at is not None and seen.last_at > place(event.last):
        return False
    far = event.last.number if digest.newest_first else digest.lines - event.last.number
    return far <= (_AT_THE_END if seen.phase is Phase.READY else _NEAR_THE_END)


def _ends_with(error: Event, digest: LogDigest, seen: Seen, place: Places) -> bool:
    """Whether a start ends with an error line, as it does when the program gives up."""
    far = error.last.number if digest.newest_first else digest.lines - error.last.number
    return far < _AT_THE_END and seen.phase is not Phase.READY and _fatal(error, digest, seen, place)


def _root(event: Event) -> Raised | None:
    """The exception that started it: the first of the chain, unless that is only a lookup that failed on the way."""
    chain = event.chain
    for raised, following in pairwise(chain):
        if not (raised.name in _INNER and following.relation == "context"):
            return raised
    return chain[-1] if chain else None


def _root_line(event: Event) -> Line:
    root = _root(event)
    return root.line if root is not None else event.last if event.kind == "usage" else event.first


def _key_line(event: Event) -> Line:
    return event.chain[-1].line if event.chain else event.first
