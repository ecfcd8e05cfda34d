from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from app.core.errors import NotFoundError, UsageError
from app.core.model import Diagnosis, Exit, Progress
from app.core.vocabulary import Category, Engine, Phase, ServerState
from app.diagnosis.pipeline import Pipeline
from app.rules.load import load_rules
from app.service.reporting import Report, is_complaint, report
from app.store.store import Store
from app.store.words import Decision

Diagnosing = Callable[..., Diagnosis]
COMMAND = ["python3", "-m", "sglang.launch_server", "--model-path", "m", "--num-speculative-tokens", "16"]
USAGE_ERROR = "launch_server.py: error: unrecognized arguments: --num-speculative-tokens 16\n"


@cache
def pipeline() -> Pipeline:
    return Pipeline(load_rules())


def tell(store: Store, text: str = "crashed", name: str | None = None) -> Report:
    return report(store, text, name, pipeline)


def launch(store: Store, name: str = "kimi", log: Path | None = None) -> int:
    return store.begin_launch(name, COMMAND, Engine.SGLANG, log_path=log)


@pytest.mark.parametrize(
    "text",
    [
        *("crashed", "Crashed!", "crashed,", "down", "killed", "dead", "error", "OOM", "502", "ok", "CRASHED!!!"),
        *("it crashed again", "is it down?", "the server hangs", "server died.", "it hangs at 67 %", "oom again"),
        *("too slow", "not responding", "doesn't work", "won't start", "timed out", "crashed at 3am", "it's dead 😢"),
        *("abgestürzt", "упал", "崩溃了", "caído"),
    ],
)
def test_what_people_say_is_a_complaint(text: str) -> None:
    assert is_complaint(text)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory",
        "Segmentation fault",
        "torch.OutOfMemoryError",
        "Killed\nSegmentation fault",
        "Killed",
        "Aborted (core dumped)",
        "AssertionError",
        "bash: vllm: command not found",
        "/usr/bin/python3: No module named vllm",
        "error: unrecognized arguments: --foo",
        "exit code 137",
        "RuntimeError: crashed",
        "[2026-01-12] crashed",
        "E1201 worker.cc:12] gone",
        "since this morning the server that I run has crashed twice",
    ],
)
def test_what_a_server_says_is_no_complaint(text: str) -> None:
    assert not is_complaint(text)


def test_a_loading_server_is_not_crashed_whatever_people_say(store: Store) -> None:
    with store.lock_server("kimi"):
        launch(store)
        store.set_state("kimi", ServerState.LOADING, "shard 67 of 100", Progress(Phase.LOADING, 67.0))
        answer = tell(store)

    assert (answer.crashed, answer.exit_code) == (False, 0)
    assert answer.text == "not crashed: loading 67 % (shard 67 of 100)"


def test_a_dead_server_is_answered_with_its_diagnosis(store: Store, diagnosed: Diagnosing) -> None:
    incident = store.record_death(launch(store), Exit(signal="SIGKILL"), Phase.LOADING, diagnosed())

    answer = tell(store)

    assert (answer.crashed, answer.exit_code, answer.incident_id) == (True, 1, incident)
    assert answer.text.startswith("crashed: killed by SIGKILL at loading 67 %")
    assert answer.diagnosis == diagnosed()


def test_an_unknown_cause_is_3_as_in_diagnose(store: Store, diagnosed: Diagnosing) -> None:
    store.record_death(launch(store), Exit(code=1), Phase.LOADING, diagnosed(category=Category.UNKNOWN))

    assert tell(store).exit_code == 3


@pytest.mark.parametrize(
    ("decision", "plan"),
    [
        (Decision.PENDING, "; Crashcart is deciding what to do"),
        (Decision.ACTING, "; Crashcart is bringing it back"),
        (Decision.PROPOSAL, "; a fix is proposed"),
        (Decision.NONE, ""),
    ],
)
def test_what_is_being_done_about_it_is_told(
    store: Store, diagnosed: Diagnosing, decision: Decision, plan: str
) -> None:
    with store.lock_server("kimi"):
        store.record_death(launch(store), Exit(code=1), Phase.LOADING, diagnosed(), decision=decision)
        answer = tell(store)

    assert answer.text == "crashed: exit code 1 at loading 67 %" + plan


def test_a_server_that_a_person_stopped_is_not_crashed(store: Store) -> None:
    store.launch_ended(launch(store), Exit(signal="SIGTERM"), Phase.READY)

    answer = tell(store)

    assert (answer.crashed, answer.exit_code) == (False, 0)
    assert answer.text == "not crashed: stopped by a person (killed by SIGTERM after it was ready)"


