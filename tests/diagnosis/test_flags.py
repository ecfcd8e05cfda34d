from __future__ import annotations

from dataclasses import replace

from app.core.catalogue import Flag, FlagCatalogue
from app.core.model import Event, Line, LogDigest
from app.core.shipped import shipped
from app.core.vocabulary import Engine
from app.diagnosis.flags import catalogue_of

INSTALLED = FlagCatalogue(Engine.SGLANG, "9.9", "installed", (Flag("--only-here"),))


def usage(*lines: str) -> LogDigest:
    return LogDigest(events=(Event("usage", tuple(Line(at, text, text) for at, text in enumerate(lines, 1))),))


PRINTED = usage(
    "usage: launch_server.py [-h] --model-path M [--new-a A]",
    "                        [--new-b B] [--new-c | --no-new-c]",
    "launch_server.py: error: x",
)


def test_the_installed_programs_own_flags_come_first() -> None:
    assert catalogue_of(Engine.SGLANG, "0.5.9", PRINTED, INSTALLED) == (INSTALLED, True)


def test_an_installed_help_that_lists_only_a_part_is_not_exact() -> None:
    part = replace(INSTALLED, complete=False)
    assert catalogue_of(Engine.SGLANG, None, LogDigest(), part) == (part, False)


def test_the_usage_block_in_the_log_comes_before_what_is_shipped() -> None:
    found, exact = catalogue_of(Engine.SGLANG, None, PRINTED, None)
    assert found is not None
    assert (found.origin, exact, "--new-b" in found) == ("log", False, True)


def test_a_usage_block_that_was_cut_short_is_not_taken_for_all_flags() -> None:
    short = usage(
        "usage: api_server.py [-h] [--host H] [--port P]", "  [--dtype D] [--api-key K]", "api_server.py: error: x"
    )
    found, exact = catalogue_of(Engine.VLLM, None, short, None)
    assert found is not None
    assert (found.origin, exact) == ("shipped", False)


def test_a_shipped_catalogue_is_exact_for_its_own_version_only() -> None:
    known = shipped(Engine.SGLANG, "0.5.9")
    assert catalogue_of(Engine.SGLANG, "0.5.9", LogDigest(), None) == (known, True)
    assert catalogue_of(Engine.SGLANG, "0.5.8", LogDigest(), None) == (known, False)


def test_without_a_version_the_settings_that_were_printed_tell_what_it_is_like() -> None:
    settings = frozenset({"model_path", "cuda_graph_max_bs", "nsa_prefill_backend"})
    found, exact = catalogue_of(Engine.SGLANG, None, LogDigest(), None, settings)
    assert found is not None
    assert (found.version, exact) == ("0.5.9", False)


def test_a_program_that_nobody_knows_has_no_catalogue() -> None:
    assert catalogue_of(None, None, LogDigest(), None) == (None, False)
