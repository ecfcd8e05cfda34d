from __future__ import annotations

import pytest

from app.core.command import Command
from app.core.model import Cause
from app.core.problems import ArgumentProblem, ProblemKind
from app.core.shipped import shipped
from app.core.vocabulary import Category, Engine, Safety
from app.diagnosis.arguments import causes_of
from app.diagnosis.remedy import Bench

SGLANG = shipped(Engine.SGLANG, "0.5.9")
VLLM = shipped(Engine.VLLM, "0.32.0")


def sglang(*arguments: str) -> Bench:
    words = ("python3", "-m", "sglang.launch_server", "--model-path", "m", *arguments)
    return Bench(Command.parse(words, SGLANG), SGLANG, True)


def vllm(*arguments: str) -> Bench:
    return Bench(Command.parse(("vllm", "serve", "m", *arguments), VLLM), VLLM, True)


def only(bench: Bench, *problems: ArgumentProblem) -> Cause:
    [cause] = causes_of(problems, bench, engine=Engine.SGLANG, version="0.5.9", line=None)
    return cause


def changed(cause: Cause, skip: int = 5) -> tuple[str, ...]:
    assert cause.command is not None
    return cause.command[skip:]


def test_another_projects_name_of_the_same_thing_becomes_this_ones() -> None:
    bench = sglang("--num-speculative-tokens", "16")
    cause = only(bench, ArgumentProblem("unknown", "--num-speculative-tokens", "16"))
    assert changed(cause) == ("--speculative-num-draft-tokens", "16")
    assert (cause.rule, cause.safety) == ("any/unknown-argument", Safety.SAFE)


def test_a_slip_of_the_finger_is_mended() -> None:
    cause = only(sglang("--context-lenght=8"), ArgumentProblem("unknown", "--context-lenght", "8"))
    assert changed(cause) == ("--context-length=8",)


def test_several_unknown_flags_are_mended_at_once() -> None:
    bench = sglang("--max-model-len", "4096", "--max-num-seqs", "8")
    cause = only(
        bench, ArgumentProblem("unknown", "--max-model-len", "4096"), ArgumentProblem("unknown", "--max-num-seqs", "8")
    )
    assert changed(cause) == ("--context-length", "4096", "--max-running-requests", "8")


def test_a_near_meaning_is_not_safe_and_says_what_is_lost() -> None:
    bench = sglang("--gpu-memory-utilization", "0.9")
    cause = only(bench, ArgumentProblem("unknown", "--gpu-memory-utilization", "0.9"))
    assert changed(cause) == ("--mem-fraction-static", "0.9")
    assert cause.safety is not Safety.SAFE
    assert cause.loses


def test_a_flag_that_nothing_stands_for_can_only_be_left_out_by_a_person() -> None:
    cause = only(sglang("--wibble"), ArgumentProblem("unknown", "--wibble"))
    assert changed(cause) == ()
    assert (cause.safety, cause.loses) == (Safety.MANUAL, ("--wibble",))


def test_one_flag_of_several_that_a_person_has_to_decide_on_makes_all_of_it_so() -> None:
    bench = sglang("--max-model-len", "4096", "--wibble")
    cause = only(bench, ArgumentProblem("unknown", "--max-model-len", "4096"), ArgumentProblem("unknown", "--wibble"))
    assert changed(cause) == ("--context-length", "4096")
    assert cause.safety is Safety.MANUAL


def test_the_model_is_never_left_out() -> None:
    words = ("python3", "-m", "sglang.launch_server", "--model-id", "m")
    cause = only(Bench(Command.parse(words, SGLANG), SGLANG, True), ArgumentProblem("unknown", "--model-id", "m"))
    assert "--model-id" not in cause.loses


def test_a_name_that_is_only_like_another_is_shown_to_a_person() -> None:
    cause = only(
        sglang("--max-radix-eviction-policy", "lru"), ArgumentProblem("unknown", "--max-radix-eviction-policy")
    )
    assert changed(cause) == ("--radix-eviction-policy", "lru")
    assert cause.safety is Safety.MANUAL


def test_a_longer_name_of_a_choice_is_shown_to_a_person() -> None:
    problem = ArgumentProblem("bad-choice", "--attention-backend", "mla", choices=("triton", "flashmla_mla", "mla_x"))
    assert only(sglang("--attention-backend", "mla"), problem).fix is None
    problem = ArgumentProblem("bad-choice", "--attention-backend", "native", choices=("triton", "torch_native"))
    cause = only(sglang("--attention-backend", "native"), problem)
    assert changed(cause) == ("--attention-backend", "torch_native")
    assert cause.safety is Safety.MANUAL


def test_without_a_catalogue_a_known_other_name_is_for_a_person_to_decide() -> None:
    command = Command.parse(("llama-server", "-m", "x.gguf", "--context-length", "8"))
    bench = Bench(command, None, False, Engine.LLAMACPP)
    [cause] = causes_of(
        [ArgumentProblem("unknown", "--context-length", "8")], bench, engine=Engine.LLAMACPP, version=None, line=None
    )
    assert changed(cause, 3) == ("--ctx-size", "8")
    assert cause.safety is Safety.MANUAL


