"""What a program would refuse is found before it starts, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.core.catalogue import Flag, FlagCatalogue
from app.core.command import Command
from app.core.problems import ArgumentProblem
from app.core.shipped import shipped
from app.core.vocabulary import Engine

SGLANG = shipped(Engine.SGLANG, "0.5.23")
OLDER = shipped(Engine.SGLANG, "0.5.9")
VLLM = shipped(Engine.VLLM, "0.32.0")
LLAMA = shipped(Engine.LLAMACPP, "0.5.0")


def problems(text: str, catalogue: FlagCatalogue | None = None) -> list[ArgumentProblem]:
    command = Command.from_string(text)
    known = catalogue or command.catalogue
    assert known is not None
    return known.validate(command)


def kinds(text: str, catalogue: FlagCatalogue | None = None) -> list[tuple[str, str, str | None]]:
    return [(problem.kind, problem.flag, problem.value) for problem in problems(text, catalogue)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sglang serve --model-path x --num-speculative-tokens 16", ("unknown", "--num-speculative-tokens", "16")),
        ("sglang serve --model-path x --enforce-eager", ("unknown", "--enforce-eager", None)),
        ("sglang serve --model-path x --mem_fraction_static 0.8", ("unknown", "--mem_fraction_static", "0.8")),
        ("sglang serve --model-path x --speculative-num 16", ("ambiguous", "--speculative-num", "16")),
        ("sglang serve --model-path x --port", ("missing-value", "--port", None)),
        ("sglang serve --model-path x --port --tp 2", ("missing-value", "--port", None)),
        ("sglang serve --model-path x --trust-remote-code=true", ("unexpected-value", "--trust-remote-code", "true")),
        ("sglang serve x --trust-remote-code true", ("unexpected-value", "--trust-remote-code", "true")),
        ("sglang serve --model-path x --port abc", ("bad-type", "--port", "abc")),
        ("sglang serve --model-path x --mem-fraction-static 80%", ("bad-type", "--mem-fraction-static", "80%")),
        ("sglang serve --model-path x --attention-backend foo", ("bad-choice", "--attention-backend", "foo")),
        ("python -m sglang.launch_server --port 1", ("required", "--model-path", None)),
        ("python -m sglang.launch_server --model x y", ("unknown", "", "y")),
        ("vllm serve x --max-model-len abc", ("bad-type", "--max-model-len", "abc")),
        ("vllm serve x --speculative-config {method:", ("bad-type", "--speculative-config", "{method:")),
        ("vllm serve x --dtype float99", ("bad-choice", "--dtype", "float99")),
        ("vllm serve x y", ("unknown", "", "y")),
        ("sglang serve x --port None", ("bad-type", "--port", "None")),
        ("sglang serve x --attention-backend ''", ("bad-choice", "--attention-backend", "")),
    ],
)
def test_each_kind_of_mistake_is_found(text: str, found: tuple[str, str, str | None]) -> None:
    assert kinds(text) == [found]


def test_mistakes_come_in_the_order_typed() -> None:
    text = "python -m sglang.launch_server --model x --max-model-len 4096 --max-num-seqs 8 --enforce-eager"

    assert [problem.flag for problem in problems(text)] == ["--max-model-len", "--max-num-seqs", "--enforce-eager"]


def test_a_problem_tells_choices_candidates_and_type() -> None:
    assert "triton" in problems("sglang serve x --attention-backend foo")[0].choices
    assert problems("sglang serve x --cuda-graph-max-bs 8")[0].candidates == (
        "--cuda-graph-max-bs-decode",
        "--cuda-graph-max-bs-prefill",
    )
    assert problems("sglang serve x --port abc")[0].type == "int"


@pytest.mark.parametrize(
    "text",
    [
        "A=b numactl --cpunodebind=0 python3 -m sglang.launch_server --model x --tp 8 --context-len 9 --port=1",
        "sglang serve x --model-type llm",
        "sglang serve --config server.yaml",
        "python3 -m sglang.launch_server --help",
        "python3 -m sglang.launch_server $ARGS --port $PORT",
        "sglang serve x --lora-paths a=b c=d --cuda-graph-bs-decode 1 2 4 --random-seed -1",
        "vllm serve",
        "vllm serve x -tp 2 -O3 --max_model_len 4k --no-enable-prefix-caching --max-model-len -1",
        "vllm serve x --speculative-config.num_speculative_tokens 3 --hf-overrides.a.b=1 -sc.method ngram",
        "vllm serve x --api-key a b --speculative-config '{\"a\": 1}' --revision None",
        "vllm serve x --port 1 > log.txt 2>&1 &",
        "docker run --gpus all -p 1:2 vllm/vllm-openai:latest --model x --enforce-eager",
    ],
)
def test_a_valid_command_is_let_through(text: str) -> None:
    assert problems(text) == []


def test_a_usage_block_names_one_spelling_so_others_are_not_called_unknown() -> None:
    partial = FlagCatalogue(Engine.SGLANG, None, "log", (Flag("--model-path"), Flag("--port")), complete=False)

    assert kinds("sglang serve x --model y --tp 2 --port", partial) == [("missing-value", "--port", None)]


def test_llama_server_takes_no_value_behind_an_equals_sign() -> None:
    llama = FlagCatalogue(
        Engine.LLAMACPP, None, "shipped", (Flag("--ctx-size", ("-c",)),), abbreviations=False, attached=False
    )

    assert kinds("llama-server --ctx-size=4096", llama) == [("unknown", "--ctx-size", "4096")]
    assert kinds("llama-server -c 4096", llama) == []


# -- no false alarms: every flag of the real parsers, with every value that they offer


def _valid_uses(catalogue: FlagCatalogue) -> Iterator[tuple[str, ...]]:
    samples = {"int": "1", "float": "0.5", "json": '{"a": 1}', "human-int": "4k", "human-int-or-auto": "auto"}
    for flag in catalogue.flags:
        values = flag.choices or (samples.get(flag.type or "", "text"),)
        for spelling in flag.spellings:
            if flag.takes == "none":
                yield (spelling,)
            elif flag.takes == "optional":
                yield (spelling,)
                yield (spelling, values[0])
            elif flag.takes == "many":
                yield (spelling, *(values * (flag.count or 1)))
            else:
                yield from ((spelling, value) for value in values)
                if catalogue.attached:
                    yield (f"{spelling}={values[0]}",)
        yield from ((negation,) for negation in flag.negations)


@pytest.mark.parametrize(
    ("program", "catalogue"),
    [
        (("python3", "-m", "sglang.launch_server", "--model-path", "m"), SGLANG),
        (("python3", "-m", "sglang.launch_server", "--model-path", "m"), OLDER),
        (("vllm", "serve", "m"), VLLM),
        (("llama-server", "-m", "m"), LLAMA),
    ],
    ids=["sglang-0.5.23", "sglang-0.5.9", "vllm-0.32.0", "llamacpp-0.5.0"],
)
def test_no_use_of_any_flag_of_the_real_parser_raises_an_alarm(
    program: tuple[str, ...], catalogue: FlagCatalogue
) -> None:
    alarms = [
        problem
        for use in _valid_uses(catalogue)
        for problem in catalogue.validate(Command.parse((*program, *use, "--port", "1"), catalogue))
    ]

    assert alarms == []
