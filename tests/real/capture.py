"""Makes a failure on a real server and keeps its log as a fixture, with this machine's paths replaced.

    python -m tests.real.capture SERVER [NAME ...]      e.g. sglang-0.5.9 bare-assertion

Writes fixtures/captured/SERVER/NAME.log and NAME.yaml (what was typed, and what the diagnosis must say).
"""

from __future__ import annotations

import re
import socket
import sys
import tempfile
from pathlib import Path

import yaml

from app.core.text import strip_ansi
from tests.real.failures import Failure, failures_of
from tests.real.launching import Ended, fail, split
from tests.real.servers import SERVERS, RealServer

CAPTURED = Path(__file__).resolve().parents[2] / "fixtures" / "captured"


def capture(server: RealServer, failure: Failure) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        ended = fail(server, failure, Path(folder))
        return _keep(server, failure, ended, Path(folder))


def _keep(server: RealServer, failure: Failure, ended: Ended, folder: Path) -> Path:
    def neutral(text: str) -> str:
        for path, name in (
            (server.folder, "/opt/venv"),
            (folder / "model", "/models/tiny"),
            (Path.home(), "/home/user"),
        ):
            text = text.replace(str(path), name)
        return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "host", text)

    text = neutral(ended.log.read_bytes().decode(errors="replace"))
    words = [neutral(word) for word in ended.words]
    env, argv = split(words)
    target = CAPTURED / server.name / f"{failure.name}.log"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, newline="")
    expected = {
        "argv": argv,
        "env": env,
        "exit_code": ended.exit_code,
        "phase": failure.phase,
        "category": failure.category,
        "line": _proof(failure, text),
        "command": failure.corrected(words) if failure.correctable else None,
    }
    target.with_suffix(".yaml").write_text(yaml.safe_dump(expected, sort_keys=False, width=120))
    return target


def _proof(failure: Failure, text: str) -> str | None:
    """The proving line as a person sees it, None for a death that the log doesn't show."""
    if failure.category == "killed-by-signal":
        return None
    lines = [strip_ansi(line.rstrip("\r").rsplit("\r", 1)[-1]) for line in text.split("\n")]
    return next(line for line in lines if failure.proven_by(line))


def main(arguments: list[str]) -> int:
    server = next((server for server in SERVERS if arguments and server.name == arguments[0]), None)
    if server is None or not server.installed:
        sys.stderr.write(f"{__doc__}\nServers: {', '.join(server.name for server in SERVERS if server.installed)}\n")
        return 2
    for failure in failures_of(server.name):
        if arguments[1:] and failure.name not in arguments[1:]:
            continue
        sys.stdout.write(f"{capture(server, failure)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
