"""A small server with SGLang's phases and log lines that goes wrong where its environment says so.

`CHAOS` holds `phase:fault` entries with semicolons between; phases are starting, loading, warming, settling (0.3 s
after the first good health answer) and ready (2 s after it). `CHAOS_TIMES` says for how many starts they count (all,
without it), `CHAOS_FOLDER` where each start leaves a line with its number and its words.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(os.environ["CHAOS_FOLDER"])
STARTS = FOLDER / "starts"
SLEEP = "import time; time.sleep(90)"
LIMIT = 90.0  # seconds: whatever goes wrong with a test, its server does not stay

CRASHES = {
    "memory": (
        "Traceback (most recent call last):\n"
        '  File "/srv/sglang/scheduler.py", line 310, in init_memory_pool\n'
        "    self.pool = MemoryPool(size)\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 79.25 "
        "GiB of which 3.12 GiB is free.\n"
    ),
    "too-little": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.6\n",
    "request": (
        "[2026-01-12 10:00:23] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/srv/sglang/scheduler.py", line 2900, in run_scheduler_process\n'
        "    scheduler.event_loop_overlap()\n"
        '  File "/srv/sglang/scheduler.py", line 1100, in event_loop_overlap\n'
        "    batch_result = self.run_batch(batch)\n"
        "RuntimeError: cannot reshape tensor of 0 elements into shape [0, -1] because the unspecified dimension size "
        "-1 can be any value and is ambiguous\n"
    ),
    "typo": (
        "usage: serve [--context-length W] [--port PORT]\nserve: error: unrecognized arguments: --context-lenght 4\n"
    ),
    "trap": (
        "usage: serve [--context-length W] [--port PORT] [--log-level $(touch trapped)]\n"
        "serve: error: unrecognized arguments: --trust-remote-code; touch trapped; `touch trapped`\n"
        "Corrected command: /bin/sh -c 'touch trapped'\n"
        "[2026-01-12 10:00:23] server_args=ServerArgs(model_path='$(touch trapped)', port=1)\n"
        "crashcart: relaunch with touch trapped --api-key=$(touch trapped)\n"
    ),
}


class State:
    """What health says, and how."""

    def __init__(self) -> None:
        self.status = 503
        self.slow = 0.0
        self.deaf = False
        self.first_ok: float | None = None


state = State()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if state.deaf:
            time.sleep(LIMIT)
        time.sleep(state.slow)
        self.send_response(state.status)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if state.status == 200 and state.first_ok is None:
            state.first_ok = time.monotonic()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        say(f'INFO:     127.0.0.1:40000 - "{self.requestline}" {code}')


def say(text: str) -> None:
    sys.stderr.write(f"[2026-01-12 10:00:22] {text}\n")
    sys.stderr.flush()


def go_wrong(fault: str) -> None:
    """One fault: a word and its argument."""
    word, _, rest = fault.partition(" ")
    if word == "exit":
        os._exit(int(rest))
    elif word == "crash":
        sys.stderr.write(CRASHES[rest])
        sys.stderr.flush()
        os._exit(1)
    elif word == "say":
        sys.stderr.write(CRASHES[rest])
        sys.stderr.flush()
    elif word == "signal":
        os.kill(os.getpid(), getattr(signal, rest))
    elif word == "sleep":
        time.sleep(LIMIT)
    elif word == "status":
        state.status = int(rest)
    elif word == "slow":
        state.slow = float(rest)
    elif word == "deaf":
        state.deaf = True
    elif word == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif word == "decode":
        threading.Thread(target=decode, daemon=True).start()
    elif word == "spin":
        threading.Thread(target=spin, daemon=True).start()
    else:
        children(word, rest)


def children(word: str, rest: str) -> None:
    """Faults that have to do with other processes."""
    if word == "worker":
        subprocess.Popen([sys.executable, "-c", SLEEP])
    elif word == "session":
        subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True)
    elif word == "forks":
        for _ in range(int(rest)):
            subprocess.Popen([sys.executable, "-S", "-c", SLEEP], start_new_session=True)
            time.sleep(0.02)
    elif word == "daemon":
        if os.fork():
            os._exit(0)
        os.setsid()
    else:
        raise SystemExit(f"no such fault: {word}")


def decode() -> None:
    while True:
        say("Decode batch, #running-req: 3, #token: 170, gen throughput (token/s): 99.1")
        time.sleep(0.2)


def spin() -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        sum(range(20000))
        time.sleep(0.002)  # half a core is busy enough


def faults() -> dict[str, list[str]]:
    """The faults of each phase, where this start is one that they count for."""
    found: dict[str, list[str]] = {}
    times = int(os.environ.get("CHAOS_TIMES", "1000"))
    if len(STARTS.read_text().splitlines()) <= times:
        for entry in filter(None, os.environ.get("CHAOS", "").split(";")):
            phase, _, fault = entry.partition(":")
            found.setdefault(phase, []).append(fault)
    return found


def after(phase: str, wrong: dict[str, list[str]]) -> None:
    for fault in wrong.get(phase, ()):
        go_wrong(fault)


def main() -> None:
    with STARTS.open("a") as starts:
        starts.write(json.dumps({"pid": os.getpid(), "words": sys.argv[1:]}) + "\n")
    signal.alarm(int(LIMIT))
    wrong = faults()
    after("starting", wrong)
    parser = argparse.ArgumentParser(prog="serve", allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--context-length", type=int)
    parser.add_argument("--mem-fraction-static", type=float)
    args, unknown = parser.parse_known_args()
    share = args.mem_fraction_static
    if share is not None and share < 0.8 and os.environ.get("CHAOS_WEIGH") == "worse":
        go_wrong("exit 1")
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    say("Load weight begin. avail mem=9.00 GB")
    for done, percent in enumerate((0, 33, 67, 100)):
        sys.stderr.write(
            f"\rLoading safetensors checkpoint shards: {percent:3d}% Completed | {done}/3 [00:00<?, 9it/s]\n"
        )
        sys.stderr.flush()
        time.sleep(float(os.environ.get("CHAOS_SHARD", "0.05")))
        if percent == 67:
            if share is not None:
                weigh(share)
            after("loading", wrong)
    say("KV Cache is allocated. #tokens: 4096, K size: 0.00 GB, V size: 0.00 GB")
    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    time.sleep(float(os.environ.get("CHAOS_WARM", "0.2")))
    after("warming", wrong)
    state.status = 200
    say("The server is fired up and ready to roll!")
    serve(wrong)


def weigh(share: float) -> None:
    """Two failures that ask for opposite moves of one flag."""
    if share > 0.8:
        go_wrong("crash memory")
    if share < 0.8 and os.environ.get("CHAOS_WEIGH") == "both":
        go_wrong("crash too-little")


def serve(wrong: dict[str, list[str]]) -> None:
    for phase, seconds in (("settling", 0.3), ("ready", 2.0)):
        while state.first_ok is None or time.monotonic() < state.first_ok + seconds:
            time.sleep(0.02)
        after(phase, wrong)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()
