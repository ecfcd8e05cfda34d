"""Whether the kernel killed for want of memory: by the counters of cgroups, of both versions, and by its own log."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.supervise.kernellog import Record, kernel_records, monotonic_of
from app.supervise.memorykill import Before, MemoryGroup, memory_facts, memory_group

# Recorded on Linux 6: a process in a memory cgroup with a limit of 64 MiB, and one on a machine without room.
BY_LIMIT = (
    "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:84132kB, anon-rss:62976kB, file-rss:5504kB, "
    "shmem-rss:0kB, UID:0 pgtables:200kB oom_score_adj:0"
)
BY_MACHINE = (
    "Out of memory: Killed process 4711 (sglang::schedul) total-vm:90211000kB, anon-rss:62110000kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:0 pgtables:180kB oom_score_adj:0"
)
NOBODY = Before(None, None)


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    """/sys/fs/cgroup by version 2, with the limit on the folder above."""
    (tmp_path / "sys/pod/server").mkdir(parents=True)
    (tmp_path / "sys/pod/memory.max").write_text("34359738368\n")
    (tmp_path / "sys/pod/server/memory.max").write_text("max\n")
    (tmp_path / "sys/pod/server/memory.events").write_text(
        "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n"
    )
    (tmp_path / "proc/17").mkdir(parents=True)
    (tmp_path / "proc/17/cgroup").write_text("0::/pod/server\n")
    return tmp_path


def group_of(place: Path) -> MemoryGroup | None:
    return memory_group(17, root=place / "sys", proc=place / "proc")


def test_the_counter_of_version_2_is_read(unified: Path) -> None:
    found = group_of(unified)
    assert found is not None
    assert (found.kills(), found.limit()) == (3, 32 * 2**30)


def test_the_counter_of_version_1_is_read(tmp_path: Path) -> None:
    (tmp_path / "sys/memory/server").mkdir(parents=True)
    (tmp_path / "sys/memory/server/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (tmp_path / "sys/memory/server/memory.limit_in_bytes").write_text("9223372036854771712\n")
    (tmp_path / "proc/17").mkdir(parents=True)
    (tmp_path / "proc/17/cgroup").write_text("9:name=systemd:/\n4:memory:/server\n1:cpu,cpuacct:/\n0::/\n")
    found = group_of(tmp_path)
    assert found is not None
    assert (found.kills(), found.limit()) == (2, None)


def test_in_a_container_its_own_group_is_asked(unified: Path) -> None:
    (unified / "proc/17/cgroup").write_text("0::/kubepods/burstable/pod1/abc\n")
    (unified / "sys/memory.events").write_text("oom_kill 1\n")
    (unified / "sys/memory.max").write_text("1073741824\n")
    found = group_of(unified)
    assert found is not None
    assert (found.kills(), found.limit()) == (1, 2**30)


@pytest.mark.parametrize("lines", ["", "nonsense\n", "0::/gone\n"])
def test_a_group_that_is_not_there_is_unknown(tmp_path: Path, lines: str) -> None:
    (tmp_path / "proc/17").mkdir(parents=True)
    (tmp_path / "proc/17/cgroup").write_text(lines)
    assert group_of(tmp_path) is None


def test_kills_since_the_beginning_are_told_with_the_limit(unified: Path) -> None:
    assert memory_facts(Before(group_of(unified), 1), {}, []) == {"oom_kills": "2", "memory_limit": "32.0 GiB"}


def test_kills_of_before_are_not_ours(unified: Path) -> None:
    assert memory_facts(Before(group_of(unified), 3), {}, []) == {}


def test_a_group_that_is_gone_tells_nothing(unified: Path) -> None:
    before = Before(group_of(unified), 1)
    (unified / "sys/pod/server/memory.events").unlink()
    assert memory_facts(before, {}, []) == {}


@pytest.mark.parametrize(
    ("line", "processes", "where", "used"),
    [
        (BY_LIMIT, {4711: "python3"}, "the limit of its cgroup", "0.1 GiB"),
        (BY_MACHINE, {4711: "sglang::scheduler_TP0"}, "the whole machine", "59.2 GiB"),
    ],
)
def test_a_process_of_ours_that_the_kernel_names_is_the_victim(
    line: str, processes: dict[int, str], where: str, used: str
) -> None:
    facts = memory_facts(NOBODY, processes, [Record(1.0, 3, line)])
    assert facts == {"oom_victim": line.split("process ")[1].split(" (")[1].split(")")[0] + " (4711)"} | {
        "oom_where": where,
        "oom_used": used,
    }


@pytest.mark.parametrize("processes", [{4711: "nginx"}, {4712: "python3"}, {}])
def test_a_process_of_others_is_no_victim_of_ours(processes: dict[int, str]) -> None:
    """Inside of a container numbers mean other processes: number and name must fit."""
    assert memory_facts(NOBODY, processes, [Record(1.0, 3, BY_LIMIT)]) == {}


# -- on this machine


@pytest.fixture
def limited() -> Iterator[Path]:
    """A real memory cgroup with a limit of 64 MiB, of whichever version the machine has."""
    own = memory_group(os.getpid())
    if own is None:
        pytest.skip("no memory cgroup is to be had")
    folder = own.root / f"crashcart-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / own.bound).write_text(str(64 * 2**20))
    except OSError as error:
        pytest.skip(f"a cgroup can't be made: {error}")
    yield folder
    for _ in range(50):
        try:
            folder.rmdir()
            return
        except OSError:
            time.sleep(0.1)


def test_a_kill_for_want_of_memory_is_seen_on_this_machine(limited: Path) -> None:
    eat = "import sys; sys.stdin.readline(); held = []\nwhile True: held.append(bytearray(2**20) + b'x')"
    began = time.time()
    with subprocess.Popen([sys.executable, "-c", eat], stdin=subprocess.PIPE, text=True) as eater:
        (limited / "cgroup.procs").write_text(str(eater.pid))
        before = Before.of(eater.pid)
        name = Path(f"/proc/{eater.pid}/comm").read_text().strip()
        eater.communicate("go\n", timeout=60)
    assert eater.returncode == -9
    records = kernel_records(monotonic_of(began)) or []
    facts = memory_facts(before, {eater.pid: name}, records)
    assert (facts["oom_kills"], facts["memory_limit"]) == ("1", "0.1 GiB")
    if records:  # where the kernel's log may be read
        assert (facts["oom_victim"], facts["oom_where"]) == (f"{name} ({eater.pid})", "the limit of its cgroup")
