"""Most commands `diagnose` are read without the full parser; both must understand the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from app.cli.commands import build_app
from app.cli.postmortem import Asked, plainly_asked
from app.core.vocabulary import Engine


def test_logs_options_and_the_launch_command_are_read() -> None:
    words = ["a.log", "--exit-code", "-9", "--engine=vllm", "-", "--json", "--", "vllm", "serve", "--json"]
    wanted = Asked(["a.log", "-"], Engine.VLLM, -9, True, ["vllm", "serve", "--json"])
    assert plainly_asked(words) == wanted


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--json"],
        ["a.log", "--help"],
        ["a.log", "--exit-code"],
        ["a.log", "--exit-code", "one"],
        ["a.log", "--engine", "sglan"],
        ["a.log", "--jsn"],
        ["a.log", "-x"],
        ["--", "a.log"],
    ],
    ids=" ".join,
)
def test_what_is_unusual_is_left_to_the_full_parser(words: list[str]) -> None:
    assert plainly_asked(words) is None


def test_the_full_parser_has_no_option_that_is_not_read_here() -> None:
    command = typer.main.get_command(build_app(["diagnose"])).commands["diagnose"]  # type: ignore[attr-defined]
    options = {name for param in command.params for name in param.opts if name.startswith("--")}
    assert options - {"--help"} == {"--engine", "--exit-code", "--json"}


def test_a_diagnosis_imports_no_database_no_client_and_no_parser(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("vllm: error: unrecognized arguments: --foo\n")
    heavy = ["sqlmodel", "sqlalchemy", "httpx", "typer", "rich", "pydantic", "yaml", "psutil"]
    program = (
        "import sys\nfrom app.cli.main import main\ntry:\n    main()\n"
        f"except SystemExit:\n    print('\\n', *(name for name in {heavy!r} if name in sys.modules))"
    )
    for _ in range(2):  # the first run keeps what the second one finds
        run = subprocess.run(
            [sys.executable, "-c", program, "diagnose", log],
            env={"XDG_STATE_HOME": str(tmp_path), "PATH": "/usr/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
    assert run.stdout.splitlines()[-1].split() == []
