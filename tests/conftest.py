"""Shared by all tests."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from app.core.model import Cause, Diagnosis, Exit, Fix, Line, Progress
from app.core.vocabulary import Action, Category, Confidence, Engine, Origin, Outcome, Phase, Safety
from app.store.store import Store

Diagnosing = Callable[..., Diagnosis]
Dying = Callable[..., tuple[int, int]]


@pytest.fixture
def anyio_backend() -> str:
    """Tests marked `anyio` run on asyncio, as the product does."""
    return "asyncio"


@pytest.fixture(scope="session")
def _fresh_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh") / "state"
    Store.open(folder).close()
    return folder


@pytest.fixture
def state(tmp_path: Path, _fresh_state: Path) -> Path:
    """A state folder with an empty database: a copy, because migrating takes longer than most tests."""
    folder = tmp_path / "state"
    shutil.copytree(_fresh_state, folder)
    return folder


@pytest.fixture
def store(state: Path) -> Iterator[Store]:
    """An open store."""
    with Store.open(state) as opened:
        yield opened


@pytest.fixture
def diagnosed() -> Diagnosing:
    """Makes a diagnosis with one cause."""

    def make(fingerprint: str = "fp-1", category: Category = Category.MISSING_ARGUMENT) -> Diagnosis:
        line = Line(number=12, text="AssertionError", body="AssertionError")
        cause = Cause(
            rule="sglang/steps-missing",
            category=category,
            title="EAGLE needs --speculative-num-steps",
            explanation="The depth of the draft tree is not given.",
            confidence=Confidence.HIGH,
            line=line,
            action=Action.CHANGE,
            fix=Fix(set={"--speculative-num-steps": "3", "--bare": True}),
            safety=Safety.SAFE,
            command=("A=b", "python3", "-m", "sglang.launch_server", "--speculative-num-steps", "3"),
        )
        return Diagnosis(
            outcome=Outcome.FAILED,
            phase=Phase.LOADING,
            engine=Engine.SGLANG,
            origin=Origin.GIVEN,
            causes=(cause,),
            progress=Progress(Phase.LOADING, 67.0, "Loading: 67%"),
            fingerprint=fingerprint,
        )

    return make


@pytest.fixture
def dies(store: Store, diagnosed: Diagnosing) -> Dying:
    """Launches a server and lets it die; gives the launch's and the incident's id."""

    def die(
        command: tuple[str, ...] = ("serve",),
        *,
        server: str = "kimi",
        fingerprint: str = "fp-1",
        attempt_id: int | None = None,
        category: Category = Category.MISSING_ARGUMENT,
    ) -> tuple[int, int]:
        launch = store.begin_launch(server, command, Engine.SGLANG, attempt_id=attempt_id)
        return launch, store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosed(fingerprint, category))

    return die


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A real process that does nothing."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The objects it printed, one a line; the only one itself."""
        objects = [json.loads(line) for line in self.out.splitlines()]
        return objects[0] if len(objects) == 1 else objects


@pytest.fixture
def asked(state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs a `crashcart` command on the test's state folder, as typed, in this process."""

    def ask(*words: str, folder: Path = state) -> Said:
        monkeypatch.setattr("sys.argv", ["crashcart", "--state", str(folder), *words])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        printed = capsys.readouterr()
        return Said(code, printed.out, printed.err)

    return ask
