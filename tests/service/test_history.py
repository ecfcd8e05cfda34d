from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core.command import Command
from app.core.model import Diagnosis, Exit
from app.core.vocabulary import Engine, Mode, Outcome, Phase
from app.service.history import since_last_healthy
from app.service.intake import store_death
from app.store.store import Store

GOOD = ["vllm", "serve", "org/model", "--max-model-len", "4096"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def text(good: list[str] | None, words: list[str]) -> str | None:
    found = since_last_healthy(good, words)
    return None if found is None else found.text


def test_what_came_and_went_since_the_last_healthy_launch() -> None:
    changed = ["vllm", "serve", "org/model", "--max-model-len", "9000", "--enforce-eager"]
    assert text(GOOD, changed) == (
        "Since the last healthy launch: '- --max-model-len 4096', '+ --max-model-len 9000 --enforce-eager'"
    )


def test_the_same_command_points_away_from_its_arguments() -> None:
    assert text(GOOD, GOOD) == "This very command ran healthily before: something else has changed."


def test_a_server_that_was_never_healthy_has_no_past() -> None:
    assert text(None, GOOD) is None


def test_a_secret_is_not_shown_as_a_difference() -> None:
    good = ["vllm", "serve", "org/model", "--api-key", "***"]
    told = text(good, ["vllm", "serve", "org/model", "--api-key", "sk-abcdefghijklmnop1234"])
    assert "abcdefghijklmnop" not in (told or "")


def test_a_stored_death_says_what_differs(store: Store) -> None:
    healthy = store.begin_launch("a", GOOD, Engine.VLLM, Mode.PROPOSE)
    store.settled(healthy, "ready for 30 s")
    words = [*GOOD, "--enforce-eager"]
    launch = store.begin_launch("a", words, Engine.VLLM, Mode.PROPOSE)
    failed = Diagnosis(outcome=Outcome.FAILED, phase=Phase.LOADING)
    store_death(store, launch, Command.parse(words), Exit(code=1), Phase.LOADING, failed, Mode.PROPOSE)
    kept = store.launch(launch).diagnosis
    assert kept is not None
    assert [one.text for one in kept.evidence] == ["Since the last healthy launch: '+ --enforce-eager'"]
