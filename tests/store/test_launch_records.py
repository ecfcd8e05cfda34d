from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen

import pytest

from app.core.errors import NotFoundError
from app.core.model import Diagnosis, Exit, Progress
from app.core.vocabulary import Category, Engine, IncidentStatus, Mode, Phase, ServerState
from app.store.processes import ref
from app.store.store import Store
from app.store.words import AttemptKind, AttemptOutcome, Decision, TransitionKind

Diagnosing = Callable[..., Diagnosis]
Dying = Callable[..., tuple[int, int]]
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


def everything(state: Path) -> bytes:
    """All bytes of the state folder."""
    return b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())


def count(store: Store, table: str) -> int:
    with sqlite3.connect(store.state / "crashcart.db") as raw:
        found = raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    raw.close()
    return int(found)


def ago(store: Store, incident: int, span: timedelta) -> None:
    """Lets an incident have been updated some time ago."""
    with sqlite3.connect(store.state / "crashcart.db") as raw:
        at = (datetime.now(UTC) - span).strftime("%Y-%m-%d %H:%M:%S.%f")
        raw.execute("UPDATE incident SET updated_at = ? WHERE id = ?", (at, incident))
    raw.close()


def test_a_launch_makes_its_server_known(store: Store) -> None:
    launch = store.begin_launch("kimi", ["A=1", "serve", "--x"], Engine.SGLANG, Mode.AUTO, health_url="http://h/")

    server = store.get_server("kimi")

    assert server is not None
    assert (server.launch_id, server.state, server.command) == (launch, ServerState.STARTING, ("A=1", "serve", "--x"))
    assert (server.engine, server.mode, server.health_url) == (Engine.SGLANG, Mode.AUTO, "http://h/")


def test_a_started_process_is_kept_with_its_mark(store: Store, sleeper: Popen[bytes]) -> None:
    launch = store.begin_launch("kimi", ["serve"], None)
    store.launch_started(launch, sleeper.pid, sleeper.pid, Path("/logs/kimi"))

    view = store.launch(launch)
    server = store.get_server("kimi")

    assert view.process == ref(sleeper.pid)
    assert (view.pgid, view.log_path) == (sleeper.pid, Path("/logs/kimi"))
    assert server is not None
    assert server.pid == sleeper.pid


def test_secrets_never_reach_the_disk(store: Store, diagnosed: Diagnosing) -> None:
    command = ["HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "serve", "--api-key", SECRET]
    launch = store.begin_launch("kimi", command, None)
    incident = store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosed())
    store.propose(incident, None, command, diagnosed().causes[0].safety)
    store.begin_attempt(incident, AttemptKind.RESTART, command)
    store.close()

    content = everything(store.state)

    assert SECRET.encode() not in content
    assert b"hf_abcdefgh" not in content
    assert b"--api-key" in content


def test_commands_that_differ_only_in_a_secret_are_told_apart(store: Store) -> None:
    one = store.begin_launch("kimi", ["serve", "--api-key", SECRET], None)
    other = store.begin_launch("kimi", ["serve", "--api-key", SECRET + "x"], None)

    assert store.launch(one).command == store.launch(other).command
    assert store.launch(one).command_hash != store.launch(other).command_hash


def test_a_diagnosis_comes_back_as_it_was(store: Store, diagnosed: Diagnosing, dies: Dying) -> None:
    launch, _ = dies()

    assert store.launch(launch).diagnosis == diagnosed()


def test_a_death_says_how_far_the_launch_came(store: Store, diagnosed: Diagnosing) -> None:
    launch = store.begin_launch("kimi", ["serve"], None)
    store.record_death(launch, Exit(signal="SIGKILL"), Phase.LOADING, diagnosed())

    server = store.get_server("kimi")

    assert server is not None
    assert server.evidence == "killed by SIGKILL at loading 67 %"
    assert (server.state, server.decision, server.pid) == (ServerState.EXITED, Decision.PENDING, None)


def test_a_death_opens_an_incident_with_the_launch_and_a_line_of_history(store: Store, dies: Dying) -> None:
    launch, number = dies()

    incident = store.incident(number)

    assert (incident.status, incident.category) == (IncidentStatus.OPEN, Category.MISSING_ARGUMENT)
    assert [view.id for view in incident.launches] == [launch]
    assert [(line.kind, line.text) for line in incident.timeline] == [
        ("died", "exit code 1 at loading 67 %: EAGLE needs --speculative-num-steps")
    ]


