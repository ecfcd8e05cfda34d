"""The look around at the moment of a death: read-only, in bounded time, and never a reason to fail."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from app.core.command import Command
from app.supervise.surroundings import PROBES, Reading, Subject, look_around

# Recorded from nvidia-smi 550 on a machine with two GPUs.
GPUS = """\
index, name, driver_version, memory.total [MiB], memory.used [MiB]
0, NVIDIA H100 80GB HBM3, 550.54.15, 81559 MiB, 71234 MiB
1, NVIDIA H100 80GB HBM3, 550.54.15, 81559 MiB, 4 MiB
"""


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return Subject(Command.parse(["SECRET_NAME=swordfish", "vllm", "serve", "org/model"]), tmp_path, time.time())


def test_each_probe_answers_on_this_machine(subject: Subject) -> None:
    found = {one.probe: one for one in look_around(subject, timeout=10)}
    assert list(found) == list(PROBES)
    for name in ("memory", "disk", "listening-ports", "environment-names", "load"):
        assert found[name].available, found[name]


def test_of_the_environment_only_names_are_kept(subject: Subject) -> None:
    [found] = look_around(subject, {"environment-names": PROBES["environment-names"]})
    assert "SECRET_NAME" in found.text.splitlines()
    assert "swordfish" not in found.text


def test_a_probe_that_fails_spoils_no_other(subject: Subject) -> None:
    def broken(_: Subject) -> str:
        raise OSError(5, "Input/output error")

    found = look_around(subject, {"bad": broken, "good": lambda _: "fine"})
    assert found == (
        Reading("bad", available=False, text="OSError: [Errno 5] Input/output error"),
        Reading("good", available=True, text="fine"),
    )


def test_a_probe_that_hangs_is_left_behind(subject: Subject) -> None:
    hold = threading.Event()
    found = look_around(subject, {"hangs": lambda _: str(hold.wait(30)), "good": lambda _: "fine"}, timeout=0.3)
    hold.set()
    assert found == (
        Reading("hangs", available=False, text="no answer within 0.3 s"),
        Reading("good", available=True, text="fine"),
    )


def test_what_the_machine_has_not_is_told(subject: Subject) -> None:
    assert look_around(subject, {"none": lambda _: None}) == (
        Reading("none", available=False, text="not available here"),
    )


def test_secrets_in_an_answer_are_taken_out(subject: Subject) -> None:
    [found] = look_around(subject, {"leaks": lambda _: "token=hf_abcdefghijklmnopqrstuvwxyz0123456789"})
    assert "hf_abc" not in found.text


def test_gpus_are_asked_of_nvidia_smi(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU here: a program of that name prints what a real one printed."""
    program = tmp_path / "nvidia-smi"
    (tmp_path / "said").write_text(GPUS)
    program.write_text(f'#!/bin/sh\ncase "$1" in --query-gpu*) cat {tmp_path}/said;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    [found] = look_around(subject, {"gpus": PROBES["gpus"]})
    assert found == Reading("gpus", available=True, text=GPUS.strip())
