"""Which flags this very program takes: asked of the installed one, read in the log, or shipped for its version."""

from __future__ import annotations

from app.core.catalogue import FlagCatalogue
from app.core.helptext import catalogue_from_help
from app.core.model import LogDigest
from app.core.shipped import nearest_shipped, shipped, shipped_catalogues
from app.core.vocabulary import Engine

_WHOLE = 25  # a block of so many flags is a whole one; SGLang has 400, vLLM 300
_FEWEST = 4


def catalogue_of(
    engine: Engine | None,
    version: str | None,
    digest: LogDigest,
    installed: FlagCatalogue | None,
    settings: frozenset[str] = frozenset(),
) -> tuple[FlagCatalogue | None, bool]:
    """The best catalogue known, and whether it is exact: what it does not list is refused for sure.

    `installed` is what was learnt from the machine: the program's own help, or at least its version. `settings` are
    names of settings that the program printed: without a version they tell which one it is like.
    """
    if installed is not None and installed.origin == "installed":
        return installed, installed.complete
    if engine is None:
        return None, False
    version = version or (installed.version if installed is not None else None)
    printed = _printed(engine, digest)
    if printed is not None:
        known = _shipped_like(printed)
        return (known, True) if known is not None else (printed, False)
    nearest = _most_like(engine, settings) if version is None and settings else nearest_shipped(engine, version)
    return nearest, nearest is not None and version is not None and nearest.version == version


def _printed(engine: Engine, digest: LogDigest) -> FlagCatalogue | None:
    """The flags of the usage block in the log; it names one spelling of each.

    A few flags that the engine is known to have are a block that was cut short, not all that it takes.
    """
    blocks = [event for event in digest.events if event.kind == "usage" and len(event.lines) > 2]
    if not blocks or blocks[-1].truncated:
        return None
    found = catalogue_from_help(blocks[-1].text, engine, None, "log")
    if len(found.flags) >= _WHOLE:
        return found
    nearest = nearest_shipped(engine)
    cut_short = nearest is not None and all(flag.name in nearest for flag in found.flags)
    return None if cut_short or len(found.flags) < _FEWEST else found


def _most_like(engine: Engine, settings: frozenset[str]) -> FlagCatalogue | None:
    """The shipped version that has most of these settings as flags; of equals the newest."""
    known = [shipped(engine, version) for version in shipped_catalogues().get(engine, ())]
    spelt = ["--" + name.replace("_", "-") for name in settings]
    return max(reversed(known), key=lambda one: len({*spelt} & {*one.spellings}), default=None)


def _shipped_like(printed: FlagCatalogue) -> FlagCatalogue | None:
    """The shipped version with just these flags: it knows their other spellings and types as well."""
    names = {flag.name for flag in printed.flags} - {"-h", "--help"}
    for version in reversed(shipped_catalogues().get(printed.engine, ())):
        known = shipped(printed.engine, version)
        spellings = set(known.spellings)
        covered = all(
            names & {*flag.spellings, flag.negation}
            for flag in known.flags
            if flag.name not in ("-h", "--help") and not flag.hidden
        )
        if names <= spellings and covered:
            return known
    return None
