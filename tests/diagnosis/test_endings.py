"""How the words of shells, supervisors and launchers tell a signal."""

from __future__ import annotations

import pytest

from app.core.model import Line
from app.diagnosis.endings import signal_named


@pytest.mark.parametrize(
    ("said", "signal"),
    [
        ("Killed", "SIGKILL"),
        ("/entry.sh: line 8:    12 Killed                  vllm serve /models/a", "SIGKILL"),
        ("Illegal instruction (core dumped)", "SIGILL"),
        ("Segmentation fault (core dumped)", "SIGSEGV"),
        ("server-1 exited with code 137", "SIGKILL"),
        ("      Exit Code:    139", "SIGSEGV"),
        ("llm.service: Main process exited, code=dumped, status=11/SEGV", "SIGSEGV"),
        ("mpirun noticed that process rank 3 with PID 0 on node a exited on signal 9 (Killed).", "SIGKILL"),
        ("failed (exitcode: -9) local_rank: 3 (pid: 4103) of binary: /usr/bin/python3", "SIGKILL"),
        ("  traceback : Signal 7 (SIGBUS) received by PID 4103", "SIGBUS"),
        ('error="llama runner process has terminated: signal: illegal instruction (core dumped)"', "SIGILL"),
        ("Shard process was signaled to shutdown with signal 9", "SIGKILL"),
        ("Worker (pid:7) was sent SIGKILL! Perhaps out of memory?", "SIGKILL"),
        ("python3[812]: segfault at 18 ip 00007f1c sp 00007ffd error 4 in libcuda.so.1", "SIGSEGV"),
    ],
)
def test_a_signal_is_read_from_each_ones_words(said: str, signal: str) -> None:
    assert signal_named(Line(1, said, said)) == signal


@pytest.mark.parametrize(
    "said",
    [
        "server-1 exited with code 1",
        "server-1 exited with code 143",
        "Worker (pid:7) was sent SIGTERM!",
        "failed (exitcode: 1) local_rank: 3 (pid: 4103) of binary: /usr/bin/python3",
        "Killed processes: 0",
        "the user asked what a Segmentation fault is",
    ],
)
def test_no_signal_is_read_from_other_ends(said: str) -> None:
    assert signal_named(Line(1, said, said)) is None
