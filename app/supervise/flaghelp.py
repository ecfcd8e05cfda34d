"""Asks the installed engine itself which flags it takes, and remembers the answer.

The engine's own `--help` is run with the launch command's interpreter and environment, only for modules and programs
that are known to be servers (and those that a caller allows by name), never for a command that came from elsewhere:
the caller says so by `may_run`. What was learnt is cached by the program's path, its file time and the engine's
version, so that an upgrade asks again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from app.core.catalogue import FlagCatalogue
from app.core.command import Command
from app.core.helptext import catalogue_from_help
from app.core.shipped import nearest_shipped
from app.core.vocabulary import Engine
from app.supervise.programs import run_program

TIMEOUT = 60.0
_SHAPE = 1  # of the cached file; a change makes older ones unread
_PACKAGES: Mapping[Engine, str] = {Engine.SGLANG: "sglang", Engine.VLLM: "vllm"}
_FEWEST_FLAGS = 5  # fewer than that is an error message, not a help


@dataclass(frozen=True, slots=True)
class Installed:
    """The program that would print the help, and what tells one installation of it from another."""

    program: Path
    argv: tuple[str, ...]
    engine: Engine
    version: str | None

    @property
    def key(self) -> str:
        stat = self.program.stat()
        parts = (_SHAPE, str(self.program), stat.st_mtime_ns, stat.st_size, self.version, self.argv)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def catalogue_for(
    command: Command,
    *,
    cache: Path,
    may_run: bool,
    allowed_modules: Collection[str] = (),
    timeout: float = TIMEOUT,
) -> FlagCatalogue | None:
    """The flags of the engine that this command starts; None for a program that is no known engine.

    The installed engine's own help counts most: from the cache, else (with `may_run`) by running it. Where neither
    is to be had, the shipped catalogue nearest to the installed version stands in.
    """
    installed = find_installed(command, allowed_modules)
    if installed is None:
        return _stand_in(command.engine, None)
    path = cache / f"{installed.engine.value}-{installed.key}.json"
    known = _read(path)
    if known is None and may_run:
        known = _ask(installed, command, timeout)
        if known is not None:
            _write(path, known)
    return known or _stand_in(command.engine, installed.version)


def _stand_in(engine: Engine | None, version: str | None) -> FlagCatalogue | None:
    """The nearest shipped catalogue, under the installed version's number: it must not claim another one."""
    nearest = nearest_shipped(engine, version)
    return None if nearest is None else replace(nearest, version=version)


def find_installed(command: Command, allowed_modules: Collection[str] = ()) -> Installed | None:
    """The installed program behind a command, without running anything; None when it may not or can't be asked."""
    engine = command.engine
    if engine is None or command.layout.assign_with:
        return None  # a container's program is not on this machine
    if command.interpreter is not None:
        module = command.module
        known = module is not None and (command.layout.engine is not None or module in allowed_modules)
        words = (command.interpreter, "-m", module or "", *_subcommand(module or "")) if known else None
        words = words or _script(command)
    else:
        words = (command.program or "", *_subcommand(command.program or "")) if command.layout.engine else None
    if not words:
        return None
    program = _which(words[0], command)
    if program is None:
        return None
    ask = "--help=all" if engine is Engine.VLLM else "--help"
    return Installed(program, (*words, ask), engine, installed_version(program, _PACKAGES.get(engine)))


def _subcommand(program: str) -> tuple[str, ...]:
    name = program.rsplit("/", 1)[-1]
    return ("serve",) if name in ("vllm", "sglang", "vllm.entrypoints.cli.main", "sglang.cli.main") else ()


def _script(command: Command) -> tuple[str, ...] | None:
    """`python /usr/bin/vllm serve`: an engine's script started by its interpreter."""
    if command.script is None or command.layout.engine is None or command.interpreter is None:
        return None
    return (command.interpreter, command.script, *_subcommand(command.script))


def _which(word: str, command: Command) -> Path | None:
    path = dict(command.env).get("PATH", os.environ.get("PATH"))
    found = shutil.which(word, path=path)
    return Path(found).absolute() if found else None


def installed_version(program: Path, package: str | None) -> str | None:
    """The version in the package's metadata under the program's own environment; nothing is run or imported."""
    if package is None:
        return None
    prefixes = dict.fromkeys((program.parent.parent, program.resolve().parent.parent, _prefix_of_script(program)))
    for prefix in prefixes:
        if prefix is None:
            continue
        for folder in sorted(prefix.glob("lib*/python3*/*-packages"), reverse=True):
            for info in folder.glob(f"{package}-*.dist-info"):
                if version := re.fullmatch(rf"{package}-([0-9][^-]*)\.dist-info", info.name):
                    return version[1]
    return None


def _prefix_of_script(program: Path) -> Path | None:
    """A console script names its interpreter in its first line; that one's environment holds the package."""
    with contextlib.suppress(OSError), program.open("rb") as file:
        first = file.readline(512).decode("utf-8", "replace").strip()
        if first.startswith("#!/") and "python" in first:
            return Path(first.removeprefix("#!").split()[0]).parent.parent
    return None


def _ask(installed: Installed, command: Command, timeout: float) -> FlagCatalogue | None:
    # A wide terminal keeps argparse from wrapping names; the rest of the environment is the launch's own.
    env = {**os.environ, **dict(command.env), "COLUMNS": "200", "NO_COLOR": "1"}
    result = run_program(installed.argv, timeout=timeout, env=env)
    if not result.ok:
        return None
    found = catalogue_from_help(result.stdout or result.stderr, installed.engine, installed.version, "installed")
    if len(found.flags) < _FEWEST_FLAGS:
        return None
    shipped = nearest_shipped(installed.engine, installed.version)
    if shipped is not None and installed.version is not None and _release(installed.version) == shipped.version:
        # The parser of this very version was read once: it also told types and flags that the help hides.
        names = set(found.spellings)
        hidden = tuple(flag for flag in shipped.flags if not names & set(flag.spellings))
        found = replace(found.with_types_of(shipped), flags=found.with_types_of(shipped).flags + hidden)
    return found


def _release(version: str) -> str:
    return version.partition("+")[0]


def _read(path: Path) -> FlagCatalogue | None:
    """A cached catalogue; whatever is not one counts as not there."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        return FlagCatalogue.from_json(path.read_text("utf-8"))
    return None


def _write(path: Path, found: FlagCatalogue) -> None:
    """Whole or not at all; a cache that can't be written is only slower."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".new", delete=False, encoding="utf-8") as file:
            file.write(found.to_json())
        Path(file.name).replace(path)
