"""Whatever parser a program has, its complaint about arguments is understood."""

from __future__ import annotations

import argparse

import pytest

from app.core.arguments import ARGUMENT_ERROR_PATTERNS, read_argparse_error
from app.core.command import Command
from app.core.problems import ArgumentProblem

Short = tuple[str, str, str | None]


def read(line: str, command: str | None = None, usage: str | None = None) -> list[ArgumentProblem]:
    return read_argparse_error(line, usage, Command.from_string(command) if command is not None else None)


def short(problems: list[ArgumentProblem]) -> list[Short]:
    return [(problem.kind, problem.flag, problem.value) for problem in problems]


# -- unknown flags


@pytest.mark.parametrize(
    "prog", ["launch_server.py", "sglang serve", "vllm", "vllm serve", "api_server.py", "__main__.py"]
)
def test_the_programs_name_does_not_matter(prog: str) -> None:
    line = f"{prog}: error: unrecognized arguments: --num-speculative-tokens 16"

    assert short(read(line)) == [("unknown", "--num-speculative-tokens", "16")]


def test_several_unknown_flags_have_each_their_value() -> None:
    line = "sglang serve: error: unrecognized arguments: --max-model-len 4096 --max-num-seqs 8 --enforce-eager"
    found = [
        ("unknown", "--max-model-len", "4096"),
        ("unknown", "--max-num-seqs", "8"),
        ("unknown", "--enforce-eager", None),
    ]

    assert short(read(line)) == found
    assert (
        short(read(line, "sglang serve --max-model-len 4096 --model-path x --max-num-seqs 8 --enforce-eager")) == found
    )


def test_the_command_tells_the_spelling_and_a_value_with_blanks() -> None:
    line = 'vllm: error: unrecognized arguments: --foo-bar {"a": 1, "b": 2} --max-modle-len=9'
    command = """vllm serve x --foo_bar '{"a": 1, "b": 2}' --max_modle_len=9"""

    assert short(read(line, command)) == [
        ("unknown", "--foo_bar", '{"a": 1, "b": 2}'),
        ("unknown", "--max_modle_len", "9"),
    ]


def test_a_value_that_a_positional_took_comes_from_the_command() -> None:
    line = "api_server.py: error: unrecognized arguments: --num-speculative-tokens"
    command = "python3 -m vllm.entrypoints.openai.api_server --num-speculative-tokens 1"

    assert short(read(line, command)) == [("unknown", "--num-speculative-tokens", "1")]


def test_a_word_behind_a_switch_was_meant_as_its_value() -> None:
    line = "launch_server.py: error: unrecognized arguments: true"

    assert short(read(line, "python -m sglang.launch_server --trust-remote-code true --port 1")) == [
        ("unexpected-value", "--trust-remote-code", "true")
    ]
    assert short(read(line)) == [("unknown", "", "true")]


def test_a_word_that_another_flag_has_as_its_value_is_not_confused_with_it() -> None:
    line = "x.py: error: unrecognized arguments: 1 two words"
    command = "python -m sglang.launch_server --port 1 --enable-metrics 1 --trust-remote-code 'two words'"

    assert short(read(line, command)) == [
        ("unexpected-value", "--enable-metrics", "1"),
        ("unexpected-value", "--trust-remote-code", "two words"),
    ]


def test_an_empty_word_is_a_word() -> None:
    line = "x.py: error: unrecognized arguments: "

    assert short(read(line, "python -m sglang.launch_server --enable-metrics '' --port 1")) == [
        ("unexpected-value", "--enable-metrics", "")
    ]


def test_of_a_flag_given_twice_the_one_with_the_bad_value_is_named() -> None:
    line = "x.py: error: argument --speculative-num-steps: invalid int value: 'abc'"
    command = "python -m sglang.launch_server --speculative-num-steps abc --speculative-num-st 1"

    assert short(read(line, command)) == [("bad-type", "--speculative-num-steps", "abc")]


def test_a_shells_command_line_is_not_taken_for_flags() -> None:
    line = "api_server.py: error: unrecognized arguments: /bin/bash -c cd / && python3 -m x --port 80"

    assert short(read(line)) == [("unknown", "", "/bin/bash -c cd / && python3 -m x --port 80")]


# -- the other complaints of argparse


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("x.py: error: argument --port: expected one argument", ("missing-value", "--port", None)),
        ("x.py: error: argument --a: expected at least one argument", ("missing-value", "--a", None)),
        ("x.py: error: argument --pair: expected 2 arguments", ("missing-value", "--pair", None)),
        ("x.py: error: argument --port: invalid int value: 'abc'", ("bad-type", "--port", "abc")),
        ("vllm: error: argument --max-model-len: invalid human_readable_int_or_auto value: '4 k'",
         ("bad-type", "--max-model-len", "4 k")),
        ("x.py: error: argument --on: ignored explicit argument 'true'", ("unexpected-value", "--on", "true")),
        ("x.py: error: argument -tp/--tensor-parallel-size: invalid int value: 'two'",
         ("bad-type", "--tensor-parallel-size", "two")),
        ("sglang serve: error: argument --context-length: Invalid integer value: '0.5'. Use a plain integer.",
         ("bad-type", "--context-length", "0.5")),
        ("vllm serve: error: Invalid JSON format for --lora-modules: text", ("bad-type", "--lora-modules", None)),
        ("x.py: error: argument --port: Port must be between 1024 and 65535", ("bad-type", "--port", None)),
        ("vllm serve: error: argument --speculative-config/-sc: Value {method: ngram cannot be converted to "
         "<function loads at 0x7ffb32e6d120>.", ("bad-type", "--speculative-config", "{method: ngram")),
    ],
)  # fmt: skip
def test_a_complaint_about_one_argument_is_read(line: str, found: Short) -> None:
    assert short(read(line)) == [found]


