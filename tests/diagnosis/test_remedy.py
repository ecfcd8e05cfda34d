from __future__ import annotations

import pytest

from app.core.catalogue import Flag, FlagCatalogue
from app.core.command import Command
from app.core.model import Fix
from app.core.vocabulary import Action, Engine, Safety
from app.diagnosis.remedy import Bench, Remedy, choose, clear_choice
from app.rules.schema import FixSpec

CATALOGUE = FlagCatalogue(
    engine=Engine.SGLANG,
    version="1.0",
    origin="installed",
    flags=(
        Flag("--model-path", aliases=("--model",)),
        Flag("--tensor-parallel-size", aliases=("--tp-size", "--tp"), type="int"),
        Flag("--mem-fraction-static", type="float"),
        Flag("--context-length", type="int"),
        Flag("--attention-backend", choices=("triton", "flashinfer", "fa3")),
        Flag("--disable-radix-cache", takes="none"),
    ),
)


def bench(*arguments: str, exact: bool = True) -> Bench:
    words = ("A=1", "python3", "-m", "sglang.launch_server", "--model-path", "m", *arguments)
    return Bench(Command.parse(words, CATALOGUE), CATALOGUE, exact)


def remedy(where: Bench, captures: dict[str, str] | None = None, **spec: object) -> Remedy:
    return choose([FixSpec.model_validate({"safety": "safe"} | spec)], captures or {}, where, lambda _: True)


def tail(found: Remedy) -> tuple[str, ...]:
    assert found.command is not None
    return found.command.words()[6:]


def test_a_value_is_set_with_what_was_captured() -> None:
    found = remedy(bench(), {"tokens": "4096"}, set={"--context-length": "{tokens}"})
    assert tail(found) == ("--context-length", "4096")


def test_a_flag_that_is_there_under_another_spelling_is_edited_in_place() -> None:
    found = remedy(bench("--tp", "2", "--disable-radix-cache"), set={"--tensor-parallel-size": 4})
    assert tail(found) == ("--tp", "4", "--disable-radix-cache")


def test_a_missing_capture_makes_a_fix_impossible() -> None:
    assert remedy(bench(), set={"--context-length": "{tokens}"}) == Remedy()


def test_a_number_is_rounded_down_to_a_multiple() -> None:
    found = remedy(bench(), {"tokens": "5000"}, set={"--context-length": {"floor": "{tokens}", "to": 1024}})
    assert tail(found) == ("--context-length", "4096")


def test_a_number_may_be_so_much_more_than_another() -> None:
    found = remedy(bench(), {"tokens": "4096"}, set={"--context-length": {"floor": "{tokens}", "plus": 512}})
    assert tail(found) == ("--context-length", "4608")


@pytest.mark.parametrize(
    ("now", "change", "then"),
    [
        ("0.85", {"by": -0.05, "min": 0.5}, "0.8"),
        ("0.52", {"by": -0.05, "min": 0.5}, "0.5"),
        ("0.9", {"times": 0.5, "min": 0.1}, "0.45"),
    ],
)
def test_a_number_is_moved_within_its_bounds(now: str, change: dict[str, float], then: str) -> None:
    found = remedy(bench("--mem-fraction-static", now), adjust={"--mem-fraction-static": change})
    assert tail(found) == ("--mem-fraction-static", then)


def test_a_whole_number_stays_whole() -> None:
    found = remedy(bench("--context-length", "4097"), adjust={"--context-length": {"times": 0.5, "min": 1}})
    assert tail(found) == ("--context-length", "2048")


@pytest.mark.parametrize("now", ["0.5", "0.4", "nan", "lots"])
def test_a_number_is_never_moved_beyond_its_bound_or_the_wrong_way(now: str) -> None:
    change = {"--mem-fraction-static": {"by": -0.05, "min": 0.5}}
    assert remedy(bench("--mem-fraction-static", now), adjust=change) == Remedy()


def test_what_is_not_given_cannot_be_adjusted() -> None:
    assert remedy(bench(), adjust={"--mem-fraction-static": {"by": -0.05, "min": 0.5}}) == Remedy()


def test_a_fix_that_changes_nothing_is_dropped() -> None:
    assert remedy(bench("--tp", "4"), set={"--tp-size": 4}) == Remedy()


def test_a_flag_that_this_version_lacks_is_not_offered() -> None:
    assert remedy(bench(), set={"--brand-new": 1}) == Remedy()


def test_a_value_that_would_be_refused_is_not_offered() -> None:
    assert remedy(bench(), set={"--context-length": "many"}) == Remedy()


def test_removing_what_is_not_there_is_dropped() -> None:
    assert remedy(bench(), remove=["--disable-radix-cache"]) == Remedy()


def test_the_first_fix_that_can_be_applied_is_taken() -> None:
    specs = [
        FixSpec.model_validate({"safety": "safe", "remove": ["--disable-radix-cache"]}),
        FixSpec.model_validate({"safety": "degrading", "loses": ["length"], "set": {"--context-length": 1024}}),
    ]
    found = choose(specs, {}, bench(), lambda _: True)
    assert (found.safety, found.loses, tail(found)) == (Safety.DEGRADING, ("length",), ("--context-length", "1024"))


def test_a_fix_whose_requirement_does_not_hold_is_passed_over() -> None:
    spec = FixSpec.model_validate(
        {"safety": "safe", "set": {"--context-length": 1}, "requires": {"argv": {"has": "--tp"}}}
    )
    assert choose([spec], {}, bench(), lambda _: False) == Remedy()


def test_a_restart_changes_nothing_and_is_an_action_of_its_own() -> None:
    found = remedy(bench(), restart=True)
    assert (found.action, found.fix, found.command) == (Action.RESTART, None, None)


def test_without_a_command_the_fix_is_given_alone() -> None:
    found = remedy(Bench(), set={"--context-length": 1024})
    assert (found.fix, found.command) == (Fix(set={"--context-length": "1024"}), None)


def test_a_command_that_would_still_be_refused_is_not_safe() -> None:
    found = remedy(bench("--attention-backend", "foo"), set={"--context-length": 1024})
    assert found.safety is Safety.MANUAL


def test_flags_that_a_catalogue_of_another_version_does_not_know_are_no_reason_to_refuse() -> None:
    found = remedy(bench("--only-in-mine", exact=False), set={"--context-length": 1024})
    assert found.safety is Safety.SAFE


def test_environment_is_set_and_unset_in_front() -> None:
    found = remedy(bench(), env_set={"B": "2"}, env_unset=["A"])
    assert found.command is not None
    assert found.command.words()[:2] == ("B=2", "python3")


@pytest.mark.parametrize(
    ("typed", "choice"),
    [
        ("Triton", "triton"),
        ("flash_infer", "flashinfer"),
        ("flashinfr", "flashinfer"),
        ("fp8_e4m2", None),
        ("tri", None),
        ("torch", None),
    ],
)
def test_a_choice_is_meant_only_when_it_is_a_slip_away(typed: str, choice: str | None) -> None:
    assert clear_choice(typed, ["triton", "flashinfer", "fp8_e5m2", "fp8_e4m3", "torch_native"]) == choice
