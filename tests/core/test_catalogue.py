"""A catalogue answers as the program's own parser would, and knows what was meant."""

from __future__ import annotations

import argparse
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.catalogue import Flag, FlagCatalogue
from app.core.nearness import clearly_meant, distance
from app.core.shipped import nearest_shipped, shipped, shipped_catalogues, version_key
from app.core.vocabulary import Engine

SGLANG = shipped(Engine.SGLANG, "0.5.23")
OLDER = shipped(Engine.SGLANG, "0.5.9")
VLLM = shipped(Engine.VLLM, "0.32.0")
LLAMA = shipped(Engine.LLAMACPP, "0.5.0")


def test_each_shipped_version_is_known_oldest_first() -> None:
    assert shipped_catalogues()[Engine.SGLANG] == ("0.5.9", "0.5.23")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("0.5.9", "0.5.9"), ("0.5.23.post1", "0.5.23"), ("0.4.1", "0.5.9"), ("0.5.11", "0.5.9"), ("0.5.20", "0.5.23"),
     ("0.6.0", "0.5.23"), (None, "0.5.23")],
)  # fmt: skip
def test_the_nearest_version_stands_in(wanted: str | None, found: str) -> None:
    catalogue = nearest_shipped(Engine.SGLANG, wanted)

    assert catalogue is not None
    assert catalogue.version == found


def test_an_engine_without_a_shipped_catalogue_has_none() -> None:
    assert nearest_shipped(Engine.OLLAMA) is None
    assert nearest_shipped(None) is None


@pytest.mark.parametrize(
    ("text", "key"),
    [("0.5.23", (0, 5, 23)), ("0.32.0+cpu", (0, 32, 0)), ("0.5.9.post2", (0, 5, 9)), ("1.0rc1", (1, 0)),
     ("b6341", (6341,))],
)  # fmt: skip
def test_versions_are_ordered_by_their_release(text: str, key: tuple[int, ...]) -> None:
    assert version_key(text) == key


@pytest.mark.parametrize("catalogue", [SGLANG, OLDER, VLLM, LLAMA], ids=lambda c: f"{c.engine}-{c.version}")
def test_a_catalogue_survives_being_written_and_read(catalogue: FlagCatalogue) -> None:
    again = FlagCatalogue.from_json(catalogue.to_json())

    assert set(again.flags) == set(catalogue.flags)
    assert again.to_json() == catalogue.to_json()


def test_loading_a_shipped_catalogue_takes_no_noticeable_time() -> None:
    text = SGLANG.to_json()
    times = []
    for _ in range(20):
        start = time.thread_time()
        FlagCatalogue.from_json(text)
        times.append(time.thread_time() - start)

    assert min(times) < 0.01


# -- resolving


@pytest.mark.parametrize(
    ("catalogue", "spelled", "kind", "name"),
    [
        (SGLANG, "--model-path", "exact", "--model-path"),
        (SGLANG, "--model", "exact", "--model-path"),
        (SGLANG, "--tp", "prefix", "--tp-size"),
        (SGLANG, "--speculative-num-draft", "prefix", "--speculative-num-draft-tokens"),
        (SGLANG, "--mem_fraction_static", "unknown", None),
        (SGLANG, "--speculative-num", "ambiguous", None),
        (SGLANG, "--cuda-graph-max-bs", "ambiguous", None),
        (OLDER, "--cuda-graph-max-bs", "exact", "--cuda-graph-max-bs"),
        (SGLANG, "--num-speculative-tokens", "unknown", None),
        (VLLM, "--max_model_len", "exact", "--max-model-len"),
        (VLLM, "-tp", "exact", "--tensor-parallel-size"),
        (VLLM, "--max-model", "prefix", "--max-model-len"),
        (LLAMA, "-c", "exact", "--ctx-size"),
        (LLAMA, "--ctx_size", "exact", "--ctx-size"),
        (LLAMA, "--ctx", "unknown", None),
        (LLAMA, "--draft-max", "unknown", None),
    ],
)
def test_a_spelling_is_understood_as_the_parser_does(
    catalogue: FlagCatalogue, spelled: str, kind: str, name: str | None
) -> None:
    found = catalogue.resolve(spelled)

    assert found.kind == kind
    assert (found.flag.name if found.flag else None) == name


def test_an_ambiguous_abbreviation_names_what_it_could_be() -> None:
    found = SGLANG.resolve("--speculative-num")

    assert {flag.name for flag in found.candidates} == {"--speculative-num-steps", "--speculative-num-draft-tokens"}


