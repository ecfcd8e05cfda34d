"""One engine's name for a thing is translated to another's, as far as that is true."""

from __future__ import annotations

import pytest

from app.core.equivalents import equivalent
from app.core.shipped import shipped
from app.core.vocabulary import Engine

NEWER = shipped(Engine.SGLANG, "0.5.23")
OLDER = shipped(Engine.SGLANG, "0.5.9")
VLLM = shipped(Engine.VLLM, "0.32.0")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--max-model-len", "--context-length"),
        ("--max_model_len", "--context-length"),
        ("--max-num-seqs", "--max-running-requests"),
        ("--enforce-eager", "--disable-cuda-graph"),
        ("--num-speculative-tokens", "--speculative-num-draft-tokens"),
        ("--speculative-model", "--speculative-draft-model-path"),
        ("--ctx-size", "--context-length"),
        ("--num-shard", "--tp-size"),
        ("--no-enable-prefix-caching", "--disable-radix-cache"),
        ("--seed", "--random-seed"),
    ],
)
def test_other_engines_flags_have_a_name_in_sglang(typed: str, meant: str) -> None:
    found = equivalent(typed, Engine.SGLANG, NEWER)

    assert found is not None
    assert (found.flag, found.same_meaning, found.fold) == (meant, True, None)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--context-length", "--max-model-len"),
        ("--max-running-requests", "--max-num-seqs"),
        ("--disable-cuda-graph", "--enforce-eager"),
        ("--disable-radix-cache", "--no-enable-prefix-caching"),
        ("--model-path", "--model"),
    ],
)
def test_sglangs_flags_have_a_name_in_vllm(typed: str, meant: str) -> None:
    found = equivalent(typed, Engine.VLLM, VLLM)

    assert found is not None
    assert (found.flag, found.same_meaning) == (meant, True)


@pytest.mark.parametrize(
    ("typed", "engine", "meant"),
    [
        ("--gpu-memory-utilization", Engine.SGLANG, "--mem-fraction-static"),
        ("--max-num-batched-tokens", Engine.SGLANG, "--chunked-prefill-size"),
        ("--mem-fraction-static", Engine.VLLM, "--gpu-memory-utilization"),
    ],
)
def test_a_number_that_means_something_else_is_only_near(typed: str, engine: Engine, meant: str) -> None:
    found = equivalent(typed, engine, NEWER if engine is Engine.SGLANG else VLLM)

    assert found is not None
    assert (found.flag, found.same_meaning) == (meant, False)


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("--num-speculative-tokens", "num_speculative_tokens"),
        ("--speculative-num-draft-tokens", "num_speculative_tokens"),
        ("--speculative-model", "model"),
        ("--speculative-draft-model-path", "model"),
        ("--ngram-prompt-lookup-max", "prompt_lookup_max"),
    ],
)
def test_what_became_a_key_of_a_json_flag_is_folded(typed: str, key: str) -> None:
    found = equivalent(typed, Engine.VLLM, VLLM)

    assert found is not None
    assert (found.flag, found.fold) == ("--speculative-config", key)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"),
        ("--nsa-decode-backend", "--dsa-decode-backend"),
        ("--enable-nsa-prefill-context-parallel", "--enable-prefill-cp"),
        ("--mamba-scheduler-strategy", "--mamba-radix-cache-strategy"),
        ("--stream-output", "--incremental-streaming-output"),
    ],
)
def test_a_flag_that_a_later_version_renamed_is_followed_both_ways(typed: str, meant: str) -> None:
    newer, older = equivalent(typed, Engine.SGLANG, NEWER), equivalent(meant, Engine.SGLANG, OLDER)

    assert newer is not None
    assert newer.flag == meant
    assert older is None or older.flag == typed


@pytest.mark.parametrize(
    ("typed", "engine"),
    [
        ("--enable-reasoning", Engine.SGLANG),
        ("--enable-auto-tool-choice", Engine.SGLANG),
        ("--enable-prefix-caching", Engine.SGLANG),
        ("--disable-log-requests", Engine.VLLM),
        ("--trust-remote-code", Engine.LLAMACPP),
    ],
)
def test_what_a_program_does_anyway_can_go(typed: str, engine: Engine) -> None:
    found = equivalent(typed, engine)

    assert found is not None
    assert (found.flag, found.drop) == (None, True)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--context-length", "--ctx-size"),
        ("--max-model-len", "--ctx-size"),
        ("--served-model-name", "--alias"),
        ("--draft-max", "--spec-draft-n-max"),
    ],
)
def test_flags_have_a_name_in_llama_server(typed: str, meant: str) -> None:
    found = equivalent(typed, Engine.LLAMACPP, shipped(Engine.LLAMACPP, "0.5.0"))

    assert found is not None
    assert (found.flag, found.same_meaning) == (meant, True)


def test_what_has_no_counterpart_is_told_and_not_dropped() -> None:
    found = equivalent("--swap-space", Engine.SGLANG, NEWER)

    assert found is not None
    assert (found.flag, found.drop, found.same_meaning) == (None, False, False)


@pytest.mark.parametrize("typed", ["--model-path", "--tensor-parallel-size", "--cuda-graph-max-bs-decode"])
def test_a_flag_that_the_program_has_needs_no_other(typed: str) -> None:
    assert equivalent(typed, Engine.SGLANG, NEWER) is None


def test_a_target_that_this_version_lacks_is_not_offered() -> None:
    assert equivalent("--nsa-prefill-backend", Engine.SGLANG, OLDER) is None


def test_nothing_is_known_of_a_flag_that_nobody_has() -> None:
    assert equivalent("--frobnicate", Engine.SGLANG, NEWER) is None
