"""Unresolved incidents are diagnosed again when the rules are newer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from app.core.model import Cause, Diagnosis, Exit
from app.core.vocabulary import Category, Confidence, Engine, Outcome, Phase
from app.diagnosis.pipeline import Pipeline
from app.rules.load import builtin_rules
from app.service.retriage import retriage
from app.store.store import Store

LOG = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB\n"
)
UNKNOWN = Cause("any/unknown-failure", Category.UNKNOWN, "Failed", "Nobody knows.", Confidence.LOW)
EARLIER = Diagnosis(outcome=Outcome.FAILED, phase=Phase.LOADING, causes=(UNKNOWN,), fingerprint="old")


@cache
def pipeline() -> Pipeline:
    return Pipeline(builtin_rules(), read_source=False)


def died(store: Store, diagnosis: Diagnosis = EARLIER, log: str | None = LOG) -> int:
    launch = store.begin_launch("kimi", ("vllm", "serve", "org/model"), Engine.VLLM)
    incident = store.record_death(launch, Exit(code=1), Phase.LOADING, diagnosis)
    if log is not None:
        folder = store.evidence_folder(incident) / f"launch-{launch}"
        folder.mkdir(parents=True)
        (folder / "log").write_text(log)
    return incident


def test_an_incident_that_newer_rules_explain_gets_their_cause(store: Store) -> None:
    incident = died(store)
    [corrected] = retriage(store, pipeline())
    view = store.incident(incident)
    assert (corrected.incident_id, corrected.before) == (incident, "any/unknown-failure")
    assert view.category is Category.GPU_OUT_OF_MEMORY
    assert (
        view.timeline[-1].text == f"diagnosed again with newer rules: {corrected.after} instead of any/unknown-failure"
    )


def test_a_second_look_changes_nothing(store: Store) -> None:
    died(store)
    retriage(store, pipeline())
    assert retriage(store, pipeline()) == ()


def test_an_incident_without_evidence_is_left_alone(store: Store) -> None:
    died(store, log=None)
    assert retriage(store, pipeline()) == ()


def test_a_resolved_incident_is_left_alone(store: Store) -> None:
    incident = died(store)
    store.resolve(incident, "over")
    assert retriage(store, pipeline()) == ()


def test_evidence_that_shows_no_failure_overrules_nothing(store: Store) -> None:
    died(store, log="INFO:     Application startup complete.\n")
    assert retriage(store, pipeline()) == ()


@pytest.mark.parametrize("rule", ["any/half-dead", "any/process-gone"])
def test_what_was_seen_beside_the_log_is_not_overruled(store: Store, rule: str) -> None:
    died(store, replace(EARLIER, causes=(replace(UNKNOWN, rule=rule),)))
    assert retriage(store, pipeline()) == ()


def test_nobody_is_asked_to_act_on_it(store: Store) -> None:
    incident = died(store)
    retriage(store, pipeline())
    assert store.incident(incident).proposal is None


def test_a_cause_that_stays_the_same_leaves_no_note(store: Store) -> None:
    rule = died(store)
    retriage(store, pipeline())
    before = len(store.incident(rule).timeline)
    retriage(store, pipeline())
    assert len(store.incident(rule).timeline) == before


def test_an_incident_that_was_resolved_meanwhile_is_not_rewritten(store: Store) -> None:
    incident = died(store)
    launch = store.incident(incident).launches[-1]
    store.resolve(incident, "over")
    better = replace(EARLIER, causes=(replace(UNKNOWN, rule="any/other", category=Category.DISK_FULL),))
    assert not store.diagnosed_again(launch.id, better, "again")
    assert store.incident(incident).category is Category.UNKNOWN


def test_knowing_less_than_before_is_no_news(store: Store) -> None:
    known = replace(UNKNOWN, rule="ours/gone", category=Category.DISK_FULL)
    died(store, replace(EARLIER, causes=(known,)), log="RuntimeError: nobody knows this one\n")
    assert retriage(store, pipeline()) == ()


def test_evidence_that_cannot_be_read_keeps_nobody_else_waiting(store: Store) -> None:
    first = died(store)
    launch = store.begin_launch("other", ("vllm", "serve", "org/model"), Engine.VLLM)
    broken = store.record_death(launch, Exit(code=1), Phase.LOADING, EARLIER)
    log = store.evidence_folder(broken) / f"launch-{launch}" / "log"
    log.parent.mkdir(parents=True)
    log.symlink_to("/proc/self/mem")  # a file whose reading fails
    assert [one.incident_id for one in retriage(store, pipeline())] == [first]