def test_a_death_told_twice_doubles_nothing(store: Store, diagnosed: Diagnosing, dies: Dying) -> None:
    launch, incident = dies()
    before = store.incident(incident)

    again = store.record_death(launch, Exit(code=9), Phase.READY, diagnosed("fp-2"))

    assert again == incident
    assert store.incident(incident) == before
    assert (count(store, "incident"), count(store, "diagnosis"), count(store, "transition")) == (1, 1, 2)


def test_the_next_death_joins_the_unresolved_incident_whatever_it_is(store: Store, dies: Dying) -> None:
    _, first = dies(fingerprint="fp-1")
    _, second = dies(fingerprint="fp-2", category=Category.UNKNOWN_ARGUMENT)

    incident = store.incident(first)

    assert second == first
    assert (incident.category, incident.fingerprint, len(incident.launches)) == (
        Category.UNKNOWN_ARGUMENT,
        "fp-2",
        2,
    )


def test_another_servers_death_is_another_incident(store: Store, dies: Dying) -> None:
    assert dies(server="kimi")[1] != dies(server="qwen")[1]


def test_the_same_failure_soon_after_the_end_is_a_regression(store: Store, dies: Dying) -> None:
    _, first = dies()
    store.resolve(first, "ready for 30 s")

    _, second = dies()

    incident = store.incident(second)
    assert (second, incident.regressed, incident.status) == (first, True, IncidentStatus.OPEN)
    assert incident.resolved_at is None


def test_the_same_failure_long_after_the_end_is_a_new_incident(store: Store, dies: Dying) -> None:
    _, first = dies()
    store.resolve(first, "ready for 30 s")
    ago(store, first, timedelta(minutes=31))

    _, second = dies()

    assert second != first
    assert not store.incident(second).regressed


def test_another_failure_after_the_end_is_a_new_incident(store: Store, dies: Dying) -> None:
    _, first = dies(fingerprint="fp-1")
    store.resolve(first, "ready for 30 s")

    assert dies(fingerprint="fp-2")[1] != first


def test_a_death_fails_the_attempt_that_led_to_the_launch(store: Store, dies: Dying) -> None:
    _, incident = dies(("serve",))
    attempt = store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"], rule="r")
    dies(("serve", "--fixed"), attempt_id=attempt)

    view = store.incident(incident)

    assert [attempt.outcome for attempt in view.attempts] == [AttemptOutcome.FAILED]
    assert view.status is IncidentStatus.OPEN
    assert store.fix_record("r", "fp-1").failed == 1


def test_a_settled_launch_resolves_the_incident_and_is_kept_as_good(store: Store, dies: Dying) -> None:
    _, incident = dies(("serve",))
    attempt = store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"], rule="r")
    launch = store.begin_launch("kimi", ["serve", "--fixed"], None, attempt_id=attempt)

    resolved = store.settled(launch, "ready for 30 s")

    view = store.incident(incident)
    server = store.get_server("kimi")
    assert (resolved, view.status, view.resolved_at is not None) == (incident, IncidentStatus.RESOLVED, True)
    assert [launch.command for launch in view.launches] == [("serve",), ("serve", "--fixed")]
    assert server is not None
    assert server.last_good_command == ("serve", "--fixed")
    assert store.fix_record("r", "fp-1").held == 1


def test_settling_twice_resolves_once(store: Store, dies: Dying) -> None:
    _, incident = dies()
    launch = store.begin_launch("kimi", ["serve", "--by-hand"], None)
    assert store.settled(launch, "ready for 30 s") == incident

    assert store.settled(launch, "ready for 60 s") is None

    kinds = [line.kind for line in store.timeline(incident)]
    assert kinds.count(TransitionKind.RESOLVED) == 1


def test_a_launch_that_settles_without_an_incident_is_kept_as_good(store: Store) -> None:
    launch = store.begin_launch("kimi", ["serve"], None)

    assert store.settled(launch, "ready for 30 s") is None

    server = store.get_server("kimi")
    assert server is not None
    assert server.last_good_command == ("serve",)


def test_a_stop_that_a_person_asked_for_is_no_incident(store: Store) -> None:
    launch = store.begin_launch("kimi", ["serve"], None)
    store.launch_ended(launch, Exit(signal="SIGTERM"), Phase.READY)

    server = store.get_server("kimi")

    assert server is not None
    assert (server.state, server.decision) == (ServerState.STOPPED, Decision.NONE)
    assert count(store, "incident") == 0


def test_a_stop_leaves_the_attempt_neither_held_nor_failed(store: Store, dies: Dying) -> None:
    _, incident = dies()
    attempt = store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--fixed"], rule="r")
    launch = store.begin_launch("kimi", ["serve", "--fixed"], None, attempt_id=attempt)

    store.launch_ended(launch, Exit(signal="SIGINT"), Phase.LOADING)

    assert [view.outcome for view in store.attempts(incident_id=incident)] == [AttemptOutcome.STOPPED]


