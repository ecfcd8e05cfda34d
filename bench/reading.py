"""How fast the log of a healthy server is read: 100 MB of what a busy server prints.

    .venv/bin/python bench/reading.py [rounds]

From the processor time of the whole process that of a run on a small log is taken off; the memory is the most that
the process held, beside what it held on the small log.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRASHCART = str(Path(sys.executable).with_name("crashcart"))
SIZE = 100_000_000


def write_log(path: Path, size: int) -> None:
    """A healthy launch, then batches and requests until the size is reached."""
    head = (ROOT / "fixtures/healthy/sglang/0.5.23-serving.log").read_bytes().partition(b"Shutting down")[0]
    with path.open("wb") as file:
        written = file.write(head[: head.rfind(b"\n") + 1])
        number = 0
        while written < size:
            number += 1
            clock = f"2026-01-12 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
            text = (
                f"[{clock} TP0] Decode batch, #running-req: {number % 40}, #token: {number * 7 % 90000}, "
                f"token usage: 0.{number % 90:02}, cuda graph: True, gen throughput (token/s): {number % 900}.25, "
                "#queue-req: 0, \n"
            )
            if number % 5 == 0:
                text += (
                    f'[{clock}] INFO:     10.0.0.{number % 250}:41234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
                )
            written += file.write(text.encode())


def cost(path: Path, state: Path) -> tuple[float, float]:
    """Seconds of processor time, and MiB of memory."""
    environment = {**os.environ, "CRASHCART_STATE": str(state)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen([CRASHCART, "diagnose", str(path)], env=environment, stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0  # it was waited for above
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Measures and prints a table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        small, large, state = Path(name) / "small.log", Path(name) / "large.log", Path(name) / "state"
        write_log(small, 40_000)
        write_log(large, SIZE)
        cost(small, state)
        cost(small, state)
        runs = [(cost(small, state), cost(large, state)) for _ in range(rounds)]
    start = statistics.median(one[0] for one, _ in runs)
    whole = statistics.median(two[0] for _, two in runs)
    more = statistics.median(two[1] - one[1] for one, two in runs)
    sys.stdout.write(f"Python {platform.python_version()}, {os.cpu_count()} processors, {rounds} rounds\n\n")
    sys.stdout.write(
        "| log | processor, s | beyond the start, s | MB/s | memory beyond the start, MiB |\n|---|---|---|---|---|\n"
    )
    speed = SIZE / 1e6 / (whole - start)
    sys.stdout.write(f"| healthy, 100 MB | {whole:.2f} | {whole - start:.2f} | {speed:.0f} | {more:.0f} |\n")


if __name__ == "__main__":
    main()
