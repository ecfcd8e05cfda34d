"""How long a failure takes from its write to a committed incident, with many followed files of which one floods.

Beside it, in the same run: how long raw inotify takes to tell of the same kind of write.
Usage: python bench/watch_latency.py [FILES] [SAMPLES] [FLOOD_LINES_PER_SECOND]
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from tests.flow.service import Service

LIBC = ctypes.CDLL(None, use_errno=True)
IN_MODIFY = 2
FLOODER = """
import sys, time
path, rate = sys.argv[1], int(sys.argv[2])
line = "[2026-01-12 10:00:00 TP0] Decode batch, #running-req: 3, #token: 17, gen throughput: 99.1\\n"
begin, sent = time.monotonic(), 0
with open(path, "a", buffering=1) as file:
    while True:
        due = int((time.monotonic() - begin) * rate)
        file.write(line * (due - sent)); file.flush(); sent = due
        time.sleep(0.01)
"""
FAILURE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {number}.00 MiB.\n"


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    samples = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    rates = [int(sys.argv[3])] if len(sys.argv) > 3 else [0, 500, 4000]
    say("| flood, lines/s | followed files | median | p99 | worst | raw inotify median | p99 |")
    say("|---|---|---|---|---|---|---|")
    for rate in rates:
        with tempfile.TemporaryDirectory() as folder:
            ours, raw = measure(Path(folder), files, samples, rate)
        say(f"| {rate:,} | {files} | {told(ours)} | {max(ours):.1f} ms | {told(raw)} |")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def told(times: list[float]) -> str:
    return f"{statistics.median(times):.1f} ms | {p99(times):.1f} ms"


def p99(times: list[float]) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * 0.99))]


def measure(folder: Path, files: int, samples: int, rate: int) -> tuple[list[float], list[float]]:
    logs = folder / "logs"
    logs.mkdir()
    for at in range(files):
        (logs / f"{at}.log").touch()
    servers = "".join(f"  s{at}: {{watch: ['{logs}/{at}.log'], engine: sglang}}\n" for at in range(files))
    with Service(folder, f"log_roots: ['{logs}']\nservers:\n{servers}") as service:
        service.until_ready(60)
        flood = subprocess.Popen([sys.executable, "-c", FLOODER, str(logs / "0.log"), str(rate)]) if rate else None
        try:
            time.sleep(3)
            ours = [failure(service.state, logs, files, number) for number in range(1, samples + 1)]
            raw = inotify(logs, files, samples)
        finally:
            if flood is not None:
                flood.kill()
                flood.wait()
    return ours, raw


def failure(state: Path, logs: Path, files: int, number: int) -> float:
    """Milliseconds until the failure stands in the database."""
    with closing(sqlite3.connect(f"file:{state / 'crashcart.db'}?mode=ro", uri=True)) as raw:
        before = raw.execute("SELECT max(id) FROM transition").fetchone()[0] or 0
        path = logs / f"{1 + number % (files - 1)}.log"
        begin = time.perf_counter()
        with path.open("a") as file:
            file.write(FAILURE.format(number=number))
        query = "SELECT count(*) FROM transition WHERE id > ? AND kind = 'failed'"
        while not raw.execute(query, (before,)).fetchone()[0]:
            if time.perf_counter() - begin > 10:
                raise SystemExit(f"failure {number} was not told within 10 s")
            time.sleep(0.0005)
    seconds = time.perf_counter() - begin
    time.sleep(0.02)
    return seconds * 1000


def inotify(logs: Path, files: int, samples: int) -> list[float]:
    """Milliseconds until a bare watch tells of a write to the same files."""
    return [_raw(logs, 1 + number % (files - 1)) for number in range(samples)]


def _raw(logs: Path, at: int) -> float:
    watcher = LIBC.inotify_init1(os.O_CLOEXEC)
    LIBC.inotify_add_watch(watcher, os.fsencode(logs), IN_MODIFY)
    name = f"{at}.log".encode()
    begin = time.perf_counter()
    with (logs / f"{at}.log").open("a") as file:
        file.write("a line\n")
    while name + b"\0" not in os.read(watcher, 65536):
        pass
    milliseconds = (time.perf_counter() - begin) * 1000
    os.close(watcher)
    return milliseconds


if __name__ == "__main__":
    main()
