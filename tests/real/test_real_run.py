"""`crashcart run`, `wait` and `check` on real servers: from a wrong command to a healthy server, unattended."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from app.core.vocabulary import IncidentStatus, Phase, ServerState
from app.store.store import Store
from app.store.views import IncidentView, LaunchView
from tests.real.conftest import installed
from tests.real.crashcart import Crashcart
from tests.real.servers import RealServer
from tests.real.tiny_model import write_model

pytestmark = pytest.mark.real

NAME = "real"
PATIENCE = 600.0

# Two mistakes each: another engine's name, and letters swapped.
MISTAKES = {
    "sglang": ("--max-model-len", "256", "--chunked-prefil-size", "128"),
    "vllm": ("--context-length", "256", "--max-num-batchd-tokens", "512"),
}
CORRECTED = {
    "sglang": ("--context-length", "256", "--chunked-prefill-size", "128"),
    "vllm": ("--max-model-len", "256", "--max-num-batched-tokens", "512"),
}


def test_a_command_with_two_mistakes_becomes_ready_unattended_and_wait_returns_at_that_moment(
    server: RealServer, model: Path, port: int, tmp_path: Path, crashcart: Crashcart
) -> None:
    command = server.command(model, port, *MISTAKES[server.engine])
    options = ("--name", NAME, "--mode", "auto", "--no-preflight", "--settle", "3")
    run = crashcart.start("run", *options, "--", *command, output=tmp_path / "run.out")
    assert crashcart.seen(lambda store: store.get_server(NAME), run, 60) is not None
    waited = crashcart.answer("wait", NAME, "--until", "ready", "--timeout", str(PATIENCE), timeout=PATIENCE + 10)
    returned = time.time()
    assert waited.returncode == 0, (waited.stdout, (tmp_path / "run.out").read_text()[-3000:])
    with Store.open(crashcart.state) as store:
        view = store.get_server(NAME)
    assert view is not None
    assert view.state is ServerState.READY
    assert returned - view.since.timestamp() < 1.5
    incident = crashcart.seen(_resolved, run, 60)
    assert incident is not None
    assert incident.launches[-1].command == tuple(server.command(model, port, *CORRECTED[server.engine]))


def test_check_names_both_mistakes_before_anything_starts(
    server: RealServer, model: Path, port: int, crashcart: Crashcart
) -> None:
    found = crashcart.json("check", "--", *server.command(model, port, *MISTAKES[server.engine]), timeout=180)
    assert found["ok"] is False
    text = str(found["findings"])
    assert [flag for flag in MISTAKES[server.engine][::2] if flag not in text] == []


def test_check_finds_nothing_wrong_with_a_healthy_command(
    server: RealServer, model: Path, port: int, crashcart: Crashcart
) -> None:
    found = crashcart.json("check", "--", *server.command(model, port), timeout=180)
    assert found == {"ok": True, "findings": []}


def test_wait_tells_of_a_kill_while_loading_within_a_second(
    server: RealServer, port: int, tmp_path: Path, crashcart: Crashcart
) -> None:
    model = write_model(tmp_path / "large", shards=2000, layers=230)
    command = server.command(model, port)
    options = ("--name", NAME, "--mode", "off", "--no-preflight")
    run = crashcart.start("run", *options, "--", *command, output=tmp_path / "run.out")
    assert crashcart.seen(lambda store: store.get_server(NAME), run, 60) is not None
    wait = crashcart.start("wait", NAME, "--timeout", str(PATIENCE), output=tmp_path / "wait.out")
    percent = crashcart.seen(_loading, run, PATIENCE)
    assert percent is not None, (tmp_path / "run.out").read_text()[-3000:]
    pid, _ = percent
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    assert wait.wait(20) == 1
    assert time.monotonic() - killed < 1.0
    told = (tmp_path / "wait.out").read_text()
    assert "killed by SIGKILL" in told
    assert "%" in told


@pytest.mark.parametrize("name", ["sglang-0.5.9", "sglang-0.5.23"])
def test_the_seed_story_reaches_accepted_arguments_and_loading(
    name: str, model: Path, port: int, tmp_path: Path, crashcart: Crashcart
) -> None:
    server = installed(name)
    speculative = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(model))
    wrong = (*speculative, "--speculative-eagle-topk", "4", "--num-speculative-tokens", "16")
    command = ["SGLANG_ENABLE_SPEC_V2=True", *server.command(model, port, *wrong)]
    options = ("--name", NAME, "--mode", "auto", "--allow", "degrading", "--no-preflight")
    run = crashcart.start("run", *options, "--", *command, output=tmp_path / "run.out")
    reached = crashcart.seen(_reached_loading, run, PATIENCE)
    assert reached is not None, (tmp_path / "run.out").read_text()[-3000:]
    assert ("--speculative-num-draft-tokens", "16") in list(zip(reached.command, reached.command[1:], strict=False))
    assert ("--speculative-num-steps", "3") in list(zip(reached.command, reached.command[1:], strict=False))


def _resolved(store: Store) -> IncidentView | None:
    found = store.incidents(server=NAME, status=IncidentStatus.RESOLVED, limit=1)
    return store.incident(found[0].id) if found else None


def _loading(store: Store) -> tuple[int, float] | None:
    view = store.get_server(NAME)
    if view is None or view.pid is None or view.progress is None or not view.progress.percent:
        return None
    return (view.pid, view.progress.percent) if view.progress.phase is Phase.LOADING else None


def _reached_loading(store: Store) -> LaunchView | None:
    return next((launch for launch in store.launches(NAME) if launch.phase.order >= Phase.LOADING.order), None)
