"""The installed engine is asked for its flags: only when it may be, once, and never with harm when it fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.core.command import Command
from app.core.shipped import shipped
from app.core.vocabulary import Engine
from app.supervise.flaghelp import catalogue_for, find_installed, installed_version

# A real argparse program in the place of SGLang's: it counts how often it was run.
SERVER = """\
import argparse, os, sys
with open(os.environ["COUNT"], "a") as file:
    file.write("run\\n")
parser = argparse.ArgumentParser(prog="launch_server.py")
parser.add_argument("--model-path", "--model", required=True)
for name in ("--alpha", "--beta", "--gamma", "--delta"):
    parser.add_argument(name)
parser.add_argument("--only-here", choices=["a", "b"])
parser.parse_args()
"""


class Site:
    """An environment folder with an engine that is only its launch module and its metadata."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.count = root / "count"
        self.cache = root / "cache"
        self.packages = root / "env/lib/python3.11/site-packages"
        self.python = root / "env/bin/python"
        (self.packages / "sglang").mkdir(parents=True)
        self.set_version("0.5.9")
        self.python.parent.mkdir()
        # A wrapper and no link: the module has to be found below this environment, as a real one's is.
        self.python.write_text(f'#!/bin/sh\nPYTHONPATH={self.packages} exec {sys.executable} "$@"\n')
        self.python.chmod(0o755)
        self.write(SERVER)

    def write(self, source: str) -> None:
        (self.packages / "sglang/launch_server.py").write_text(source)

    def set_version(self, version: str) -> None:
        for old in self.packages.glob("sglang-*.dist-info"):
            old.rmdir()
        (self.packages / f"sglang-{version}.dist-info").mkdir()

    def command(self, *words: str) -> Command:
        return Command.parse([f"COUNT={self.count}", str(self.python), "-m", "sglang.launch_server", *words])

    @property
    def runs(self) -> int:
        return len(self.count.read_text().splitlines()) if self.count.exists() else 0


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_the_installed_engines_own_help_is_read(site: Site) -> None:
    found = catalogue_for(site.command(), cache=site.cache, may_run=True)

    assert found is not None
    assert (found.origin, found.version, found.complete) == ("installed", "0.5.9", True)
    assert found.resolve("--only-here").kind == "exact"
    assert [flag.name for flag in found.flags if flag.required] == ["--model-path"]


def test_it_is_asked_once_and_again_after_an_upgrade(site: Site) -> None:
    for _ in range(3):
        catalogue_for(site.command("--port", "1"), cache=site.cache, may_run=True)
    before = site.runs
    site.set_version("0.5.23")
    found = catalogue_for(site.command(), cache=site.cache, may_run=True)

    assert (before, site.runs) == (1, 2)
    assert found is not None
    assert found.version == "0.5.23"


def test_what_is_cached_needs_no_leave_to_run(site: Site) -> None:
    catalogue_for(site.command(), cache=site.cache, may_run=True)
    found = catalogue_for(site.command(), cache=site.cache, may_run=False)

    assert found is not None
    assert (found.origin, site.runs) == ("installed", 1)


def test_without_leave_nothing_runs_and_the_nearest_shipped_one_stands_in(site: Site) -> None:
    found = catalogue_for(site.command(), cache=site.cache, may_run=False)

    assert found == shipped(Engine.SGLANG, "0.5.9")
    assert (site.runs, site.cache.exists()) == (0, False)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"engine": "sglang"}', '{"engine": "x", "flags": [{"name": 1}]}', "\0"]
)
def test_a_broken_cache_is_as_good_as_none(site: Site, text: str) -> None:
    catalogue_for(site.command(), cache=site.cache, may_run=True)
    (entry,) = site.cache.iterdir()
    entry.write_text(text)
    found = catalogue_for(site.command(), cache=site.cache, may_run=True)

    assert found is not None
    assert (found.origin, site.runs) == ("installed", 2)


def test_a_cache_that_cannot_be_written_does_not_matter(site: Site) -> None:
    site.cache.write_text("a file in the way")
    found = catalogue_for(site.command(), cache=site.cache, may_run=True)

    assert found is not None
    assert found.origin == "installed"


@pytest.mark.parametrize(
    "source",
    ["import sys; sys.exit('broken')", "raise ImportError('no such thing')", "print('hello')",
     "import time; time.sleep(60)"],
    ids=["exits", "raises", "says nothing of flags", "hangs"],
)  # fmt: skip
def test_an_engine_that_cannot_tell_is_replaced_by_a_shipped_catalogue(site: Site, source: str) -> None:
    site.write(source)
    found = catalogue_for(site.command(), cache=site.cache, may_run=True, timeout=3)

    assert found == shipped(Engine.SGLANG, "0.5.9")
    assert not site.cache.exists()


def test_types_that_a_help_does_not_tell_come_from_the_shipped_catalogue_of_that_version(site: Site) -> None:
    site.write(SERVER.replace('"--alpha"', '"--port"'))
    found = catalogue_for(site.command(), cache=site.cache, may_run=True)

    assert found is not None
    port = found.find("--port")
    assert port is not None
    assert port.type == "int"


def test_only_known_servers_are_run(site: Site) -> None:
    other = Command.parse([str(site.python), "-m", "practice_server"], engine=Engine.SGLANG)

    assert find_installed(other) is None
    assert find_installed(Command.parse([str(site.python), "-m", "sglang.bench_serving"])) is None
    assert find_installed(Command.parse(["/bin/sleep", "5"])) is None
    assert find_installed(Command.from_string("docker run x/y python3 -m sglang.launch_server")) is None


def test_a_module_that_the_caller_allows_is_run(site: Site) -> None:
    (site.packages / "practice_server.py").write_text(SERVER)
    command = Command.parse([f"COUNT={site.count}", str(site.python), "-m", "practice_server"], engine=Engine.SGLANG)
    found = catalogue_for(command, cache=site.cache, may_run=True, allowed_modules=("practice_server",))

    assert found is not None
    assert (found.origin, site.runs) == ("installed", 1)


def test_each_engine_is_asked_in_its_own_way(tmp_path: Path) -> None:
    for name in ("vllm", "llama-server", "python3"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    commands = {
        "vllm serve m --port 1": ("vllm", "serve", "--help=all"),
        "llama-server -m x": ("llama-server", "--help"),
        "python3 -m vllm.entrypoints.openai.api_server --model m": (
            "python3", "-m", "vllm.entrypoints.openai.api_server", "--help=all",
        ),
        "numactl -N 0 python3 -m sglang.launch_server": ("python3", "-m", "sglang.launch_server", "--help"),
    }  # fmt: skip

    for text, argv in commands.items():
        found = find_installed(Command.from_string(f"PATH={tmp_path} {text}"))
        assert found is not None
        assert found.argv == argv


def test_a_program_that_is_not_installed_is_not_asked() -> None:
    assert find_installed(Command.from_string("PATH=/nowhere vllm serve m")) is None


def test_the_version_is_found_through_a_scripts_first_line(site: Site, tmp_path: Path) -> None:
    script = tmp_path / "elsewhere/sglang"
    script.parent.mkdir()
    script.write_text(f"#!{site.python}\n")
    script.chmod(0o755)

    assert installed_version(script, "sglang") == "0.5.9"
    assert installed_version(script, "vllm") is None