@pytest.mark.parametrize(("flag", "value"), [("--attention_backend", "triton"), ("--kv_cache_dtype", "auto")])
def test_a_flag_with_underscores_is_not_taken_for_a_second_one_beside_itself(flag: str, value: str) -> None:
    cause = only(sglang(flag, value, "--tp", "2"), ArgumentProblem("unknown", flag, value))
    assert changed(cause) == (flag.replace("_", "-"), value, "--tp", "2")
    assert (cause.safety, cause.loses) == (Safety.SAFE, ())


def test_what_is_given_under_its_right_name_too_is_not_written_twice() -> None:
    bench = sglang("--max-model-len", "4096", "--context-length", "8192")
    cause = only(bench, ArgumentProblem("unknown", "--max-model-len", "4096"))
    assert changed(cause) == ("--context-length", "8192")
    assert cause.safety is Safety.MANUAL


def test_a_value_that_moved_into_a_json_flag_is_put_there() -> None:
    bench = vllm("--num-speculative-tokens", "5")
    cause = only(bench, ArgumentProblem("unknown", "--num-speculative-tokens", "5"))
    assert changed(cause, 3) == ("--speculative-config", '{"num_speculative_tokens": 5}')


def test_it_joins_what_the_json_flag_holds_already() -> None:
    bench = vllm("--num-speculative-tokens", "5", "--speculative-config", '{"method": "ngram"}')
    cause = only(bench, ArgumentProblem("unknown", "--num-speculative-tokens", "5"))
    assert changed(cause, 3) == ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 5}')


def test_two_values_that_moved_into_one_json_flag_are_both_there() -> None:
    bench = vllm("--speculative-model", "draft", "--num-speculative-tokens", "5")
    problems = [
        ArgumentProblem("unknown", "--speculative-model", "draft"),
        ArgumentProblem("unknown", "--num-speculative-tokens", "5"),
    ]
    [cause] = causes_of(problems, bench, engine=Engine.VLLM, version="0.32.0", line=None)
    assert changed(cause, 3) == ("--speculative-config", '{"model": "draft", "num_speculative_tokens": 5}')


def test_a_choice_in_other_letters_is_mended() -> None:
    bench = sglang("--attention-backend", "Triton")
    problem = ArgumentProblem("bad-choice", "--attention-backend", "Triton", choices=("triton", "fa3"))
    cause = only(bench, problem)
    assert changed(cause) == ("--attention-backend", "triton")
    assert cause.safety is Safety.SAFE


@pytest.mark.parametrize(("typed", "meant"), [("fp16", "float16"), ("bf16", "bfloat16"), ("fp32", "float32")])
def test_another_name_of_a_number_format_is_mended(typed: str, meant: str) -> None:
    choices = ("auto", "half", "float16", "bfloat16", "float", "float32")
    cause = only(sglang("--dtype", typed), ArgumentProblem("bad-choice", "--dtype", typed, choices=choices))
    assert changed(cause) == ("--dtype", meant)
    assert cause.safety is Safety.SAFE


@pytest.mark.parametrize(
    ("kind", "rule", "category"),
    [
        ("ambiguous", "any/ambiguous-argument", Category.UNKNOWN_ARGUMENT),
        ("missing-value", "any/argument-value-missing", Category.MISSING_ARGUMENT),
        ("bad-choice", "any/argument-bad-choice", Category.INVALID_ARGUMENT_VALUE),
        ("bad-type", "any/argument-bad-type", Category.INVALID_ARGUMENT_VALUE),
        ("required", "any/required-argument-missing", Category.MISSING_ARGUMENT),
        ("conflict", "any/conflicting-arguments", Category.INCOMPATIBLE_ARGUMENTS),
    ],
)
def test_what_was_meant_is_never_guessed(kind: ProblemKind, rule: str, category: Category) -> None:
    cause = only(sglang(), ArgumentProblem(kind, "--port", "x", candidates=("--a", "--b"), choices=("one", "two")))
    assert (cause.rule, cause.category, cause.fix) == (rule, category, None)


def test_the_other_mistakes_in_a_command_are_mended_along() -> None:
    bench = sglang("--max-model-len", "4096", "--num-speculative-tokens", "16")
    cause = only(bench, ArgumentProblem("unknown", "--max-model-len", "4096"))
    assert changed(cause) == ("--context-length", "4096", "--speculative-num-draft-tokens", "16")
    assert cause.safety is Safety.SAFE


def test_a_command_with_another_mistake_that_cannot_be_mended_is_not_safe() -> None:
    bench = sglang("--max-model-len", "4096", "--port", "many")
    cause = only(bench, ArgumentProblem("unknown", "--max-model-len", "4096"))
    assert cause.safety is Safety.MANUAL


def test_a_flag_that_the_program_itself_proposes_is_taken() -> None:
    bench = Bench(Command.parse(("router", "--max-input-token", "9")))
    cause = only(bench, ArgumentProblem("unknown", "--max-input-token", "9", candidates=("--max-input-tokens",)))
    assert changed(cause, skip=1) == ("--max-input-tokens", "9")
    assert cause.safety is Safety.MANUAL  # nobody knows what else this program would refuse


def test_of_several_proposals_none_is_taken() -> None:
    bench = Bench(Command.parse(("router", "--max-token", "9")))
    problem = ArgumentProblem("unknown", "--max-token", "9", candidates=("--max-tokens", "--max-token-a"))
    assert only(bench, problem).fix is None