def test_the_value_and_spelling_of_the_command_are_told() -> None:
    line = "vllm: error: argument --tensor-parallel-size/-tp: invalid int value: 'two'"

    assert short(read(line, "vllm serve x -tp two")) == [("bad-type", "-tp", "two")]


@pytest.mark.parametrize(
    "tail",
    [
        "(choose from 'auto', 'half', 'float16')",
        "(choose from auto, half, float16)",
        "(choose from 'auto', 'half', 'float16'",
    ],
)
def test_choices_are_read_with_and_without_quotes(tail: str) -> None:
    found = read(f"x.py: error: argument --dtype: invalid choice: 'float99' {tail}")[0]

    assert (found.kind, found.flag, found.value) == ("bad-choice", "--dtype", "float99")
    assert found.choices == ("auto", "half", "float16")


def test_a_suggestion_before_the_choices_is_no_choice() -> None:
    line = "x.py: error: argument --dtype: invalid choice: 'halff', maybe you meant 'half'? (choose from auto, half)"

    assert read(line)[0].choices == ("auto", "half")


def test_an_ambiguous_flag_names_its_candidates_and_value() -> None:
    line = "x.py: error: ambiguous option: --spec-num could match --spec-num-steps, --spec-num-draft-tokens"
    found = read(line, "python -m sglang.launch_server --spec-num 16")[0]

    assert (found.kind, found.flag, found.value) == ("ambiguous", "--spec-num", "16")
    assert found.candidates == ("--spec-num-steps", "--spec-num-draft-tokens")


def test_an_ambiguous_flag_with_its_value_joined_is_read() -> None:
    found = read("x.py: error: ambiguous option: --spec=16 could match --spec-a, --spec-b")[0]

    assert (found.flag, found.value) == ("--spec", "16")


def test_each_required_argument_is_a_problem_of_its_own() -> None:
    found = read("x.py: error: the following arguments are required: --model-path/--model, --port, model_tag")

    assert short(found) == [
        ("required", "--model-path", None),
        ("required", "--port", None),
        ("required", "model_tag", None),
    ]
    assert found[0].candidates == ("--model-path", "--model")


def test_arguments_that_exclude_each_other_are_both_named() -> None:
    found = read("x.py: error: argument --on: not allowed with argument --off")[0]

    assert (found.kind, found.flag, found.candidates) == ("conflict", "--on", ("--off",))


def test_one_of_several_is_required() -> None:
    found = read("x.py: error: one of the arguments --a --b is required")[0]

    assert (found.kind, found.candidates) == ("required", ("--a", "--b"))


class _Complains(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise RuntimeError(f"{self.prog}: error: {message}")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--foo", "1", "--bar"], [("unknown", "--foo", "1"), ("unknown", "--bar", None)]),
        (["--port"], [("missing-value", "--port", None)]),
        (["--port", "x"], [("bad-type", "--port", "x")]),
        (["--dtype", "it's"], [("bad-choice", "--dtype", "it's")]),
        (["--sp", "2"], [("ambiguous", "--sp", "2")]),
        (["--on=1"], [("unexpected-value", "--on", "1")]),
    ],
)
def test_what_this_pythons_argparse_says_is_read(words: list[str], found: list[Short]) -> None:
    parser = _Complains(prog="server.py", add_help=False)
    parser.add_argument("--port", type=int)
    parser.add_argument("--dtype", choices=["a", "b"])
    parser.add_argument("--spec-a")
    parser.add_argument("--spec-b")
    parser.add_argument("--on", action="store_true")

    with pytest.raises(RuntimeError) as raised:
        parser.parse_args(words)

    assert short(read_argparse_error(str(raised.value), None, Command.parse(["server.py", *words]))) == found


