"""Real processes: started, followed to their end, and ended as a whole group."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from app.core.command import Command
from app.core.errors import LaunchError
from app.core.model import Exit
from app.supervise.group import Group, marked
from app.supervise.process import Child, exists_program


def python(code: str, *env: str) -> Command:
    return Command.parse([*env, sys.executable, "-c", code])


async def until(true: Callable[[], object], seconds: float = 4.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.02)


def lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.anyio
async def test_output_and_errors_are_appended_to_the_kept_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("from the launch before\n")

    child = Child.start(python("import sys; print('out', flush=True); sys.stderr.write('err\\n')"), log=log, mark="t1")
    await child.wait()

    assert log.read_text() == "from the launch before\nout\nerr\n"


@pytest.mark.anyio
async def test_exit_code_and_signal_are_told_apart(tmp_path: Path) -> None:
    three = Child.start(python("raise SystemExit(3)"), log=tmp_path / "a", mark="t2")
    killed = Child.start(python("import os; os.kill(os.getpid(), 9)"), log=tmp_path / "b", mark="t3")

    assert [await three.wait(), await killed.wait()] == [Exit(code=3), Exit(signal="SIGKILL")]


@pytest.mark.anyio
async def test_an_exit_is_noticed_at_once(tmp_path: Path) -> None:
    child = Child.start(python("import time; time.sleep(60)"), log=tmp_path / "log", mark="t4")

    begun = time.monotonic()
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()

    assert time.monotonic() - begun < 0.5


@pytest.mark.anyio
async def test_the_child_has_its_own_session_closed_input_and_the_commands_environment(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()), os.environ['GREETING'])"
    child = Child.start(python(code, "GREETING=good day"), log=tmp_path / "log", mark="t5")
    await child.wait()

    assert (tmp_path / "log").read_text() == "True '' good day\n"


@pytest.mark.anyio
async def test_a_program_that_does_not_exist_is_an_error_with_a_mend(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="'no-such-server' was not found") as caught:
        Child.start(Command.parse(["no-such-server"]), log=tmp_path / "log", mark="t6")

    assert caught.value.mend is not None


def test_a_program_is_looked_for_along_the_commands_own_path(tmp_path: Path) -> None:
    program = tmp_path / "serve-it"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    assert exists_program(Command.parse([f"PATH={tmp_path}", "serve-it"]))
    assert not exists_program(Command.parse(["serve-it"]))


# Writes its pid, ignores SIGTERM and stays; with `new` in a session of its own.
STUBBORN = """
import os, signal, sys, time
if sys.argv[1] == "new": os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(60)
"""
PARENT = f"""
import subprocess, sys, time
for session in ("same", "new"):
    subprocess.Popen([sys.executable, "-c", {STUBBORN!r}, session])
time.sleep(60)
"""


async def started_family(log: Path, mark: str) -> tuple[Child, list[int]]:
    child = Child.start(python(PARENT), log=log, mark=mark)
    await until(lambda: len(log.read_text().split()) == 2)
    return child, [int(word) for word in log.read_text().split()]


@pytest.mark.anyio
async def test_ending_takes_grandchildren_in_other_sessions_that_ignore_sigterm(tmp_path: Path) -> None:
    child, grandchildren = await started_family(tmp_path / "log", "t7")

    ended = await child.end(grace=0.3)

    assert ended == Exit(signal="SIGTERM")
    assert [pid for pid in grandchildren if psutil.pid_exists(pid)] == []


# Ends its worker in order when it is asked to, and calls any other end of the worker a crash.
ORDERLY = """
import signal, subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
def stop(number, frame):
    time.sleep(0.2)
    print("crash" if worker.poll() is not None else "in order", flush=True)
    worker.kill(); sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
