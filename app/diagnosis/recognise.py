"""What kind of log this is: whose it is, how far the launch came, and whether a person ended it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from app.core.model import Event, Hit, Line, LogDigest, Progress
from app.core.vocabulary import Engine, Phase, Role
from app.rules.load import RuleSet
from app.rules.match import match
from app.rules.scene import Match, Scene

_FRAME_FOLDERS: Mapping[str, Engine] = {
    "/sglang/": Engine.SGLANG,
    "/vllm/": Engine.VLLM,
    "/lmdeploy/": Engine.LMDEPLOY,
    "/tensorrt_llm/": Engine.TENSORRT_LLM,
    "/text_generation_server/": Engine.TGI,
}
_USAGE_NAMES: Mapping[str, Engine] = {
    "launch_server.py": Engine.SGLANG,
    "sglang": Engine.SGLANG,
    "vllm": Engine.VLLM,
    "api_server.py": Engine.VLLM,
}
_USAGE = re.compile(r"^(?:usage: )?([\w.-]+)(?: serve)?: error: |^usage: ([\w.-]+)")


@dataclass(frozen=True, slots=True)
class Seen:
    """What the progress and stop lines of a launch say. Line positions count in time, not in the file."""

    engine: Engine | None = None
    version: str | None = None
    progress: Progress = field(default_factory=Progress)
    ready_at: int | None = None  # position of the first line that says ready
    last_at: int | None = None  # position of the last progress line
    stopped_at: int | None = None  # position of the first line that shows a stop asked for
    recognised: bool = False  # the log itself shows whose it is

    @property
    def phase(self) -> Phase:
        return self.progress.phase


def progress_rules(ruleset: RuleSet) -> RuleSet:
    """The rules that tell phases, engines and stops: the small part that is asked again and again."""
    wanted = (rule for rule in ruleset.rules if rule.role is Role.PROGRESS or rule.stops)
    return RuleSet(tuple(wanted), (), ruleset.paths)


def recognise(rules: RuleSet, scene: Scene) -> Seen:
    """Reads the progress and stop rules; engine and version of the scene win over what the log shows."""
    matches = [*match(rules, scene)]
    named = [one for one in matches if one.rule.identifies is not None]
    shown = next((one.rule.identifies for one in named), None) or _by_events(scene.digest.events)
    engine = scene.engine or shown
    place = Places(scene.digest)
    stops = [place(one.line) for one in matches if one.rule.stops and one.line is not None]
    stops += [place(event.last) for event in scene.digest.events if interrupted(event)]
    phases = [one for one in matches if one.rule.reaches is not None and one.line is not None]
    ready = [place(one.line) for one in phases if one.rule.reaches is Phase.READY and one.line is not None]
    hits = [hit for one in phases for hit in _hits(one, scene.digest)]
    last = max((place(hit.line) for hit in hits), default=None)
    return Seen(
        engine,
        scene.version or _version(named, engine),
        _progress(phases, scene.digest, place),
        min(ready, default=None),
        last,
        min(stops, default=None),
        recognised=shown is not None or bool(phases),
    )


def _version(named: Iterable[Match], engine: Engine | None) -> str | None:
    versions = (one.captures.get("version") for one in named if one.rule.identifies is engine)
    return next((version for version in versions if version), None)


def _by_events(events: Iterable[Event]) -> Engine | None:
    """The engine whose code a traceback runs through, or whose program printed a usage block."""
    for event in events:
        for raised in event.chain:
            for frame in raised.frames:
                file = frame.file.replace("\\", "/")
                for folder, engine in _FRAME_FOLDERS.items():
                    if folder in file:
                        return engine
        for line in (event.last, event.first) if event.kind == "usage" else ():
            if found := _USAGE.match(line.body):
                return _USAGE_NAMES.get(found[1] or found[2])
    return None


def _progress(phases: Iterable[Match], digest: LogDigest, place: Places) -> Progress:
    """The furthest phase, with the newest line that shows it."""
    shown = [
        (one.rule.reaches, (place(hit.line), at), hit)  # states of one progress bar share a line number
        for one in phases
        if one.rule.reaches is not None
        for at, hit in enumerate(_hits(one, digest))
    ]
    if not shown:
        return Progress()
    phase, _, hit = max(shown, key=lambda entry: (entry[0].order, entry[1]))
    return Progress(phase, _percent(hit), hit.line.text, hit.line)


def _hits(one: Match, digest: LogDigest) -> Iterator[Hit]:
    """All kept lines of a progress rule, or the one of its match where it is no plain line rule."""
    found = False
    for pattern in one.rule.when.line_patterns():
        for hit in digest.hits[pattern].kept if pattern in digest.hits else ():
            found = True
            yield hit
    if not found and one.line is not None:
        yield Hit("", one.line, one.captures)


def _percent(hit: Hit) -> float | None:
    try:
        return min(100.0, max(0.0, float(hit.groups["percent"])))
    except (KeyError, ValueError):
        return None


def interrupted(event: Event) -> bool:
    """A traceback that Ctrl-C made."""
    return any(raised.name == "KeyboardInterrupt" for raised in event.chain)


class Places:
    """Where lines stand in time: an export with the newest line first counts backwards."""

    def __init__(self, digest: LogDigest) -> None:
        self._sign = -1 if digest.newest_first else 1

    def __call__(self, line: Line) -> int:
        return self._sign * line.number
