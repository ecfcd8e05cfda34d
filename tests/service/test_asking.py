from __future__ import annotations

import http.server
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.core.errors import NotFoundError
from app.core.model import Diagnosis, Exit, Fix, Progress
from app.core.vocabulary import Phase, Safety, ServerState
from app.service.asking import Answer, Until, healthy, look, told, wait
from app.store.positions import Position, Reached
from app.store.store import Store
from app.store.views import ServerView
from app.store.words import AttemptKind, Decision

Diagnosing = Callable[..., Diagnosis]
Waiting = Callable[..., Future[Answer]]
LOADING = Progress(Phase.LOADING, 67.0)


@pytest.fixture
def waiting(store: Store) -> Iterator[Waiting]:
    """Begins a wait beside the test, in a store of its own, and lets it have a first look."""

    def begin(
        until: Until = Until.READY, timeout: float | None = 10, grace: float = 0.3, poll: float = 0.02
    ) -> Future[Answer]:
        def run() -> Answer:
            with Store.open(store.state) as other:
                return wait(other, "kimi", until, timeout, poll=poll, grace=grace)

        future = pool.submit(run)
        time.sleep(0.15)
        return future

    with ThreadPoolExecutor(2) as pool:
        yield begin


@pytest.fixture
def acting(store: Store) -> Iterator[None]:
    """This process acts for kimi."""
    with store.lock_server("kimi"):
        yield


def server(store: Store) -> ServerView:
    view = store.get_server("kimi")
    assert view is not None
    return view


def load(store: Store, pid: int | None = None) -> int:
    launch = store.begin_launch("kimi", ["serve"], None)
    if pid is not None:
        store.launch_started(launch, pid, pid)
    store.set_state("kimi", ServerState.LOADING, "Loading safetensors: 67%", LOADING)
    return launch


