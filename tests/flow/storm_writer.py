"""A server's log in a storm: numbered lines at a rate, planted failures, rotated both ways while it is written.

Run as: storm_writer.py LOG SECONDS LINES_PER_SECOND ROTATE_EVERY_SECONDS. Prints the numbers of the planted failures.
Between two writes only, a file is copied and truncated: what a writer loses there is no reader's fault.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

KEPT = 60  # rotated files: what a rotation removes while nobody reads is no reader's fault
FAILURE_EVERY = 2500  # lines
STEP = 0.02  # seconds

OUT_OF_MEMORY = """\
[2026-01-12 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/managers/scheduler.py", line 2000, in run_scheduler_process
    scheduler.event_loop_overlap()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {number}.00 MiB. GPU 0 has a total capacity of 79.11 GiB

"""
ILLEGAL_ACCESS = """\
[2026-01-12 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/managers/scheduler.py", line 2000, in run_scheduler_process
    scheduler.event_loop_overlap()
torch.AcceleratorError: CUDA error: an illegal memory access was encountered (stream {number})

"""


def rotate(log: Path, by_copy: bool) -> None:
    """`log` becomes log.1, that log.2, and so on."""
    for at in range(KEPT, 0, -1):
        old = log.with_name(f"{log.name}.{at}")
        if old.exists():
            old.replace(log.with_name(f"{log.name}.{at + 1}"))
    log.with_name(f"{log.name}.{KEPT + 1}").unlink(missing_ok=True)
    first = log.with_name(f"{log.name}.1")
    if by_copy:
        shutil.copy(log, first)
        with log.open("r+b") as file:
            file.truncate(0)
    else:
        log.replace(first)


def main() -> None:
    log, seconds, rate, every = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    begin = time.monotonic()
    turn, line, planted, by_copy = begin + every, 0, 0, False
    file = log.open("ab", buffering=0)
    while (now := time.monotonic()) < begin + seconds:
        if now >= turn:
            rotate(log, by_copy)
            if not by_copy:
                file.close()
                file = log.open("ab", buffering=0)
            by_copy, turn = not by_copy, turn + every
        due = int((now - begin) * rate)
        text = []
        while line < due:
            line += 1
            text.append(
                f"[2026-01-12 10:00:00 TP0] Decode batch, #running-req: 3, #token: {line}, gen throughput: 99.1\n"
            )
            if line % FAILURE_EVERY == 0:
                planted += 1
                shape = OUT_OF_MEMORY if planted % 2 else ILLEGAL_ACCESS
                text.append(shape.format(number=100_000 + planted))
        file.write("".join(text).encode())
        time.sleep(STEP)
    file.close()
    sys.stdout.write(f"{planted}\n")


if __name__ == "__main__":
    main()
