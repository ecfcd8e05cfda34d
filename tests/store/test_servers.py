from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import StoreError, UsageError
from app.core.model import Progress
from app.core.vocabulary import Engine, Mode, Phase, ServerState
from app.store.processes import alive, ref, this_process
from app.store.store import Store
from app.store.words import Decision
from tests.store.holding import hold


def test_only_one_process_acts_for_a_server_and_the_error_names_it(store: Store) -> None:
    with hold(store.state) as other:
        with pytest.raises(StoreError, match=rf"pid {other.pid}\) already acts for kimi"), store.lock_server("kimi"):
            pass
        other.kill()


def test_being_refused_changes_nothing_about_the_server(store: Store) -> None:
    with hold(store.state) as other:
        with pytest.raises(StoreError), store.lock_server("kimi", engine=Engine.VLLM):
            pass
        server, holder = store.get_server("kimi"), ref(other.pid)
        other.kill()

    assert server is not None
    assert (server.engine, server.supervisor) == (None, holder)


def test_other_servers_can_be_acted_for_meanwhile(store: Store) -> None:
    with hold(store.state) as other:
        with store.lock_server("qwen"):
            acting = store.get_server("qwen")
        other.kill()

    assert acting is not None
    assert acting.supervisor == this_process()


def test_a_killed_process_leaves_no_lock(store: Store) -> None:
    with hold(store.state) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()

    with store.lock_server("kimi"):
        acting = store.get_server("kimi")

    assert acting is not None
    assert acting.supervisor == this_process()


def test_a_server_process_that_outlives_crashcart_does_not_keep_the_lock(store: Store) -> None:
    with store.lock_server("kimi"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with store.lock_server("kimi"):
            acting = store.get_server("kimi")
    finally:
        child.kill()
        child.wait()

    assert acting is not None
    assert acting.supervisor == this_process()


@pytest.mark.parametrize("name", ["", "../etc", "a/b", ".hidden", "-x", "a b", "x" * 65, "a\n"])
def test_a_name_that_is_no_safe_file_name_is_refused(store: Store, name: str) -> None:
    with pytest.raises(UsageError, match="can't be a server's name"), store.lock_server(name):
        pass


def test_whoever_acts_is_known_while_it_acts(store: Store) -> None:
    with store.lock_server("kimi", engine=Engine.SGLANG, mode=Mode.AUTO):
        server = store.get_server("kimi")
    assert server is not None
    assert alive(server.supervisor)
    assert (server.engine, server.mode, server.state) == (Engine.SGLANG, Mode.AUTO, ServerState.STARTING)


def test_whoever_has_acted_is_not_taken_for_acting(store: Store) -> None:
    with store.lock_server("kimi"):
        store.begin_launch("kimi", ["serve"], None)

    server = store.get_server("kimi")

    assert server is not None
    assert server.supervisor is None


def test_a_run_that_never_came_to_a_launch_does_not_stay_starting(store: Store) -> None:
    with store.lock_server("kimi"):
        pass

    server = store.get_server("kimi")

    assert server is not None
    assert server.state is ServerState.STOPPED


def test_only_a_new_state_is_history(store: Store) -> None:
    store.begin_launch("kimi", ["serve"], None)
    for percent in (10.0, 20.0, 30.0):
        progress = Progress(Phase.LOADING, percent)
        store.set_state("kimi", ServerState.LOADING, f"Loading: {percent} %", progress)

    server = store.get_server("kimi")
    with store.read() as session:
        lines = session.connection().exec_driver_sql("SELECT text FROM transition WHERE kind = 'state'").all()

    assert [text for (text,) in lines] == ["loading: Loading: 10.0 %"]
    assert server is not None
    assert server.progress == Progress(Phase.LOADING, 30.0)


def test_since_is_when_the_state_began(store: Store) -> None:
    store.begin_launch("kimi", ["serve"], None)
    store.set_state("kimi", ServerState.LOADING, "10 %")
    first = store.get_server("kimi")
    store.set_state("kimi", ServerState.LOADING, "20 %")
    second = store.get_server("kimi")

    assert first is not None
    assert second is not None
    assert (second.since, second.evidence) == (first.since, "20 %")


def test_an_unknown_server_is_answered_with_the_known_ones(store: Store) -> None:
    store.begin_launch("qwen", ["serve"], None)
    store.begin_launch("kimi", ["serve"], None)

    with pytest.raises(StoreError, match="There is no server 'kimmi'") as raised:
        store.set_state("kimmi", ServerState.READY, "")

    assert raised.value.mend == "Known servers: kimi, qwen."


def test_servers_come_by_name(store: Store) -> None:
    store.begin_launch("qwen", ["serve"], None)
    store.begin_launch("kimi", ["serve"], None)

    assert [server.name for server in store.list_servers()] == ["kimi", "qwen"]


def test_evidence_is_stored_without_secrets_and_read_back_by_another_process(store: Store, state: Path) -> None:
    store.begin_launch("kimi", ["serve"], None)
    store.set_state("kimi", ServerState.LOADING, "loading with hf_abcdefghijklmnopqrstuvwxyzABCDEFGH")

    with Store.open(state) as other:
        server = other.get_server("kimi")

    assert server is not None
    assert "hf_abc" not in server.evidence
    assert server.evidence.startswith("loading with ")


def test_a_zombie_and_a_reused_pid_are_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    process = ref(sleeper.pid)
    assert alive(process)

    sleeper.kill()
    # Not waited for: it stays as a zombie.
    deadline = time.monotonic() + 5
    while alive(process) and time.monotonic() < deadline:
        time.sleep(0.01)

    assert not alive(process)


def test_another_process_with_the_same_pid_is_told_apart(sleeper: subprocess.Popen[bytes]) -> None:
    assert not alive(replace(ref(sleeper.pid), mark="of an earlier one"))


def test_what_is_done_about_a_death_can_be_told(store: Store) -> None:
    store.begin_launch("kimi", ["serve"], None)

    store.set_decision("kimi", Decision.NEEDS_HUMAN, "two errors ask for opposite moves")

    server = store.get_server("kimi")
    assert server is not None
    assert server.decision is Decision.NEEDS_HUMAN