# What a killed Crashcart leaves behind: a server that loads, its process alive or not.
_LEFT = textwrap.dedent(
    """
    import os, signal, subprocess, sys
    from pathlib import Path
    from app.core.model import Progress
    from app.core.vocabulary import Phase, ServerState
    from app.store.store import Store
    with Store.open(Path(sys.argv[1])) as store, store.lock_server("kimi"):
        launch = store.begin_launch("kimi", ["serve"], None, health_url=sys.argv[3])
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.DEVNULL)
        store.launch_started(launch, child.pid, child.pid)
        store.set_state("kimi", ServerState(sys.argv[2]), "last words", Progress(Phase.LOADING, 67.0))
        print(child.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
)


@pytest.fixture
def left(store: Store) -> Iterator[Callable[..., int]]:
    """Lets a Crashcart be killed; gives the pid of the server process that outlives it."""
    pids: list[int] = []

    def leave(state: ServerState = ServerState.LOADING, health: str = "") -> int:
        words = [sys.executable, "-c", _LEFT, str(store.state), state, health]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
        pids.append(int(done.stdout))
        return pids[-1]

    yield leave
    for pid in pids:
        subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)


def kill(pid: int, store: Store) -> None:
    """Kills a left-over process and waits until it is gone."""
    subprocess.run(["kill", "-9", str(pid)], check=True)
    deadline = time.monotonic() + 5
    while look(server(store)).pid is not None and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.usefixtures("acting")
def test_ready_is_told_at_that_moment(store: Store, waiting: Waiting) -> None:
    load(store)
    future = waiting()
    begin = time.monotonic()
    store.set_state("kimi", ServerState.READY, "health answered 200 in 0.1 s")

    answer = future.result(5)

    assert time.monotonic() - begin < 1
    assert (answer.exit_code, answer.text) == (0, "ready: health answered 200 in 0.1 s")


@pytest.mark.usefixtures("acting")
def test_a_death_that_nothing_is_done_about_is_told_within_a_second(
    store: Store, waiting: Waiting, diagnosed: Diagnosing
) -> None:
    launch = load(store)
    future = waiting()
    begin = time.monotonic()
    store.record_death(launch, Exit(signal="SIGKILL"), Phase.LOADING, diagnosed(), decision=Decision.NONE)

    answer = future.result(5)

    assert time.monotonic() - begin < 1
    assert (answer.exit_code, answer.text) == (1, "killed by SIGKILL at loading 67 %")
    assert answer.diagnosis == diagnosed()


@pytest.mark.usefixtures("acting")
def test_wait_goes_on_while_it_is_being_decided_and_relaunched(
    store: Store, waiting: Waiting, diagnosed: Diagnosing
) -> None:
    launch = load(store)
    future = waiting()
    incident = store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosed())
    time.sleep(0.1)
    attempt = store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"])
    time.sleep(0.1)
    store.begin_launch("kimi", ["serve", "--fixed"], None, attempt_id=attempt)
    time.sleep(0.1)
    assert not future.done()
    store.set_state("kimi", ServerState.READY, "health answered 200")

    assert future.result(5).exit_code == 0


@pytest.mark.usefixtures("acting")
def test_a_proposal_ends_the_wait_and_comes_with_it(store: Store, waiting: Waiting, diagnosed: Diagnosing) -> None:
    launch = load(store)
    future = waiting()
    incident = store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosed())
    fix_id = store.propose(incident, Fix(set={"--a": "1"}), ["serve", "--a", "1"], Safety.SAFE)

    answer = future.result(5)

    assert (answer.exit_code, answer.incident_id) == (1, incident)
    assert answer.proposal is not None
    assert answer.proposal.id == fix_id


@pytest.mark.usefixtures("acting")
def test_giving_up_ends_the_wait_with_the_reason(store: Store, waiting: Waiting, diagnosed: Diagnosing) -> None:
    launch = load(store)
    future = waiting()
    incident = store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosed())
    store.needs_human(incident, "the same failure after the fix")

    answer = future.result(5)

    assert (answer.exit_code, answer.state) == (1, ServerState.GAVE_UP)
    assert answer.text == "exit code 1 at loading 67 %; the same failure after the fix"


@pytest.mark.usefixtures("acting")
def test_time_up_says_what_there_is_instead(store: Store) -> None:
    load(store)

    answer = wait(store, "kimi", timeout=0.05, poll=0.01)

    assert (answer.exit_code, answer.state) == (4, ServerState.LOADING)
    assert answer.text == "not ready within 0 s: loading 67 % (Loading safetensors: 67%)"


@pytest.mark.usefixtures("acting")
def test_a_server_that_hangs_is_told_when_time_is_up(store: Store) -> None:
    load(store)
    store.set_state("kimi", ServerState.HUNG, "no output for 300 s")

    answer = wait(store, "kimi", timeout=0, poll=0.01)

    assert answer.text == "not ready within 0 s: hung (no output for 300 s)"


def test_an_unknown_server_is_refused_with_the_known_ones(store: Store) -> None:
    store.begin_launch("qwen", ["serve"], None)

    with pytest.raises(NotFoundError, match="There is no server 'kimi'") as raised:
        wait(store, "kimi", grace=0.05, poll=0.01)

    assert raised.value.mend == "Known servers: qwen."


def test_a_server_that_is_just_being_started_is_waited_for(store: Store, waiting: Waiting) -> None:
    future = waiting(grace=3)
    with store.lock_server("kimi"):
        load(store)
        store.set_state("kimi", ServerState.READY, "health answered 200")
        answer = future.result(5)

    assert answer.exit_code == 0


@pytest.mark.usefixtures("acting")
def test_a_run_that_has_just_begun_is_waited_for_whatever_the_last_one_came_to(
    store: Store, waiting: Waiting, diagnosed: Diagnosing
) -> None:
    """Its help reading and pre-flight take seconds in which only the old death is in the store."""
    launch = load(store)
    store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosed(), decision=Decision.NONE)
    store._supervise("kimi", None, None, ())

    future = waiting()
    assert not future.done()
    load(store)
    store.set_state("kimi", ServerState.READY, "health answered 200")

    assert future.result(5).exit_code == 0


def test_a_fresh_death_is_told_at_once_although_nobody_acts(store: Store, diagnosed: Diagnosing) -> None:
    launch = load(store)
    store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosed(), decision=Decision.NONE)

    begin = time.monotonic()
    answer = wait(store, "kimi", grace=5)

    assert time.monotonic() - begin < 1
    assert answer.exit_code == 1


def test_an_old_death_may_be_about_to_be_mended_by_a_new_run(
    store: Store, waiting: Waiting, diagnosed: Diagnosing
) -> None:
    launch = load(store)
    store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosed(), decision=Decision.NONE)
    with store.write() as session:
        at = (datetime.now(UTC) - timedelta(minutes=5)).strftime("%Y-%m-%d %H:%M:%S.%f")
        session.connection().exec_driver_sql("UPDATE server SET since = ?", (at,))

    future = waiting(grace=5)
    assert not future.done()
    with store.lock_server("kimi"):
        load(store)
        store.set_state("kimi", ServerState.READY, "health answered 200")
        answer = future.result(5)

    assert answer.exit_code == 0


@pytest.mark.usefixtures("acting")
def test_down_is_told_at_that_moment(store: Store, waiting: Waiting) -> None:
    launch = load(store)
    future = waiting(Until.DOWN)
    assert not future.done()
    store.launch_ended(launch, Exit(signal="SIGTERM"), Phase.LOADING)

    answer = future.result(5)

    assert (answer.exit_code, answer.state) == (0, ServerState.STOPPED)


@pytest.mark.usefixtures("acting")
def test_down_is_not_missed_when_it_is_launched_again_at_once(
    store: Store, waiting: Waiting, diagnosed: Diagnosing
) -> None:
    launch = load(store)
    future = waiting(Until.DOWN, poll=1.5)  # its second look comes after both
    store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosed())
    store.begin_launch("kimi", ["serve"], None)

    answer = future.result(5)

    assert (answer.exit_code, answer.text) == (0, "exit code 1 at loading 67 %")


def test_the_first_launch_after_the_wait_began_is_not_taken_for_an_end(store: Store, waiting: Waiting) -> None:
    with store.lock_server("kimi"):
        future = waiting(Until.DOWN, timeout=0.6)
        load(store)
        answer = future.result(5)

    assert answer.exit_code == 4


def test_a_killed_crashcart_is_told_with_the_truth_about_the_server(store: Store, left: Callable[..., int]) -> None:
    pid = left()

    answer = wait(store, "kimi")

    assert (answer.exit_code, answer.state) == (1, ServerState.LOADING)
    assert answer.text.startswith(f"process {pid} runs, but the Crashcart (pid ")
    assert answer.text.endswith("that supervised it is gone; last seen: loading 67 %")


def test_a_server_that_died_with_its_crashcart_is_down(store: Store, left: Callable[..., int]) -> None:
    kill(left(), store)

    answer = wait(store, "kimi")
    truth = look(server(store))

    assert (answer.exit_code, answer.state, truth.pid) == (1, ServerState.EXITED, None)
    assert truth.evidence.startswith("gone: neither process")
    assert wait(store, "kimi", Until.DOWN).exit_code == 0


class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A health endpoint: /health answers 200, all else 503."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as web:
        threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


@pytest.mark.parametrize("seen", [ServerState.READY, ServerState.LOADING])
def test_a_server_that_outlived_its_crashcart_is_asked_itself(
    store: Store, left: Callable[..., int], endpoint: str, seen: ServerState
) -> None:
    left(seen, f"{endpoint}/health")

    answer = wait(store, "kimi")

    assert (answer.exit_code, answer.state) == (0, ServerState.READY)
    assert answer.text.startswith(f"ready: {endpoint}/health answers; process ")


def test_a_server_that_was_ready_and_answers_no_more_is_not_called_ready(
    store: Store, left: Callable[..., int], endpoint: str
) -> None:
    left(ServerState.READY, f"{endpoint}/broken")

    assert wait(store, "kimi").exit_code == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/health", "file:///etc/passwd", "nonsense", "http://[bad"])
def test_no_answer_is_not_healthy(url: str) -> None:
    assert not healthy(url)


@pytest.mark.usefixtures("acting")
def test_the_truth_in_one_line(store: Store) -> None:
    load(store)
    view = server(store)

    assert told(view, look(view)) == "loading 67 % (Loading safetensors: 67%)"


def follow(store: Store, state: ServerState, phase: Phase) -> None:
    """A server that others start, as its log told of it."""
    store.watch_server("kimi")
    store.take_in("kimi", [Reached(state, "by its log", Progress(phase))], Position(Path("/var/log/k.log"), 1, 1))


def test_a_followed_server_is_ready_when_its_log_says_so(store: Store, waiting: Waiting) -> None:
    follow(store, ServerState.LOADING, Phase.LOADING)
    answer = waiting()
    follow(store, ServerState.READY, Phase.READY)

    assert (answer.result(5).exit_code, answer.result(5).text) == (0, "ready: by its log")


def test_a_followed_server_that_loads_is_waited_for_until_time_is_up(store: Store) -> None:
    follow(store, ServerState.LOADING, Phase.LOADING)

    assert wait(store, "kimi", timeout=0.05, poll=0.01).exit_code == 4


def test_a_server_that_nobody_has_seen_yet_is_waited_for(store: Store) -> None:
    store.watch_server("kimi")

    assert wait(store, "kimi", timeout=0.05, poll=0.01).exit_code == 4
