"""`crashcart rules candidates`: what no rule knows, the most frequent first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app.core.model import Cause, Diagnosis, Exit, Line
from app.core.vocabulary import Category, Confidence, Engine, Phase
from app.store.store import Store

Asked = Callable[..., Any]
Diagnosing = Callable[..., Diagnosis]


def dies(store: Store, diagnosing: Diagnosing, server: str, fingerprint: str, text: str) -> int:
    cause = Cause("any/unknown-failure", Category.UNKNOWN, "Failed", "No rule knows it.", Confidence.LOW)
    cause = replace(cause, line=Line(7, text, text))
    with store.lock_server(server, engine=Engine.SGLANG):
        launch = store.begin_launch(server, ["serve"], Engine.SGLANG)
        diagnosis = replace(diagnosing(), causes=(cause,), fingerprint=fingerprint)
        incident = store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosis)
    folder = store.evidence_folder(incident) / f"launch-{launch}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log").write_text(text)
    store.resolve(incident, "over")
    return incident


def test_incidents_that_no_rule_knows_stand_together_by_fingerprint(
    store: Store, diagnosed: Diagnosing, asked: Asked
) -> None:
    dies(store, diagnosed, "kimi", "fp-rare", "FluxError: none")
    first = dies(store, diagnosed, "kimi", "fp-often", "WarpError: 7")
    second = dies(store, diagnosed, "qwen", "fp-often", "WarpError: 8")

    [often, rare] = json.loads(asked("rules", "candidates", "--json").out)

    assert (often["fingerprint"], often["incidents"]) == ("fp-often", [second, first])
    assert often["servers"] == ["kimi", "qwen"]
    assert (rare["fingerprint"], rare["line"]) == ("fp-rare", "FluxError: none")


def test_the_way_to_a_rule_is_told_with_the_kept_log(store: Store, diagnosed: Diagnosing, asked: Asked) -> None:
    incident = dies(store, diagnosed, "kimi", "fp", "WarpError: 7")

    said = asked("rules", "candidates").out

    [log] = store.evidence_folder(incident).glob("launch-*/log")
    assert said.endswith(f"  crashcart rules new any/NAME --from-log {log}\n")


def test_without_unknown_failures_that_is_told(store: Store, asked: Asked) -> None:
    assert asked("rules", "candidates").out == "No incident without a known cause is kept.\n"
