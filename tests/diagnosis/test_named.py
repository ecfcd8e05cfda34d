"""What an error's own words ask for, where no rule mends it. All of it is for a person to confirm."""

from __future__ import annotations

import pytest

from app.core.command import Command
from app.core.model import Cause, Exit
from app.core.vocabulary import Category, Safety
from app.diagnosis.pipeline import Pipeline
from app.rules.load import builtin_rules

SGLANG = ["python3", "-m", "sglang.launch_server", "--model-path", "/models/tiny", "--port", "30000"]


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return Pipeline(builtin_rules(), read_source=False)


def told(pipeline: Pipeline, message: str, *words: str, after: str = "") -> Cause:
    """The first cause of a launch that ended with an exception of this text."""
    frames = 'Traceback (most recent call last):\n  File "/opt/srv/args.py", line 7, in check\n    check(self)\n'
    log = f"{after}{frames}{message}\n"
    session = pipeline.session(command=Command.parse([*SGLANG, *words]))
    session.feed(log.encode())
    session.close()
    return session.diagnose(Exit(code=1)).causes[0]


@pytest.mark.parametrize(
    ("message", "words", "left"),
    [
        # A value is refused, and what would do is listed: the one most like it.
        (
            "KeyError: \"Reasoning parser 'deepseek_r1' not found. Available parsers: deepseek-r1, qwen3\"",
            ["--reasoning-parser", "deepseek_r1"],
            ["--reasoning-parser", "deepseek-r1"],
        ),
        (
            "ValueError: Unknown policy: 'LPM'. Valid options are: lpm, random",
            ["--schedule-policy", "LPM"],
            ["--schedule-policy", "lpm"],
        ),
        # Nothing is like it: without it the engine chooses.
        ("ValueError: Unknown widget mode: 'warp'. Valid options are: fast, slow", ["--widget-mode", "warp"], []),
        ("FileNotFoundError: Widget file not found: /nope/w.json", ["--widget-file", "/nope/w.json"], []),
        ("AssertionError: widget_rate must be non-negative", ["--widget-rate", "-1"], []),
        # A share was given as per cent.
        (
            "ValueError: mem_fraction_static must be between 0 and 1, got 85",
            ["--mem-fraction-static", "85"],
            ["--mem-fraction-static", "0.85"],
        ),
        (
            "ValueError: mem_fraction_static must be between 0 and 1, got 1.2",
            ["--mem-fraction-static", "1.2"],
            [],
        ),
        # One must be as large as the other.
        (
            "ValueError: max_total_tokens (64) must be greater than or equal to max_running_requests (128).",
            ["--max-total-tokens", "64", "--max-running-requests", "128"],
            ["--max-total-tokens", "128", "--max-running-requests", "128"],
        ),
        # Two exclude each other: the one given last goes.
        (
            "ValueError: The arguments widget-cache and no-widgets are mutually exclusive.",
            ["--widget-cache", "--no-widgets"],
            ["--widget-cache"],
        ),
        # JSON that is none.
        (
            "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
            ["--json-model-override-args", "{'a': 1}"],
            ["--json-model-override-args", '{"a": 1}'],
        ),
    ],
)
def test_an_argument_that_the_error_names_is_mended(
    pipeline: Pipeline, message: str, words: list[str], left: list[str]
) -> None:
    cause = told(pipeline, message, *words)

    assert list(cause.command or ()) == [*SGLANG, *left]
    assert cause.safety is Safety.MANUAL


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("ValueError: something else broke", ["--widget-mode", "warp"]),
        ("ValueError: the port 30000 is invalid", []),
        ("ValueError: cannot find model '/models/tiny'", []),
        ("ValueError: 4 is invalid", ["--tp", "4", "--widgets", "4"]),
        ("ValueError: unknown value for widget-mode and widget-rate", ["--widget-mode", "a1", "--widget-rate", "b2"]),
    ],
)
def test_what_names_nothing_or_too_much_changes_nothing(pipeline: Pipeline, message: str, words: list[str]) -> None:
    assert told(pipeline, message, *words).command is None


def test_a_failure_without_a_rule_that_names_a_refused_value_is_one_of_the_arguments(pipeline: Pipeline) -> None:
    cause = told(pipeline, "OddError: Unknown widget mode: 'warp'", "--widget-mode", "warp")

    assert cause.category is Category.INVALID_ARGUMENT_VALUE


def test_a_server_that_was_ready_is_not_mended_by_words(pipeline: Pipeline) -> None:
    ready = "[2026-01-12 10:00:09] The server is fired up and ready to roll!\n"
    cause = told(pipeline, "ValueError: Unknown widget mode: 'warp'", "--widget-mode", "warp", after=ready)

    assert cause.command is None
