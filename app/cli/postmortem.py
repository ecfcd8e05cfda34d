"""The post-mortem of logs: what `crashcart diagnose` does once its words are read."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.cli.launchwords import command_of, parted
from app.cli.render import print_card
from app.cli.styled import Styled, output
from app.core.command import Command
from app.core.errors import UsageError
from app.core.model import Diagnosis, Exit
from app.core.resources import scan_cache
from app.core.vocabulary import Category, Engine, Outcome
from app.diagnosis.pipeline import Pipeline
from app.logs.digest import open_log
from app.rules.load import load_rules

_LOOKED_AT = 4096
_COMPRESSED = {b"(\xb5\x2f\xfd": "zstd -dc", b"\xfd7zXZ": "xz -dc", b"BZh": "bzip2 -dc"}


@dataclass(frozen=True)
class Asked:
    """What a person asks of `diagnose`."""

    logs: Sequence[str]
    engine: Engine | None = None
    exit_code: int | None = None
    as_json: bool = False
    launch: Sequence[str] = ()
    state: Path | None = None


def plainly_asked(words: Sequence[str]) -> Asked | None:
    """Reads the words behind `diagnose` where nothing about them is unusual; None where the full parser has to.

    That parser takes longer to import than most logs take to read.
    """
    own, launch = parted(words)
    logs: list[str] = []
    given: dict[str, str] = {}
    as_json = False
    rest = iter(own)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--json":
            as_json = True
        elif name in ("--exit-code", "--engine"):
            given[name] = value if equals else next(rest, "")
        elif word.startswith("-") and word != "-":
            return None
        else:
            logs.append(word)
    engine, code = given.get("--engine"), given.get("--exit-code")
    if not logs or (engine is not None and engine not in tuple(Engine)):
        return None
    if code is not None and not code.removeprefix("-").isdecimal():
        return None
    return Asked(logs, Engine(engine) if engine else None, int(code) if code else None, as_json, launch)


def diagnose_logs(asked: Asked) -> int:
    """Prints the diagnosis of each log; returns the exit status: 1 where a cause is known, 3 where one is not."""
    command = command_of(asked.launch, asked.engine)
    for log in asked.logs:
        _must_be_text(log)
    cache = scan_cache(asked.state)
    pipeline = Pipeline(load_rules(cache=cache), cache=cache)
    codes = [_one(pipeline, log, command, asked) for log in asked.logs]
    return 1 if 1 in codes else max(codes, default=0)


def _one(pipeline: Pipeline, log: str, command: Command | None, asked: Asked) -> int:
    exit = Exit.from_code(asked.exit_code)
    diagnosis = pipeline.diagnose_file(log, engine=asked.engine, command=command, exit=exit)
    many = len(asked.logs) > 1
    if asked.as_json:
        from app.service.objects import diagnosis_json

        data = diagnosis_json(diagnosis, redact=False)
        sys.stdout.write(json.dumps({"log": log} | data if many else data) + "\n")
    else:
        _show(diagnosis, "standard input" if log == "-" else log, many)
    return exit_status(diagnosis)


def _show(diagnosis: Diagnosis, name: str, many: bool) -> None:
    console = output()
    if many:
        console.print(Styled(f"{name}:", "bold"), soft_wrap=True)
    print_card(console, diagnosis, log=name, redact=False)


def exit_status(diagnosis: Diagnosis) -> int:
    """0 when nothing failed, 1 for a known cause, 3 for an unknown one."""
    if diagnosis.outcome is not Outcome.FAILED or not diagnosis.causes:
        return 0
    return 3 if diagnosis.causes[0].category is Category.UNKNOWN else 1


def _must_be_text(log: str) -> None:
    """Refuses what is certainly no log, with the command that makes one of it."""
    if log == "-":
        return
    path = Path(log)
    if path.is_dir():
        raise UsageError(f"{log} is a folder.", mend="Name a log file in it.")
    if path.exists() and not path.is_file():
        return  # a pipe can be read once only
    with open_log(path) as stream:
        head = stream.read(_LOOKED_AT)
    for magic, tool in _COMPRESSED.items():
        if head.startswith(magic):
            raise UsageError(f"{log} is compressed.", mend=f"Unpack it: {tool} {log} | crashcart diagnose -")
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not wide and head.count(0) > len(head) // 10:
        raise UsageError(f"{log} is a binary file.", mend="Name a text file: the output of the server.")