while True: time.sleep(1)
"""


@pytest.mark.anyio
async def test_a_server_is_left_to_end_its_workers_in_order(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child.start(python(ORDERLY), log=log, mark="t14")
    await until(lambda: log.read_text() == "up\n")

    await child.end(grace=4)

    assert log.read_text() == "up\nin order\n"


@pytest.mark.anyio
async def test_grandchildren_left_by_a_killed_main_process_are_found_and_reaped(tmp_path: Path) -> None:
    child, grandchildren = await started_family(tmp_path / "log", "t8")
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()

    left = child.group.members()
    after = await child.group.end(grace=0)

    assert sorted(member.pid for member in left) == sorted(grandchildren)
    assert after == []
    assert [pid for pid in grandchildren if psutil.pid_exists(pid)] == []


@pytest.mark.anyio
async def test_a_group_is_found_again_by_a_supervisor_that_did_not_start_it(tmp_path: Path) -> None:
    child, grandchildren = await started_family(tmp_path / "log", "t9")

    found = Group(child.pid, "t9", since=child.started_at).members()
    await child.end(grace=0)

    assert sorted(member.pid for member in found) == sorted([child.pid, *grandchildren])


@pytest.mark.anyio
async def test_a_session_number_given_anew_is_not_taken_for_the_old_launch(tmp_path: Path) -> None:
    child = Child.start(python("import time; time.sleep(60)"), log=tmp_path / "log", mark="another")

    found = Group(child.pid, "t10", since=child.started_at - 3600).members()
    await child.end(grace=0)

    assert found == []


@pytest.mark.anyio
async def test_hurry_skips_the_rest_of_the_grace_time(tmp_path: Path) -> None:
    child, _ = await started_family(tmp_path / "log", "t11")
    hurry = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, hurry.set)

    begun = time.monotonic()
    await child.end(grace=30, hurry=hurry)

    assert time.monotonic() - begun < 3


@pytest.mark.anyio
async def test_a_server_that_lost_a_worker_since_the_roll_call_is_told(tmp_path: Path) -> None:
    child, grandchildren = await started_family(tmp_path / "log", "t12")
    child.group.call_roll()
    before = child.group.lost()
    os.kill(grandchildren[0], signal.SIGKILL)

    await until(lambda: not lives(grandchildren[0]))
    lost = child.group.lost()
    await child.end(grace=0)

    assert (before, [member.pid for member in lost]) == ([], [grandchildren[0]])


@pytest.mark.anyio
async def test_a_child_that_ended_and_was_not_replaced_makes_fewer(tmp_path: Path) -> None:
    child, grandchildren = await started_family(tmp_path / "log", "t14")
    child.group.call_roll()
    before = child.group.fewer()
    os.kill(grandchildren[1], signal.SIGKILL)

    await until(lambda: not lives(grandchildren[1]))
    fewer = child.group.fewer()
    await child.end(grace=0)

    assert (before, [member.pid for member in fewer]) == ([], [grandchildren[1]])


REPLACES = """
import subprocess, sys, time
while True:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as worker:
        print(worker.pid, flush=True)
"""


@pytest.mark.anyio
async def test_a_child_that_was_replaced_does_not_make_fewer(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child.start(python(REPLACES), log=log, mark="t15")
    await until(lambda: len(log.read_text().split()) == 1)
    child.group.call_roll()
    os.kill(int(log.read_text()), signal.SIGKILL)

    await until(lambda: len(log.read_text().split()) == 2)
    found = (child.group.fewer(), len(child.group.lost()))
    await child.end(grace=0)

    assert found == ([], 1)


@pytest.mark.anyio
async def test_a_process_that_somebody_stopped_is_told(tmp_path: Path) -> None:
    child, grandchildren = await started_family(tmp_path / "log", "t16")
    child.group.call_roll()
    before = child.group.stopped()
    os.kill(grandchildren[0], signal.SIGSTOP)
    await until(lambda: psutil.Process(grandchildren[0]).status() == psutil.STATUS_STOPPED)
    stopped = child.group.stopped()
    await child.end(grace=0)

    assert (before, [member.pid for member in stopped]) == ([], [grandchildren[0]])


@pytest.mark.anyio
@pytest.mark.parametrize(("code", "busy"), [("while True: pass", True), ("import time; time.sleep(60)", False)])
async def test_processor_seconds_tell_who_works(tmp_path: Path, code: str, busy: bool) -> None:
    child = Child.start(python(code), log=tmp_path / "log", mark="t17")
    await asyncio.sleep(0.5)
    child.group.look()
    child.group.processor_seconds()
    await asyncio.sleep(0.5)
    used = child.group.processor_seconds()
    await child.end(grace=0)

    assert (used > 0.05) is busy


@pytest.mark.anyio
async def test_those_with_a_mark_are_found_without_any_number_the_first_one_in_front(tmp_path: Path) -> None:
    child, grandchildren = await started_family(tmp_path / "log", "t18")
    found = [member.pid for member in marked("t18")]
    await child.end(grace=0)

    assert found[0] == child.pid
    assert sorted(found) == sorted([child.pid, *grandchildren])


def test_the_child_outlives_its_supervisor(tmp_path: Path) -> None:
    log = tmp_path / "log"
    supervisor = f"""
import asyncio, os, pathlib
from app.core.command import Command
from app.supervise.process import Child
async def main():
    code = "import time; print('up', flush=True); time.sleep(1); print('still here', flush=True); time.sleep(60)"
    child = Child.start(Command.parse([{sys.executable!r}, "-c", code]), log=pathlib.Path({str(log)!r}), mark="t13")
    while not os.path.getsize({str(log)!r}): await asyncio.sleep(0.02)
    print(child.pid, flush=True)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""
    run = subprocess.run([sys.executable, "-c", supervisor], capture_output=True, text=True, check=False)
    pid = int(run.stdout)

    asyncio.run(until(lambda: "still here" in log.read_text()))

    assert lives(pid)
    os.kill(pid, signal.SIGKILL)
