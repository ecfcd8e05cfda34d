"""Flags are read from help texts and usage blocks as their parsers define them."""

from __future__ import annotations

import argparse

import pytest

from app.core.catalogue import Flag
from app.core.helptext import catalogue_from_help, parse_help
from app.core.vocabulary import Engine


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="server.py", description="A server.\n  --not-a-flag in a description")
    parser.add_argument("model_tag", nargs="?", help="positional")
    parser.add_argument("--model-path", "--model", required=True, help="where the model is")
    parser.add_argument("--speculative-config", "-sc", help="uses --other-flag when\n set")
    parser.add_argument("--a-flag-with-a-very-long-name-that-wraps", type=int, default=3)
    parser.add_argument("--dtype", choices=["auto", "half", "float16"])
    parser.add_argument("--trust-remote-code", action="store_true", help="--dtype is not meant here")
    parser.add_argument("--prefix-caching", action=argparse.BooleanOptionalAction)
    parser.add_argument("--lora-paths", nargs="*")
    parser.add_argument("--buckets", nargs="+", type=float)
    parser.add_argument("--targets", nargs="+", choices=["q_proj", "k_proj"])
    parser.add_argument("--modules", nargs="*", choices=["a", "b"])
    parser.add_argument("--pair", nargs=2, metavar=("START", "END"))
    parser.add_argument("--maybe", nargs="?", const="x")
    parser.add_argument("-c", "--ctx")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--on", action="store_true")
    group.add_argument("--off", action="store_true")
    return parser


FLAGS = {
    "--help": Flag("--help", ("-h",), "none"),
    "--model-path": Flag("--model-path", ("--model",), required=True),
    "--speculative-config": Flag("--speculative-config", ("-sc",)),
    "--a-flag-with-a-very-long-name-that-wraps": Flag("--a-flag-with-a-very-long-name-that-wraps"),
    "--dtype": Flag("--dtype", choices=("auto", "half", "float16")),
    "--trust-remote-code": Flag("--trust-remote-code", takes="none"),
    "--prefix-caching": Flag("--prefix-caching", takes="none", negations=("--no-prefix-caching",)),
    "--lora-paths": Flag("--lora-paths", takes="many"),
    "--buckets": Flag("--buckets", takes="many"),
    "--targets": Flag("--targets", takes="many", choices=("q_proj", "k_proj")),
    "--modules": Flag("--modules", takes="many", choices=("a", "b")),
    "--pair": Flag("--pair", takes="many", count=2),
    "--maybe": Flag("--maybe", takes="optional"),
    "--ctx": Flag("--ctx", ("-c",)),
    "--on": Flag("--on", takes="none"),
    "--off": Flag("--off", takes="none"),
}


@pytest.mark.parametrize("columns", ["50", "80", "200"])
def test_an_argparse_help_gives_every_flag_at_any_width(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    assert {flag.name: flag for flag in parse_help(_parser().format_help())} == FLAGS


@pytest.mark.parametrize("columns", ["50", "80", "200"])
def test_a_usage_block_gives_one_spelling_of_every_flag(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    usage = _parser().format_usage() + "server.py: error: unrecognized arguments: --foo\n"

    found = {flag.name: flag for flag in parse_help(usage)}

    assert set(found) == (set(FLAGS) - {"--help", "--ctx"}) | {"-h", "-c"}
    assert [name for name, flag in found.items() if flag.required] == ["--model-path"]
    assert (found["--dtype"].choices, found["--lora-paths"].takes) == (("auto", "half", "float16"), "many")
    assert found["--prefix-caching"].negations == ("--no-prefix-caching",)


def test_only_a_list_of_options_is_a_complete_catalogue() -> None:
    parser = _parser()

    assert catalogue_from_help(parser.format_help(), Engine.SGLANG, "1").complete
    assert not catalogue_from_help(parser.format_usage(), Engine.SGLANG, None, "log").complete


def test_choices_that_are_only_advice_bind_nobody() -> None:
    text = "options:\n  --parser {a,b} or name registered by --plugin\n                        text\n  --x X\n"

    assert parse_help(text)[0] == Flag("--parser")


LLAMA = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-t,    --threads N                      number of CPU threads (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto')
-sm,   --split-mode {none,layer,row}
                                        how to split the model, one of:
                                        - none: use one GPU only
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to offload the KV cache
--poll <0...100>                        use polling level
--lora-scaled FNAME SCALE               path to an adapter and its scale
--mlock                                 keep the model in RAM
--draft, --draft-max N                  the argument has been removed. use --spec-draft-n-max or
                                        --spec-ngram-mod-n-max
"""


def test_llama_servers_help_is_read() -> None:
    assert parse_help(LLAMA) == (
        Flag("--help", ("-h", "--usage"), "none"),
        Flag("--threads", ("-t",)),
        Flag("--flash-attn", ("-fa",)),
        Flag("--split-mode", ("-sm",), choices=("none", "layer", "row")),
        Flag("--kv-offload", ("-kvo",), "none", negations=("-nkvo", "--no-kv-offload")),
        Flag("--poll"),
        Flag("--lora-scaled", takes="many", count=2),
        Flag("--mlock", takes="none"),
    )


@pytest.mark.parametrize(
    "text", ["", "no flags here", "usage:", "usage: prog", "\n\n--", "  -", "[--a [", "usage: x [--a"]
)
def test_any_text_can_be_read(text: str) -> None:
    assert len(parse_help(text)) <= 1