def test_a_late_death_of_an_older_launch_leaves_the_servers_state_alone(store: Store, diagnosed: Diagnosing) -> None:
    old = store.begin_launch("kimi", ["serve"], None)
    store.begin_launch("kimi", ["serve"], None)
    store.record_death(old, Exit(), Phase.LOADING, diagnosed())

    server = store.get_server("kimi")

    assert server is not None
    assert server.state is ServerState.STARTING


def test_a_launch_that_pre_flight_stopped_is_told_as_such(store: Store, diagnosed: Diagnosing) -> None:
    launch = store.begin_launch("kimi", ["serve"], None, ran=False)
    incident = store.record_death(launch, Exit(), Phase.STARTING, diagnosed())

    (line,) = store.timeline(incident)

    assert line.text == "stopped by the pre-flight check: EAGLE needs --speculative-num-steps"
    assert not store.launch(launch).ran


def test_the_furthest_point_is_kept_on_the_launch_while_it_loads(store: Store) -> None:
    launch = store.begin_launch("kimi", ["serve"], None)
    store.set_state("kimi", ServerState.LOADING, "Loading: 67%", Progress(Phase.LOADING, 67.0))

    view = store.launch(launch)

    assert (view.phase, view.percent) == (Phase.LOADING, 67.0)


def test_a_hang_and_the_death_after_it_are_one_incident(store: Store, diagnosed: Diagnosing) -> None:
    launch = store.begin_launch("kimi", ["serve"], None)
    hang = store.open_or_join_incident("kimi", "hang", diagnosed("hang", Category.HANG), launch)

    death = store.record_death(launch, Exit(signal="SIGKILL"), Phase.READY, diagnosed())

    assert death == hang
    assert count(store, "diagnosis") == 1


def test_a_hang_told_twice_is_one_incident(store: Store, diagnosed: Diagnosing) -> None:
    launch = store.begin_launch("kimi", ["serve"], None)
    first = store.open_or_join_incident("kimi", "hang", diagnosed("hang"), launch)
    second = store.open_or_join_incident("kimi", "hang", diagnosed("hang"), launch)

    assert second == first
    assert len(store.timeline(first)) == 1


def test_a_hang_after_an_earlier_one_was_resolved_opens_it_again(store: Store, diagnosed: Diagnosing) -> None:
    launch = store.begin_launch("kimi", ["serve"], None)
    first = store.open_or_join_incident("kimi", "hang", diagnosed("hang"), launch)
    store.recovered(first, "it answers again")
    second = store.open_or_join_incident("kimi", "hang", diagnosed("hang"), launch)

    assert second == first
    assert (store.incident(first).status, store.incident(first).regressed) == (IncidentStatus.OPEN, True)


def test_a_hang_that_ended_by_itself_is_resolved(store: Store, diagnosed: Diagnosing) -> None:
    launch = store.begin_launch("kimi", ["serve"], None)
    hang = store.open_or_join_incident("kimi", "hang", diagnosed("hang"), launch)
    store.needs_human(hang, "it hangs")
    store.recovered(hang, "it answers again")

    view = store.get_server("kimi")
    assert store.incident(hang).status is IncidentStatus.RESOLVED
    assert view is not None
    assert view.decision is Decision.NONE


def test_a_hang_that_ended_while_a_fix_was_being_watched_is_watched_on(store: Store, diagnosed: Diagnosing) -> None:
    first = store.begin_launch("kimi", ["serve"], None)
    incident = store.record_death(first, Exit(code=2), Phase.LOADING, diagnosed())
    attempt = store.begin_attempt(incident, AttemptKind.RELAUNCH, ["serve", "--steps"], text="relaunch")
    launch = store.begin_launch("kimi", ["serve", "--steps"], None, attempt_id=attempt)
    store.open_or_join_incident("kimi", "hang", diagnosed("hang"), launch)
    store.recovered(incident, "it answers again")

    assert store.incident(incident).status is IncidentStatus.VERIFYING


def test_launches_come_newest_first(store: Store) -> None:
    ids = [store.begin_launch("kimi", ["serve"], None) for _ in range(3)]

    assert [view.id for view in store.launches("kimi", limit=2)] == [ids[2], ids[1]]


def test_times_are_utc(store: Store) -> None:
    launch = store.begin_launch("kimi", ["serve"], None)

    assert abs(datetime.now(UTC) - store.launch(launch).started_at) < timedelta(seconds=5)


def test_an_unknown_launch_is_an_error(store: Store) -> None:
    with pytest.raises(NotFoundError, match="no launch 7"):
        store.launch(7)