# -- other parsers


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Error: No such option: --prot (Possible options: --port, --proto)", ("unknown", "--prot", None)),
        ("Error: No such option '--prot'. Did you mean '--port'?", ("unknown", "--prot", None)),
        ("│ No such option: --prot Did you mean --port?        │", ("unknown", "--prot", None)),
        ("Error: Option '--port' requires an argument.", ("missing-value", "--port", None)),
        ("Error: Option '--on' does not take a value.", ("unexpected-value", "--on", None)),
        ("Error: Invalid value for '--port': 'abc' is not a valid integer.", ("bad-type", "--port", "abc")),
        ("Error: Invalid value for '--port' / '-p': 'abc' is not a valid integer.", ("bad-type", "--port", "abc")),
        ("Error: Invalid value for '--dtype': 'x' is not one of 'a', 'b'.", ("bad-choice", "--dtype", "x")),
        ("Error: Missing option '--model'.", ("required", "--model", None)),
        ("Error: Got unexpected extra argument (true)", ("unknown", "", "true")),
        ("error: invalid argument: --ctx-sise", ("unknown", "--ctx-sise", None)),
        ("error: invalid argument: -hf", ("unknown", "-hf", None)),
        ('error while handling argument "-c": stoi', ("bad-type", "-c", None)),
        ('error while handling argument "--port": expected value for argument', ("missing-value", "--port", None)),
        ("error while handling argument \"--flash-attn\": error: unkown value for --flash-attn: '--ctx-size'",
         ("missing-value", "--flash-attn", None)),
        ("error while handling argument \"--flash-attn\": error: unknown value for --flash-attn: 'yes'",
         ("bad-choice", "--flash-attn", "yes")),
        ("error: unexpected argument '--foo' found", ("unknown", "--foo", None)),
        ("error: Found argument '--foo' which wasn't expected, or isn't valid in this context",
         ("unknown", "--foo", None)),
        ("error: invalid value 'abc' for '--port <PORT>': invalid digit found in string",
         ("bad-type", "--port", "abc")),
        ("error: a value is required for '--port <PORT>' but none was supplied", ("missing-value", "--port", None)),
        ("error: the argument '--a <A>' cannot be used with '--b'", ("conflict", "--a", None)),
        ("flag provided but not defined: -x", ("unknown", "-x", None)),
        ("Error: unknown flag: --x", ("unknown", "--x", None)),
        ("Error: unknown shorthand flag: 'x' in -xyz", ("unknown", "-x", None)),
        ("flag needs an argument: -port", ("missing-value", "-port", None)),
        ('invalid value "abc" for flag -port: parse error', ("bad-type", "-port", "abc")),
        ('Error: invalid argument "abc" for "--port" flag: strconv.ParseInt: parsing "abc"',
         ("bad-type", "--port", "abc")),
    ],
)  # fmt: skip
def test_other_parsers_are_understood(line: str, found: Short) -> None:
    assert short(read(line)) == [found]


def test_the_value_of_a_flag_that_only_is_named_comes_from_the_command() -> None:
    assert short(read("error: invalid argument: --ctx-sise", "llama-server --ctx-sise 256 -m x")) == [
        ("unknown", "--ctx-sise", "256")
    ]


def test_a_flag_that_a_version_removed_names_what_took_its_place() -> None:
    line = (
        'error while handling argument "--draft-max": the argument has been removed. '
        "use --spec-draft-n-max or --spec-ngram-mod-n-max"
    )
    found = read(line, "llama-server -m x --draft-max 3")[0]

    assert (found.kind, found.flag, found.value) == ("removed", "--draft-max", "3")
    assert found.candidates == ("--spec-draft-n-max", "--spec-ngram-mod-n-max")


def test_llama_servers_choices_are_in_the_help_behind_the_error() -> None:
    usage = "usage:\n-sm,   --split-mode {none,layer,row}\n                                        how to split\n"

    found = read(
        'error while handling argument "--split-mode": invalid value', "llama-server --split-mode diag", usage
    )[0]

    assert (found.kind, found.value, found.choices) == ("bad-choice", "diag", ("none", "layer", "row"))


def test_a_tip_names_the_candidate() -> None:
    lines = "error: unexpected argument '--foo' found\n\n  tip: a similar argument exists: '--food'"

    assert read(lines)[0].candidates == ("--food",)
    assert read("Error: No such option: --x (Possible options: --y, --z)")[0].candidates == ("--y", "--z")


def test_possible_values_and_missing_arguments_stand_on_lines_of_their_own() -> None:
    values = "error: invalid value 'x' for '--dtype <DTYPE>'\n  [possible values: float16, bfloat16]"
    missing = "error: the following required arguments were not provided:\n  --model-id <MODEL_ID>"

    assert read(values)[0].choices == ("float16", "bfloat16")
    assert short(read(missing)) == [("required", "--model-id", None)]


# -- what is no complaint


@pytest.mark.parametrize(
    "line",
    [
        "",
        "RuntimeError: error: something else",
        "INFO: the prompt was 'x.py: error: unrecognized arguments: --foo'",
        "Receive: obj=GenerateReqInput(text='error: invalid argument: --foo')",
        "ValueError: argument --x: expected one argument",
        "error: failed to load model",
        "Error: could not connect",
        "error: unrecognized",
    ],
)
def test_other_lines_are_left_alone(line: str) -> None:
    assert read(line) == []


def test_each_pattern_can_be_searched_for_in_a_log() -> None:
    assert all(pattern.startswith("^") for pattern in ARGUMENT_ERROR_PATTERNS)
