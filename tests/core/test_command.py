"""A launch command is read in every spelling, and an edit changes one thing only."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.catalogue import Flag, FlagCatalogue
from app.core.command import Command, detect_engine
from app.core.errors import CommandError
from app.core.model import Fix
from app.core.vocabulary import Engine

SGLANG = ("python3", "-m", "sglang.launch_server")


def sglang(*arguments: str) -> Command:
    return Command.parse((*SGLANG, *arguments))


def after(command: Command) -> tuple[str, ...]:
    return command.words()[len(SGLANG) :]


# -- the parts of a command


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("python3 -m sglang.launch_server --port 1", Engine.SGLANG),
        ("sglang serve --model-path x", Engine.SGLANG),
        ("python -u -m vllm.entrypoints.openai.api_server --model x", Engine.VLLM),
        ("vllm serve facebook/opt-125m", Engine.VLLM),
        ("/opt/venv/bin/vllm serve x", Engine.VLLM),
        ("/opt/venv/bin/python3.11 /opt/venv/bin/vllm serve x", Engine.VLLM),
        ("python /src/vllm/entrypoints/openai/api_server.py --model x", Engine.VLLM),
        ("/app/llama-server -m x.gguf", Engine.LLAMACPP),
        ("text-generation-launcher --model-id x", Engine.TGI),
        ("trtllm-serve serve /model --tp_size 8", Engine.TENSORRT_LLM),
        ("lmdeploy serve api_server x --tp 2", Engine.LMDEPLOY),
        ("ollama serve", Engine.OLLAMA),
        ("numactl --cpunodebind=0 --membind 0 vllm serve x", Engine.VLLM),
        ("nohup env A=b nice -n 5 python3 -m sglang.launch_server", Engine.SGLANG),
        ("A=b timeout -k 5 60 vllm serve x", Engine.VLLM),
        ("uv run --with x python -m sglang.launch_server", Engine.SGLANG),
        ("docker run --gpus all --name vllm -e A=b -p 80:80 sgl:v1 python3 -m sglang.launch_server", Engine.SGLANG),
        ("docker run --rm -it vllm/vllm-openai:latest --model x", Engine.VLLM),
    ],
)  # fmt: skip
def test_the_engine_is_known_by_its_module_or_program(text: str, engine: Engine) -> None:
    assert Command.from_string(text).engine is engine


@pytest.mark.parametrize(
    "text", ["python3 train.py --vllm serve", "vllm bench serve", "python -m sglang.bench_serving", "sleep 5", ""]
)
def test_what_starts_no_server_has_no_engine(text: str) -> None:
    assert detect_engine(text.split()) is None


def test_assignments_interpreter_module_and_model_are_told_apart() -> None:
    command = Command.from_string("A=1 B='x y' python3 -u -m sglang.launch_server --model-path /m --port 31000")

    assert command.env == (("A", "1"), ("B", "x y"))
    assert command.argv[:2] == ("python3", "-u")
    assert (command.interpreter, command.module, command.model, command.port) == (
        "python3",
        "sglang.launch_server",
        "/m",
        31000,
    )


def test_the_model_of_vllm_serve_is_its_first_word() -> None:
    command = Command.from_string("vllm serve facebook/opt-125m --enforce-eager --port 8001")

    assert command.positionals == ("facebook/opt-125m",)
    assert (command.model, command.port) == ("facebook/opt-125m", 8001)


@pytest.mark.parametrize(
    ("text", "port"),
    [("sglang serve --model-path x", 30000), ("vllm serve x", 8000), ("llama-server -m x", 8080), ("sleep 1", None)],
)
def test_a_port_that_is_not_given_is_the_engines_own(text: str, port: int | None) -> None:
    assert Command.from_string(text).port == port


def test_bare_arguments_are_a_command_too() -> None:
    command = Command.parse(["--model", "x", "--port", "18081"])

    assert (command.program, command.get("--model"), command.port) == (None, "x", 18081)


def test_a_line_continued_by_a_backslash_is_one_command() -> None:
    command = Command.from_string("vllm serve x \\\n  --port 1 \\\n  --chat-template 'a\\\nb'")

    assert command.words() == ("vllm", "serve", "x", "--port", "1", "--chat-template", "a\\\nb")


def test_an_open_quote_is_told_with_a_mend() -> None:
    with pytest.raises(CommandError) as raised:
        Command.from_string("vllm serve 'x")

    assert raised.value.mend is not None


def test_a_command_to_paste_quotes_what_needs_it() -> None:
    command = Command.parse(["A=x y", "vllm", "serve", "m", "--speculative-config", '{"a": 1}'])

    assert command.shell() == "A='x y' vllm serve m --speculative-config '{\"a\": 1}'"


# -- reading flags


@pytest.mark.parametrize("words", [("--port", "1"), ("--port=1",), ("--por", "1")])
def test_a_value_is_found_in_every_spelling(words: tuple[str, ...]) -> None:
    assert sglang(*words).get("--port") == "1"


def test_aliases_and_underscores_are_one_flag_where_the_engine_says_so() -> None:
    command = Command.from_string("vllm serve x -tp 8 --max_model_len=4096 -O3")

    assert command.get("--tensor-parallel-size") == "8"
    assert command.get("--max-model-len") == "4096"


def test_the_last_of_a_repeated_flag_wins() -> None:
    command = sglang("--port", "1", "--tp", "2", "--port=3")

    assert command.get("--port") == "3"
    assert command.get_all("--port") == ["1", "3"]


def test_negative_numbers_and_json_are_values() -> None:
    command = sglang("--random-seed", "-1", "--json-model-override-args", '{"a": -1}', "--chunked-prefill-size", "-.5")

    assert command.get("--random-seed") == "-1"
    assert command.get("--json-model-override-args") == '{"a": -1}'
    assert command.get("--chunked-prefill-size") == "-.5"


def test_a_flag_of_many_values_has_them_all() -> None:
    command = sglang("--lora-paths", "a=x", "b=y", "--port", "1")

    assert command.values("--lora-paths") == ("a=x", "b=y")
    assert command.get("--port") == "1"


def test_a_switch_takes_no_word_from_behind_it() -> None:
    command = Command.from_string("vllm serve --enforce-eager facebook/opt-125m")

    assert command.get("--enforce-eager") is True
    assert command.positionals == ("facebook/opt-125m",)


def test_a_negated_switch_is_not_had() -> None:
    command = Command.from_string("vllm serve x --no-enable-prefix-caching")

    assert not command.has("--enable-prefix-caching")
    assert command.get("--no-enable-prefix-caching") is True


def test_keys_of_a_json_flag_are_flags_of_their_own() -> None:
    command = Command.from_string("vllm serve x --speculative-config.num_speculative_tokens 3 -sc.method ngram")

    assert command.get("--speculative-config.num_speculative_tokens") == "3"
    assert command.get("--speculative-config.method") == "ngram"
    assert not command.has("--speculative-config")


def test_words_behind_a_double_dash_are_no_flags() -> None:
    command = Command.parse(["prog", "--a", "1", "--", "--b", "2"])

    assert not command.has("--b")
    assert command.positionals == ("--b", "2")


def test_what_a_shell_would_redirect_is_no_value() -> None:
    command = Command.from_string("nohup vllm serve x --port 1 > log.txt 2>&1 &")

    assert command.set("--seed", "2").shell() == "nohup vllm serve x --port 1 --seed 2 '>' log.txt '2>&1' '&'"


# -- edits


def test_a_value_is_changed_where_and_how_it_was_typed() -> None:
    command = sglang("--tp=2", "--port", "1", "--context-len", "9")

    assert after(command.set("--tp-size", "4")) == ("--tp=4", "--port", "1", "--context-len", "9")
    assert after(command.set("--port", "2")) == ("--tp=2", "--port", "2", "--context-len", "9")
    assert after(command.set("--context-length", "8")) == ("--tp=2", "--port", "1", "--context-len", "8")


def test_a_new_flag_goes_to_the_end() -> None:
    assert after(sglang("--port", "1").set("--tp-size", "4")) == ("--port", "1", "--tp-size", "4")
    assert after(sglang("--port", "1").set("--trust-remote-code", True)) == ("--port", "1", "--trust-remote-code")


def test_a_new_flag_goes_before_the_double_dash() -> None:
    assert Command.parse(["prog", "--a", "--", "x"]).set("--b", "1").words() == ("prog", "--a", "--b", "1", "--", "x")


def test_only_the_last_of_a_repeated_flag_is_changed() -> None:
    assert after(sglang("--port", "1", "--port", "2").set("--port", "3")) == ("--port", "1", "--port", "3")


def test_a_bare_flag_gets_its_value_behind_it() -> None:
    assert after(sglang("--port", "--tp", "2").set("--port", "3")) == ("--port", "3", "--tp", "2")


def test_a_switch_loses_the_value_that_it_should_not_have() -> None:
    assert after(sglang("--trust-remote-code=true").set("--trust-remote-code", True)) == ("--trust-remote-code",)


def test_a_negated_switch_is_set_by_its_other_spelling() -> None:
    command = Command.from_string("vllm serve x --no-enable-prefix-caching --seed 1")

    assert command.set("--enable-prefix-caching").shell() == "vllm serve x --enable-prefix-caching --seed 1"


def test_a_value_that_looks_like_a_flag_is_joined_to_its_own() -> None:
    assert after(sglang().set("--api-key", "-x")) == ("--api-key=-x",)


def test_a_flag_is_removed_with_all_its_values() -> None:
    command = sglang("--lora-paths", "a", "b", "--port", "1", "--lora-paths=c")

    assert after(command.remove("--lora-paths")) == ("--port", "1")


def test_an_unknown_flag_is_removed_with_its_value_but_without_the_model() -> None:
    command = Command.from_string("vllm serve --foo 1 facebook/opt-125m --bar 2 3")

    assert command.remove("--foo").shell() == "vllm serve facebook/opt-125m --bar 2 3"
    assert command.remove("--bar").shell() == "vllm serve --foo 1 facebook/opt-125m"


@pytest.mark.parametrize(
    ("typed", "renamed"),
    [
        (("--num-speculative-tokens", "16"), ("--speculative-num-draft-tokens", "16")),
        (("--num-speculative-tokens=16",), ("--speculative-num-draft-tokens=16",)),
        (("--num-speculative-tokens",), ("--speculative-num-draft-tokens",)),
    ],
)
def test_a_rename_keeps_value_and_style(typed: tuple[str, ...], renamed: tuple[str, ...]) -> None:
    command = sglang("--port", "1", *typed, "--tp", "2")

    new = command.rename("--num-speculative-tokens", "--speculative-num-draft-tokens")

    assert after(new) == ("--port", "1", *renamed, "--tp", "2")


def test_a_flag_that_is_not_there_cannot_be_renamed() -> None:
    with pytest.raises(CommandError, match="--foo is not in the command"):
        sglang().rename("--foo", "--bar")


def test_a_variable_is_changed_in_place_added_behind_the_others_and_taken_away() -> None:
    command = Command.from_string("A=1 B=2 vllm serve x")

    assert command.set_env("A", "3").words()[:3] == ("A=3", "B=2", "vllm")
    assert command.set_env("C", "3").words()[:4] == ("A=1", "B=2", "C=3", "vllm")
    assert command.unset_env("A").words()[:2] == ("B=2", "vllm")


def test_a_variable_of_env_stays_with_env() -> None:
    command = Command.from_string("env -i A=1 vllm serve x")

    assert command.set_env("B", "2").shell() == "env -i A=1 B=2 vllm serve x"
    assert command.unset_env("A").shell() == "env -i vllm serve x"


def test_a_variable_of_a_container_is_its_option() -> None:
    command = Command.from_string("docker run -e A=1 --gpus all vllm/vllm-openai:v1 --model x")

    assert command.env == (("A", "1"),)
    assert command.set_env("B", "2").shell() == "docker run -e A=1 --gpus all -e B=2 vllm/vllm-openai:v1 --model x"
    assert command.unset_env("A").shell() == "docker run --gpus all vllm/vllm-openai:v1 --model x"


def test_a_whole_fix_is_applied() -> None:
    command = Command.from_string("A=1 B=2 python3 -m sglang.launch_server --num-speculative-tokens 16 --foo 1 --tp 2")
    fix = Fix(
        set={"--speculative-num-steps": "3", "--tp": "4", "--disable-overlap-schedule": True},
        remove=("--foo",),
        rename={"--num-speculative-tokens": "--speculative-num-draft-tokens"},
        env_set={"B": "3"},
        env_unset=("A",),
    )

    assert command.apply(fix).shell() == (
        "B=3 python3 -m sglang.launch_server --speculative-num-draft-tokens 16 --tp 4 "
        "--speculative-num-steps 3 --disable-overlap-schedule"
    )


# -- properties

CATALOGUE = FlagCatalogue(
    Engine.SGLANG,
    "1",
    "shipped",
    (
        Flag("--alpha", aliases=("-al",)),
        Flag("--beta", takes="none", negations=("--no-beta",)),
        Flag("--gamma", takes="many"),
        Flag("--delta", takes="optional"),
        Flag("--alpha-two"),
    ),
)
WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            ["--alpha", "-al", "--beta", "--no-beta", "--gamma", "--delta", "--alpha-two", "--unknown"]
        ),
        st.sampled_from(
            ["--alp", "--", ">"]
        ),
        st.sampled_from(["--alpha=1", "--gamma=", "--unknown=a=b", "x", "-1", "A=b", "{}", ""]),
        st.text(max_size=6),
    ),
    max_size=12,
)  # fmt: skip
FLAGS = st.sampled_from(["--alpha", "-al", "--beta", "--gamma", "--delta", "--alpha-two", "--unknown"])
VALUES = st.one_of(
    st.text(min_size=1, max_size=6), st.sampled_from(["-1", "--x", "a b", "{}", "-", "--", "=", ";", ">"])
)


def _parsed(words: list[str]) -> Command:
    return Command.parse(["python3", "-m", "sglang.launch_server", *words], CATALOGUE)


@settings(deadline=None)
@given(st.lists(st.text(max_size=8), max_size=10))
def test_any_words_come_out_as_they_went_in(words: list[str]) -> None:
    assert Command.parse(words).words() == tuple(words)


@settings(deadline=None)
@given(WORDS)
def test_every_word_is_a_flag_a_value_or_a_positional_once(words: list[str]) -> None:
    command = _parsed(words)
    seen = [at for entry in command.arguments for at in (entry.at, *entry.values)] + list(command.positional_indexes)
    arguments = range(command.layout.arguments, command.layout.end)
    skipped = set(arguments) - set(seen)

    assert len(seen) == len(set(seen))
    assert [command.words()[at] for at in skipped] in ([], ["--"])


@settings(deadline=None)
@given(WORDS, FLAGS, VALUES)
def test_what_is_set_is_got(words: list[str], flag: str, value: str) -> None:
    if flag == "--beta":
        assert _parsed(words).set(flag).get(flag) is True
    else:
        assert _parsed(words).set(flag, value).get(flag) == value


@settings(deadline=None)
@given(WORDS, FLAGS)
def test_what_is_removed_is_gone(words: list[str], flag: str) -> None:
    assert not _parsed(words).remove(flag).has(flag)


@settings(deadline=None)
@given(WORDS, FLAGS, VALUES)
def test_setting_one_flag_leaves_all_other_words(words: list[str], flag: str, value: str) -> None:
    command = _parsed(words)
    edited = command.set(flag, value)
    own = {at for entry in command.find(flag)[-1:] for at in (entry.at, *entry.values)}
    others = [word for at, word in enumerate(command.words()) if at not in own]

    assert _is_subsequence(others, edited.words())


@settings(deadline=None)
@given(WORDS, FLAGS)
def test_removing_one_flag_leaves_all_other_words(words: list[str], flag: str) -> None:
    command = _parsed(words)
    own = {at for entry in command.find(flag) for at in (entry.at, *entry.values)}

    assert command.remove(flag).words() == tuple(word for at, word in enumerate(command.words()) if at not in own)


@settings(deadline=None)
@given(WORDS, FLAGS)
def test_a_rename_changes_only_the_flags_own_words(words: list[str], flag: str) -> None:
    command = _parsed([flag, *words])
    renamed = command.rename(flag, "--zeta")
    places = {entry.at for entry in command.find(flag)}

    assert len(renamed.words()) == len(command.words())
    assert {at for at, (a, b) in enumerate(zip(command.words(), renamed.words(), strict=True)) if a != b} == places


@settings(deadline=None)
@given(WORDS)
def test_a_command_to_paste_is_the_same_command(words: list[str]) -> None:
    assert Command.from_string(_parsed(words).shell()).words() == _parsed(words).words()


def _is_subsequence(some: list[str], words: tuple[str, ...]) -> bool:
    rest = iter(words)
    return all(word in rest for word in some)


def test_a_switch_that_was_given_a_value_loses_it_with_its_setting() -> None:
    flags = FlagCatalogue(Engine.VLLM, "1", "shipped", (Flag("--enforce-eager", takes="none"), Flag("--port")))
    command = Command.parse(["vllm", "serve", "m", "--enforce-eager", "true", "--port", "1"], flags)

    assert command.set("--enforce-eager").words() == ("vllm", "serve", "m", "--enforce-eager", "--port", "1")
    assert command.remove("--enforce-eager").words() == ("vllm", "serve", "m", "--port", "1")


def test_a_word_behind_a_switch_that_says_neither_yes_nor_no_stays() -> None:
    flags = FlagCatalogue(Engine.VLLM, "1", "shipped", (Flag("--enforce-eager", takes="none"),))
    command = Command.parse(["vllm", "serve", "--enforce-eager", "org/model"], flags)

    assert command.set("--enforce-eager").words() == command.words()


@pytest.mark.parametrize("word", ["\u2014port", "\u2013port", "\u2013-port", "\u2212port"])
def test_a_flag_whose_dashes_became_a_long_one_is_a_flag_with_its_value(word: str) -> None:
    command = Command.parse(["vllm", "serve", "org/model", word, "8000"])

    assert command.rename(word, "--port").words()[-2:] == ("--port", "8000")


def test_a_dash_between_words_is_no_flag() -> None:
    command = Command.parse(["vllm", "serve", "org/model", "--chat-template", "\u2014 a \u2014"])

    assert command.get("--chat-template") == "\u2014 a \u2014"
