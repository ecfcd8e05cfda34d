"""The flag catalogues that travel with Crashcart, for when the installed program can't be asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from app.core.catalogue import FlagCatalogue
from app.core.vocabulary import Engine

_FOLDER = files("app.core") / "catalogues"
_FILE = re.compile(r"(?P<engine>[a-z-]+?)-(?P<version>[0-9a-z.]+)\.json")


@cache
def shipped_catalogues() -> Mapping[Engine, tuple[str, ...]]:
    """The versions shipped of each engine, oldest first."""
    found: dict[Engine, list[str]] = {}
    for entry in _FOLDER.iterdir():
        if name := _FILE.fullmatch(entry.name):
            found.setdefault(Engine(name["engine"]), []).append(name["version"])
    return {engine: tuple(sorted(versions, key=version_key)) for engine, versions in found.items()}


@cache
def shipped(engine: Engine, version: str) -> FlagCatalogue:
    """One shipped catalogue; KeyError when there is none of this very version."""
    if version not in shipped_catalogues().get(engine, ()):
        raise KeyError(f"{engine} {version}")
    return FlagCatalogue.from_json((_FOLDER / f"{engine.value}-{version}.json").read_text("utf-8"))


def nearest_shipped(engine: Engine | None, version: str | None = None) -> FlagCatalogue | None:
    """The shipped catalogue for this version, else of the nearest one; the newest when no version is known."""
    versions = shipped_catalogues().get(engine, ()) if engine else ()
    if engine is None or not versions:
        return None
    if version is None:
        return shipped(engine, versions[-1])
    wanted = version_key(version)
    older = [known for known in versions if version_key(known) <= wanted]
    newer = [known for known in versions if version_key(known) > wanted]
    if not older or not newer:
        return shipped(engine, (older or newer[:1])[-1])
    below, above = version_key(older[-1]), version_key(newer[0])
    return shipped(engine, older[-1] if _gap(below, wanted) <= _gap(wanted, above) else newer[0])


def version_key(version: str) -> tuple[int, ...]:
    """Numbers to order by: `0.5.9` < `0.5.23`; suffixes such as `+cpu`, `.post1` or `rc2` are left out."""
    release = re.split(r"\+|(?<=\d)\.?(?:post|dev|rc|a|b)\d", version)[0]
    return tuple(int(part) for part in re.findall(r"\d{1,9}", release)[:4])


def _gap(low: tuple[int, ...], high: tuple[int, ...]) -> tuple[int, ...]:
    width = max(len(low), len(high))
    pairs = zip(low + (0,) * (width - len(low)), high + (0,) * (width - len(high)), strict=True)
    return tuple(abs(b - a) for a, b in pairs)
