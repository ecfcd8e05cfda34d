"""A log that is rotated both ways while it is written fast, and a service that is killed again and again beside it.

Every planted failure must become exactly one entry of the timeline. `make storm` runs the long form.
"""

from __future__ import annotations

import os
import random
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.flow.service import Service

WRITER = Path(__file__).with_name("storm_writer.py")
SEED = 7  # of the moments at which the service is killed


def told(state: Path) -> Counter[int]:
    """How often each planted failure stands in the timeline."""
    with closing(sqlite3.connect(state / "crashcart.db")) as raw:
        texts = [text for (text,) in raw.execute("SELECT text FROM transition WHERE kind = 'failed'")]
    numbers = (re.search(r"(?:allocate|stream) (100\d{3})\b", text) for text in texts)
    return Counter(int(number[1]) if number else 0 for number in numbers)  # 0: an entry for nothing planted


def storm(folder: Path, seconds: float, rate: int, every: float, kills: int) -> tuple[int, Counter[int]]:
    """How many failures were planted, and how often each was told."""
    log = folder / "logs" / "server.log"
    log.parent.mkdir()
    log.touch()
    watch = f"log_roots: ['{log.parent}']\nservers:\n  storm: {{watch: ['{log}'], engine: sglang}}\n"
    with Service(folder, watch) as service:
        return in_the_storm(service, log, seconds, rate, every, kills)


def in_the_storm(
    service: Service, log: Path, seconds: float, rate: int, every: float, kills: int
) -> tuple[int, Counter[int]]:
    random.seed(SEED)
    words = [sys.executable, str(WRITER), str(log), str(seconds), str(rate), str(every)]
    service.until_ready()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as writer:
        begin = time.monotonic()
        moments = sorted(random.uniform(0.02, 0.95) * seconds for _ in range(kills))
        for moment in moments:
            time.sleep(max(0.0, begin + moment - time.monotonic()))
            service.kill()
            service.start()
        planted = int(writer.communicate(timeout=seconds + 60)[0])
    last = 100_000 + planted
    deadline = time.monotonic() + 40
    while last not in told(service.state) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(1.5)  # what would be told twice is told by now
    service.stop()
    return planted, told(service.state)


def test_every_failure_is_told_exactly_once_in_a_storm(tmp_path: Path) -> None:
    planted, found = storm(tmp_path, seconds=16, rate=5000, every=1.7, kills=6)
    assert planted >= 25
    assert found == Counter(range(100_001, 100_001 + planted))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_failure_is_told_exactly_once_in_a_long_storm(tmp_path: Path) -> None:
    planted, found = storm(
        tmp_path, seconds=float(os.environ.get("STORM_SECONDS", "180")), rate=5000, every=3, kills=50
    )
    assert found == Counter(range(100_001, 100_001 + planted))