def test_a_negation_is_the_same_flag_negated() -> None:
    found = VLLM.resolve("--no-enable-prefix-caching")

    assert found.flag is VLLM.find("--enable-prefix-caching")
    assert found.negated


def test_a_key_of_a_json_flag_is_told() -> None:
    found = VLLM.resolve("--speculative-config.num_speculative_tokens")

    assert found.flag is not None
    assert (found.flag.name, found.key) == ("--speculative-config", "num_speculative_tokens")


NAMES = st.lists(
    st.text("ab-", min_size=1, max_size=4).map(lambda text: "--a" + text.strip("-")),
    min_size=1,
    max_size=6,
    unique=True,
)  # fmt: skip


@settings(deadline=None)
@given(NAMES, st.text("ab-", min_size=1, max_size=5).map(lambda text: "--a" + text))
def test_resolving_agrees_with_argparse(names: list[str], typed: str) -> None:
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    for name in names:
        parser.add_argument(name, dest=name, action="store_true")
    catalogue = FlagCatalogue(Engine.OTHER, None, "log", tuple(Flag(name, takes="none") for name in names))

    assert _as_argparse(parser, typed) == _as_catalogue(catalogue, typed)


def _as_argparse(parser: argparse.ArgumentParser, typed: str) -> str | None:
    try:
        known, extra = parser.parse_known_args([typed])
    except argparse.ArgumentError:
        return "ambiguous"
    except SystemExit:
        return "ambiguous"
    return None if extra else next(name for name, value in vars(known).items() if value)


def _as_catalogue(catalogue: FlagCatalogue, typed: str) -> str | None:
    found = catalogue.resolve(typed)
    return "ambiguous" if found.kind == "ambiguous" else found.flag.name if found.flag else None


# -- what was meant


@pytest.mark.parametrize(
    ("catalogue", "typed", "meant"),
    [
        (VLLM, "--max-modle-len", "--max-model-len"),
        (VLLM, "--trust-remote-codes", "--trust-remote-code"),
        (VLLM, "--dtpye", "--dtype"),
        (LLAMA, "--ctx-sise", "--ctx-size"),
        (LLAMA, "--n-gpu-layer", "--n-gpu-layers"),  # though other flags have the word `layer`
        (SGLANG, "--mem_fraction_static", "--mem-fraction-static"),
        (SGLANG, "--max-runing-requests", "--max-running-requests"),
        (SGLANG, "--tp-sizee", "--tp-size"),
        (SGLANG, "--modle", "--model"),
        (OLDER, "--contxt-length", "--context-length"),
    ],
)
def test_a_slip_of_a_key_or_two_is_clear(catalogue: FlagCatalogue, typed: str, meant: str) -> None:
    assert catalogue.near(typed) == meant


@pytest.mark.parametrize(
    "typed", ["--num-speculative-tokens", "--max-model-len", "--foo", "--xp-size", "--enforce-eager", "--t"]
)
def test_what_is_no_slip_of_one_flag_is_not_guessed(typed: str) -> None:
    assert SGLANG.near(typed) is None


@pytest.mark.parametrize(
    ("typed", "known"),
    [
        ("--min-batch-size", ("--max-batch-size", "--min-tokens")),  # min is a word of its own
        ("--fp4-gemm-backend", ("--fp8-gemm-backend",)),  # a digit is a meaning
        ("--batch-sizes-a", ("--batch-sizes-b", "--batch-sizes-c")),  # two are as near
    ],
)
def test_another_word_is_not_a_slip(typed: str, known: tuple[str, ...]) -> None:
    assert clearly_meant(typed, {name: name for name in known}) is None


@pytest.mark.parametrize(
    ("left", "right", "slips"), [("size", "size", 0), ("sise", "size", 1), ("modle", "model", 1), ("abc", "xyz", 3)]
)
def test_slips_are_counted_a_swap_as_one(left: str, right: str, slips: int) -> None:
    assert distance(left, right, 2) == slips


def test_the_closest_flags_come_best_first() -> None:
    names = [flag.name for flag, _ in VLLM.closest("--max-modle-len")]

    assert names[0] == "--max-model-len"
    assert len(names) <= 3


def test_a_flag_that_the_help_hides_is_taken_but_not_offered() -> None:
    assert SGLANG.resolve("--forward-pass-metrics-ipc-name").kind == "exact"
    assert SGLANG.near("--forward-pass-metrics-ipc-nam3") is None
