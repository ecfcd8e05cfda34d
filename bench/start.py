"""How long whole processes take on one small log: Crashcart, fail2ban-regex where it is installed, and bare Python.

    .venv/bin/python bench/start.py [rounds]

The programs take turns, so that whatever else the machine does falls on all of them; medians are shown. The first
run of each, which fills caches, does not count.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRASHCART = str(Path(sys.executable).with_name("crashcart"))
SIZE = 40_000
LAUNCH = ("python3", "-m", "sglang.launch_server", "--model-path", "m", "--num-speculative-tokens", "16")


def small_log(folder: Path) -> Path:
    """A log of 40 kB: a server that ran, and then one that refused its arguments."""
    healthy = (ROOT / "fixtures/healthy/sglang/0.5.23-serving.log").read_bytes()
    refused = (ROOT / "fixtures/captured/sglang-0.5.9/unknown-num-speculative-tokens.log").read_bytes()
    room = SIZE - len(refused)
    path = folder / "server.log"
    path.write_bytes(healthy[: healthy.rfind(b"\n", 0, room) + 1] + refused)
    return path


def programs(log: Path) -> dict[str, list[str]]:
    """What is measured, by its name in the table."""
    found = {
        "bare Python (`python -c pass`)": [sys.executable, "-c", "pass"],
        "`crashcart diagnose LOG`": [CRASHCART, "diagnose", str(log)],
        "`crashcart diagnose LOG -- COMMAND`": [CRASHCART, "diagnose", str(log), "--", *LAUNCH],
        "`crashcart check -- COMMAND`": [CRASHCART, "check", "--", *LAUNCH],
    }
    other = shutil.which("fail2ban-regex")
    if other is not None:
        found["`fail2ban-regex LOG`, one rule"] = [other, str(log), r"error: unrecognized arguments: <F-ID>.+</F-ID>$"]
    return found


def timed(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """The seconds that passed, and those of processor time."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0  # it was waited for above
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measures and prints a table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as name:
        environment = {**os.environ, "CRASHCART_STATE": f"{name}/state"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        commands = programs(small_log(Path(name)))
        runs: dict[str, list[tuple[float, float]]] = {title: [] for title in commands}
        for turn in range(rounds + 1):
            for title, command in commands.items():
                took = timed(command, environment)
                if turn:
                    runs[title].append(took)
    sys.stdout.write(f"Python {platform.python_version()}, {os.cpu_count()} processors, {rounds} rounds\n\n")
    sys.stdout.write("| process | wall, s | processor, s | × bare Python |\n|---|---|---|---|\n")
    bare = statistics.median(cpu for _, cpu in next(iter(runs.values())))
    for title, taken in runs.items():
        wall, cpu = (statistics.median(column) for column in zip(*taken, strict=True))
        sys.stdout.write(f"| {title} | {wall:.3f} | {cpu:.3f} | {cpu / bare:.0f} |\n")


if __name__ == "__main__":
    main()