def test_log_text_is_diagnosed_together_with_the_kept_log(store: Store, tmp_path: Path) -> None:
    """The log of a process whose standard error went elsewhere: the person pastes what they saw there."""
    log = tmp_path / "log"
    log.write_text("usage: launch_server.py [-h] --model-path MODEL_PATH\n")
    with store.lock_server("kimi"):
        launch(store, log=log)
        answer = tell(store, USAGE_ERROR)

    assert answer.diagnosis is not None
    assert answer.diagnosis.causes[0].category is Category.UNKNOWN_ARGUMENT
    assert answer.text.startswith("not crashed: starting")
    assert "but what was sent shows: " in answer.text
    assert answer.exit_code == 1


def test_the_kept_log_is_read_when_nobody_diagnosed_it(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(USAGE_ERROR)
    launch(store, log=log)

    answer = tell(store)

    assert answer.diagnosis is not None
    assert answer.diagnosis.causes[0].category is Category.UNKNOWN_ARGUMENT


def test_a_kept_log_that_is_gone_is_no_obstacle(store: Store, tmp_path: Path) -> None:
    launch(store, log=tmp_path / "gone")

    assert tell(store).crashed


def test_a_server_left_alone_is_answered_from_its_log(
    store: Store, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    log = tmp_path / "log"
    log.write_text("[2026-01-12 10:00:00] The server is fired up and ready to roll!\n")
    store.launch_started(launch(store, log=log), sleeper.pid)

    answer = tell(store)

    assert answer.text == (
        f"not crashed: process {sleeper.pid} runs, but the Crashcart that supervised it is gone; "
        "last seen: starting; by its log: ready"
    )


_LEFT = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from app.core.vocabulary import Engine
    from app.store.store import Store
    with Store.open(Path(sys.argv[1])) as store, store.lock_server("kimi"):
        store.begin_launch("kimi", sys.argv[3:], Engine.SGLANG, log_path=Path(sys.argv[2]))
        os.kill(os.getpid(), signal.SIGKILL)
    """
)


def test_a_death_that_nobody_wrote_down_becomes_an_incident_once(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(USAGE_ERROR)
    subprocess.run([sys.executable, "-c", _LEFT, str(store.state), str(log), *COMMAND], check=False)

    first, second = tell(store), tell(store)

    assert first.text.startswith("crashed: ended unseen while starting (gone: neither its process nor the Crashcart")
    assert first.incident_id is not None
    assert second.incident_id == first.incident_id
    assert [view.category for view in store.incidents()] == [Category.UNKNOWN_ARGUMENT]


def test_a_report_is_part_of_the_timeline_but_log_text_is_not(store: Store, diagnosed: Diagnosing) -> None:
    incident = store.record_death(launch(store), Exit(code=1), Phase.LOADING, diagnosed())
    tell(store, "crashed")
    tell(store, "prompt: 'my secret diary'\nmore")

    told = [line.text for line in store.timeline(incident) if line.kind == "reported"]

    assert told == ["reported: crashed", "reported: 2 lines of log"]


def test_without_a_name_the_only_server_that_is_not_ready_is_meant(store: Store) -> None:
    with store.lock_server("good"), store.lock_server("bad"):
        launch(store, "good")
        store.set_state("good", ServerState.READY, "health answered 200")
        launch(store, "bad")
        answer = tell(store)

    assert answer.server.name == "bad"


def test_several_servers_that_are_not_ready_are_listed(store: Store) -> None:
    with store.lock_server("a"), store.lock_server("b"):
        launch(store, "a")
        launch(store, "b")
        with pytest.raises(
            UsageError, match=r"Several servers are not ready: a \(starting\); b \(starting\)"
        ) as raised:
            tell(store)

    assert raised.value.mend == "Say which one is meant with --server NAME."


def test_when_all_are_ready_a_name_is_asked_for(store: Store) -> None:
    with store.lock_server("a"):
        launch(store, "a")
        store.set_state("a", ServerState.READY, "health answered 200")
        with pytest.raises(UsageError, match=r"All servers are ready: a \(ready\)"):
            tell(store)
        answer = tell(store, name="a")

    assert answer.text == "not crashed: ready (health answered 200)"


def test_without_any_server_the_way_out_is_told(store: Store) -> None:
    with pytest.raises(UsageError, match="No server is known") as raised:
        tell(store)

    assert "crashcart diagnose LOG" in (raised.value.mend or "")


def test_an_unknown_name_is_refused(store: Store) -> None:
    with pytest.raises(NotFoundError, match="There is no server 'kimmi'"):
        tell(store, name="kimmi")


def test_an_empty_report_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="The report is empty"):
        tell(store, " \n")
