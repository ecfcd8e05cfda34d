"""What must hold before a server is started, on real sockets, processes and folders."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app.core.catalogue import Flag, FlagCatalogue
from app.core.command import Command
from app.core.model import Cause
from app.core.vocabulary import Category, Confidence, Engine
from app.supervise import guards
from app.supervise.group import Group
from app.supervise.ports import port_holder
from app.supervise.process import Child

pytestmark = pytest.mark.anyio

LISTEN = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
time.sleep(60)
"""
FLAGS = FlagCatalogue(Engine.SGLANG, "0.5.9", "shipped", (Flag("--model-path"), Flag("--tp-size"), Flag("--port")))
COMMAND = ["python3", "-m", "sglang.launch_server", "--model-path", "m"]


def finding(rule: str) -> Cause:
    return Cause(rule, Category.UNKNOWN_ARGUMENT, f"Title of {rule}", "because", Confidence.HIGH)


async def test_a_taken_port_names_the_process_that_holds_it() -> None:
    with subprocess.Popen([sys.executable, "-c", LISTEN], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        port = int(holder.stdout.readline())
        verdict = await guards.port_free(port, "127.0.0.1", wait=0)
        name = psutil.Process(holder.pid).name()
        holder.kill()

    assert not verdict.ok
    assert verdict.text == f"port {port} is held by process {holder.pid} ({name})"


async def test_a_port_that_is_let_go_while_we_wait_is_free() -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    asyncio.get_running_loop().call_later(0.2, taken.close)

    assert (await guards.port_free(port, "127.0.0.1", wait=3)).ok


async def test_connections_that_linger_after_a_server_do_not_hold_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # the server's side closes first: TIME_WAIT stays on its port
        client.close()

    assert port_holder(port, "127.0.0.1") is None


async def test_another_host_of_the_same_port_is_no_obstacle() -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]

        assert port_holder(port, "127.0.0.1") is None
        assert port_holder(port, "0.0.0.0") is not None


async def test_a_living_group_fails_and_names_who_lives(tmp_path: Path) -> None:
    command = Command.parse([sys.executable, "-c", "import time; time.sleep(60)"])
    child = Child.start(command, log=tmp_path / "log", mark="guards")

    while_alive = await guards.old_group_gone(child.group)
    await child.end(grace=0)
    after = await guards.old_group_gone(child.group)

    assert (while_alive.ok, str(child.pid) in while_alive.text, after.ok) == (False, True, True)


async def test_no_launch_before_leaves_nothing_behind() -> None:
    assert (await guards.old_group_gone(None)).ok
    assert (await guards.old_group_gone(Group(os.getpid() + 100_000, "nobody"))).ok


async def test_a_change_that_brings_an_unknown_flag_is_not_valid() -> None:
    before = Command.parse(COMMAND)
    verdict = guards.command_valid(before.set("--tpsize", "2"), before, FLAGS)

    assert not verdict.ok
    assert "--tpsize" in verdict.text


async def test_a_problem_that_was_there_before_does_not_fail_the_change() -> None:
    before = Command.parse([*COMMAND, "--old-mistake", "1"])

    assert guards.command_valid(before.set("--tp-size", "2"), before, FLAGS).ok


async def test_only_new_findings_of_preflight_fail() -> None:
    old, new = finding("sglang/old"), finding("sglang/new")

    assert guards.preflight_passed([old], [old]).ok
    assert guards.preflight_passed([old, new], [old]).text == "Title of sglang/new"


async def test_disk_room_says_how_much_is_left(tmp_path: Path) -> None:
    assert guards.disk_room(tmp_path, need=1).ok
    assert guards.disk_room(tmp_path, need=2**60).text.startswith("only ")


async def test_without_nvidia_smi_there_is_no_gpu_memory_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    assert (await guards.gpu_released([1])).ok


async def test_gpu_memory_held_by_an_old_process_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 4711\necho 4712\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    verdict = await guards.gpu_released([4711, 99], wait=0)

    assert (verdict.ok, verdict.text) == (False, "GPU memory is still held by 4711")
