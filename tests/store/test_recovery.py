"""Crashcart is killed with SIGKILL between a crash and the relaunch: real processes, a real database."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.errors import AlreadyTriedError
from app.core.model import Diagnosis, Exit
from app.core.vocabulary import IncidentStatus, Phase, ServerState
from app.store.processes import alive
from app.store.store import Store
from app.store.words import AttemptKind, AttemptOutcome, Decision

Diagnosing = Callable[..., Diagnosis]

# One run, as it goes through the store. It tells each step and waits until it may go on.
_RUN = textwrap.dedent(
    """
    import subprocess, sys
    from pathlib import Path
    from app.core.model import Diagnosis, Exit
    from app.core.vocabulary import Outcome, Phase
    from app.store.store import Store
    from app.store.words import AttemptKind

    def step(name):
        print(name, flush=True)
        sys.stdin.readline()

    with Store.open(Path(sys.argv[1])) as store, store.lock_server("kimi"):
        step("locked")
        launch = store.begin_launch("kimi", ["serve"], None)
        step("launch begun")
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        store.launch_started(launch, child.pid, child.pid)
        step("launch started")
        child.kill()
        child.wait()
        step("process dead")
        failed = Diagnosis(outcome=Outcome.FAILED, phase=Phase.LOADING, fingerprint="fp-1")
        incident = store.record_death(launch, Exit(signal="SIGKILL"), Phase.LOADING, failed)
        step("death recorded")
        store.claim_death("kimi")
        step("death claimed")
        attempt = store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"], rule="r")
        step("attempt begun")
        store.begin_launch("kimi", ["serve", "--fixed"], None, attempt_id=attempt)
        step("relaunch begun")
    """
)


def run_until(step: str, state: Path) -> None:
    """Runs the process above up to a step and kills it there; its own child is ended too if it lives."""
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            if line.strip() == step:
                break
            process.stdin.write("\n")
            process.stdin.flush()
        process.kill()


def kill_left_over(store: Store) -> None:
    for launch in store.launches("kimi"):
        if launch.process is not None and alive(launch.process):
            subprocess.run(["kill", "-9", str(launch.process.pid)], check=True)


def crash_again(store: Store, diagnosed: Diagnosing) -> int:
    """What the next run does: the same command, which dies of the same failure."""
    with store.lock_server("kimi"):
        store.recover("kimi")
        launch = store.begin_launch("kimi", ["serve"], None)
        return store.record_death(launch, Exit(signal="SIGKILL"), Phase.LOADING, diagnosed("fp-1"))


@pytest.mark.parametrize("step", ["death recorded", "death claimed", "attempt begun", "relaunch begun"])
def test_the_next_run_joins_the_incident_and_doubles_nothing(state: Path, diagnosed: Diagnosing, step: str) -> None:
    run_until(step, state)

    with Store.open(state) as store:
        incident = crash_again(store, diagnosed)
        view = store.incident(incident)
        assert [found.id for found in store.incidents()] == [incident]

    assert view.status is IncidentStatus.OPEN
    assert [line.kind for line in view.timeline].count("died") == 2


@pytest.mark.parametrize("step", ["attempt begun", "relaunch begun"])
def test_an_attempt_that_had_begun_is_interrupted_and_told(state: Path, step: str) -> None:
    run_until(step, state)

    with Store.open(state) as store, store.lock_server("kimi"):
        assert [view.outcome for view in store.interrupted_attempts("kimi")] == [AttemptOutcome.STARTED]
        recovery = store.recover("kimi")
        (attempt,) = store.attempts()
        told = [line.text for line in store.timeline(attempt.incident_id) if line.kind == "interrupted"]

    assert [view.id for view in recovery.interrupted] == [attempt.id]
    assert attempt.outcome is AttemptOutcome.INTERRUPTED
    assert "ended in the middle of this relaunch" in told[0]


def test_an_interrupted_fix_is_not_applied_again_by_itself(state: Path, diagnosed: Diagnosing) -> None:
    run_until("attempt begun", state)

    with Store.open(state) as store:
        incident = crash_again(store, diagnosed)
        with pytest.raises(AlreadyTriedError, match="interrupted"):
            store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"])


def test_an_interrupted_fix_may_be_approved_by_a_person_once(state: Path, diagnosed: Diagnosing) -> None:
    run_until("attempt begun", state)

    with Store.open(state) as store:
        incident = crash_again(store, diagnosed)
        store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"], approved_by="ann")
        with pytest.raises(AlreadyTriedError, match="started"):
            store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"], approved_by="ann")


def test_an_interrupted_attempt_is_neither_a_success_nor_a_failure_of_its_fix(state: Path) -> None:
    run_until("attempt begun", state)

    with Store.open(state) as store:
        store.recover("kimi")
        record = store.fix_record("r", "fp-1")

    assert (record.held, record.failed) == (0, 0)


def test_recovering_twice_tells_nothing_new(state: Path) -> None:
    run_until("attempt begun", state)

    with Store.open(state) as store, store.lock_server("kimi"):
        store.recover("kimi")
        again = store.recover("kimi")
        (attempt,) = store.attempts()
        kinds = [line.kind for line in store.timeline(attempt.incident_id)]

    assert again.interrupted == ()
    assert kinds.count("interrupted") == 1


def test_a_death_that_was_being_dealt_with_is_no_longer_pending(state: Path) -> None:
    run_until("death claimed", state)

    with Store.open(state) as store, store.lock_server("kimi"):
        store.recover("kimi")
        server = store.get_server("kimi")

    assert server is not None
    assert (server.state, server.decision) == (ServerState.EXITED, Decision.NONE)


def test_a_server_that_outlived_crashcart_is_found(state: Path) -> None:
    run_until("launch started", state)

    with Store.open(state) as store:
        (launch,) = store.recover("kimi").unfinished
        found = alive(launch.process)
        kill_left_over(store)

    assert found


@pytest.mark.parametrize("step", ["launch begun", "process dead"])
def test_a_death_that_nobody_wrote_down_can_be_told_later(state: Path, diagnosed: Diagnosing, step: str) -> None:
    run_until(step, state)

    with Store.open(state) as store, store.lock_server("kimi"):
        (launch,) = store.recover("kimi").unfinished
        assert not alive(launch.process)
        incident = store.record_death(launch.id, Exit(), Phase.LOADING, diagnosed("fp-1"))
        assert store.recover("kimi").unfinished == ()

        (line,) = [line for line in store.timeline(incident) if line.kind == "died"]

    assert line.text.startswith("ended unseen at loading 67 %")


def test_a_killed_crashcart_is_not_taken_for_acting(state: Path) -> None:
    run_until("launch begun", state)

    with Store.open(state) as store:
        server = store.get_server("kimi")

    assert server is not None
    assert server.supervisor is not None
    assert not alive(server.supervisor)


# Goes through many deaths as fast as it can, and says what it has done only after it is stored.
_BUSY = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from app.core.model import Diagnosis, Exit
    from app.core.vocabulary import Outcome, Phase
    from app.store.store import Store
    from app.store.words import AttemptKind
    failed = Diagnosis(outcome=Outcome.FAILED, phase=Phase.LOADING, fingerprint="fp-1")
    with Store.open(Path(sys.argv[1])) as store, store.lock_server("kimi"):
        attempt = None
        for number in range(10_000):
            launch = store.begin_launch("kimi", ["serve", str(number)], None, attempt_id=attempt)
            incident = store.record_death(launch, Exit(code=1), Phase.LOADING, failed)
            print(launch, flush=True)
            attempt = store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", str(number + 1)])
    """
)


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_nothing_is_lost_and_nothing_is_doubled(
    state: Path, diagnosed: Diagnosing, seed: int
) -> None:
    process = subprocess.Popen([sys.executable, "-c", _BUSY, str(state)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        told = [int(process.stdout.readline())]
        time.sleep(random.Random(seed).uniform(0.05, 0.4))
        process.kill()
        # The kill may cut the last line short.
        told += [int(line) for line in process.stdout if line.endswith("\n")]

    with Store.open(state) as store, store.lock_server("kimi"):
        recovery = store.recover("kimi")
        for launch in recovery.unfinished:
            store.record_death(launch.id, Exit(), Phase.LOADING, diagnosed("fp-1"))
        (incident,) = (store.incident(view.id) for view in store.incidents())

    deaths = [line.launch_id for line in incident.timeline if line.kind == "died"]
    launches = [launch.id for launch in incident.launches]
    assert deaths == launches
    assert set(told) <= set(launches)
    assert [attempt.outcome for attempt in incident.attempts].count(AttemptOutcome.STARTED) == 0
