from __future__ import annotations

from app.rules.template import expand, expand_exactly, names


def test_names_are_those_of_captures_arguments_and_variables() -> None:
    assert names("{gpus} of {argv.--tp-size} with {env.HOME}") == {"gpus", "argv.--tp-size", "env.HOME"}


def test_json_in_a_text_is_no_capture() -> None:
    text = """--speculative-config '{"method": "eagle", "n": {}}'"""

    assert names(text) == frozenset()
    assert expand(text, {}) == text


def test_a_missing_capture_shows_as_a_question_mark() -> None:
    assert expand("asked for {asked}", {}) == "asked for ?"


def test_captured_text_is_never_read_as_a_template() -> None:
    captures = {"flag": "{env.HF_TOKEN}", "env.HF_TOKEN": "secret"}

    assert expand("no such flag: {flag}", captures) == "no such flag: {env.HF_TOKEN}"
    assert expand_exactly("{flag}", captures) == "{env.HF_TOKEN}"


def test_a_long_capture_of_several_lines_is_shortened_to_one() -> None:
    shown = expand("{text}", {"text": "one\n two\n" + "x" * 1000})

    assert shown.startswith("one two xxx")
    assert len(shown) == 300


def test_a_value_with_a_missing_capture_is_none() -> None:
    assert expand_exactly("--{flag}", {}) is None


def test_a_value_with_a_control_character_is_none() -> None:
    assert expand_exactly("{flag}", {"flag": "--tp\x1b[2J"}) is None
