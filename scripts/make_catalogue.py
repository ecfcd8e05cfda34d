"""Makes a shipped flag catalogue from a real server's own parser or help text.

    .venv/bin/python scripts/make_catalogue.py sglang 0.5.23 -- PYTHON -m sglang.launch_server --help
    .venv/bin/python scripts/make_catalogue.py vllm 0.32.0 -- PYTHON -m vllm.entrypoints.cli.main serve --help=all
    .venv/bin/python scripts/make_catalogue.py llamacpp b6341 --text -- llama-server --help

Without `--text` the command has to be `PYTHON -m MODULE ... --help` of an argparse program. Its module is started with
`--help` as always, but where it would print the help of its parser, that parser's flags are written down: so value
types and repeated values are what the program really demands, which a help text does not tell. With `--text` the
printed help is read instead. The result is written to `app/core/catalogues/ENGINE-VERSION.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.core.catalogue import Flag, FlagCatalogue, Takes
from app.core.helptext import catalogue_from_help, traits_of, with_early_aliases
from app.core.vocabulary import Engine

FOLDER = Path(__file__).parent.parent / "app" / "core" / "catalogues"
TYPES = {
    "int": "int",
    "float": "float",
    "loads": "json",
    "human_readable_int": "human-int",
    "human_readable_int_or_auto": "human-int-or-auto",
}
# Runs inside the engine's interpreter. The marker keeps the answer apart from what the module itself prints.
PROBE = r"""
import argparse, json, runpy, sys

def type_name(kind):
    if kind is None:
        return None
    inner = [cell.cell_contents for cell in getattr(kind, "__closure__", None) or ()]
    inner = [entry for entry in inner if callable(entry)]
    return type_name(inner[0]) if len(inner) == 1 else getattr(kind, "__name__", None)

def dump(parser, file=None):
    flags = [{
        "options": action.option_strings, "nargs": action.nargs, "type": type_name(action.type),
        "choices": [str(choice) for choice in action.choices] if action.choices is not None else [],
        "required": bool(action.required and action.option_strings), "hidden": action.help == argparse.SUPPRESS,
    } for action in parser._actions]
    print("@@flags@@" + json.dumps({"abbreviations": parser.allow_abbrev, "flags": flags}), flush=True)
    sys.exit(0)

argparse.ArgumentParser.print_help = dump
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Make a shipped flag catalogue from a real server.")
    parser.add_argument("engine", type=Engine, choices=list(Engine))
    parser.add_argument("version")
    parser.add_argument("--text", action="store_true", help="read the printed help")
    parser.add_argument("command", nargs="+", help="-- and the command that prints the help")
    options = parser.parse_args()
    made = (
        catalogue_from_help(_run(options.command), options.engine, options.version, "shipped")
        if options.text
        else _from_parser(options.command, options.engine, options.version)
    )
    path = FOLDER / f"{options.engine.value}-{options.version}.json"
    path.write_text(made.to_json(), "utf-8")
    sys.stdout.write(f"{path}: {len(made.flags)} flags, {path.stat().st_size} bytes\n")
    return 0


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout or done.stderr


def _from_parser(command: list[str], engine: Engine, version: str) -> FlagCatalogue:
    python, dash_m, *arguments = command
    if dash_m != "-m":
        raise SystemExit("the command has to be PYTHON -m MODULE ... --help (or use --text)")
    output = _run([python, "-c", PROBE, *arguments])
    answers = [line for line in output.splitlines() if line.startswith("@@flags@@")]
    if not answers:
        raise SystemExit(f"no help was asked of a parser; the program printed:\n{output[-2000:]}")
    data = json.loads(answers[-1].removeprefix("@@flags@@"))
    flags = with_early_aliases(engine, tuple(_flag(entry) for entry in data["flags"] if entry["options"]))
    return FlagCatalogue(
        engine, version, "shipped", flags, **{**traits_of(engine), "abbreviations": data["abbreviations"]}
    )


def _flag(entry: Mapping[str, Any]) -> Flag:
    options: list[str] = entry["options"]
    negations = tuple(text for text in options if text.startswith("--no-") and f"--{text[5:]}" in options)
    names = [text for text in options if text not in negations]
    name = next((text for text in names if text.startswith("--")), names[0])
    nargs = entry["nargs"]
    takes: dict[Any, Takes] = {0: "none", None: "one", "?": "optional"}
    return Flag(
        name=name,
        aliases=tuple(text for text in names if text != name),
        takes=takes.get(nargs, "many"),
        choices=tuple(entry["choices"]),
        type=TYPES.get(entry["type"] or ""),
        negations=negations,
        required=entry["required"],
        count=nargs if isinstance(nargs, int) and nargs > 0 else None,
        hidden=entry["hidden"],
    )


if __name__ == "__main__":
    sys.exit(main())
