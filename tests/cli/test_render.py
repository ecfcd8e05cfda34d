from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from app.cli.render import print_card
from app.core.model import Cause, Diagnosis, Exit, Fix, Line, Progress
from app.core.vocabulary import Action, Category, Confidence, Engine, Origin, Outcome, Phase, Safety
from app.service.objects import cause_json, diagnosis_json, fix_json

TYPED = ("TOKEN=a b", "vllm", "serve", "m", "--api-key", "sk-secretsecretsecret", "--max-modle-len", "256")
CAUSE = Cause(
    rule="any/unknown-argument",
    category=Category.UNKNOWN_ARGUMENT,
    title="--max-modle-len is no flag of vLLM",
    explanation="write --max-model-len [red]now[/red] \x1b[2J",
    confidence=Confidence.HIGH,
    line=Line(7, "vllm: error: unrecognized \x07arguments [bold]--max-modle-len[/bold] 256", "x"),
    action=Action.CHANGE,
    fix=Fix(rename={"--max-modle-len": "--max-model-len"}, set={"--enforce-eager": True}),
    safety=Safety.SAFE,
    command=(*TYPED[:-2], "--max-model-len", "256"),
)
DIAGNOSIS = Diagnosis(
    Outcome.FAILED,
    Phase.LOADING,
    engine=Engine.VLLM,
    command=TYPED,
    origin=Origin.GIVEN,
    causes=(CAUSE,),
    progress=Progress(Phase.LOADING, 67.0),
    exit=Exit(signal="SIGKILL"),
)


def card(diagnosis: Diagnosis, *, width: int = 100, terminal: bool = True, redact: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None, legacy_windows=False)
    print_card(console, diagnosis, log="server.log", redact=redact)
    return out.getvalue()


def test_the_card_says_what_failed_and_how_far_it_came() -> None:
    text = card(DIAGNOSIS)
    assert "--max-modle-len is no flag of vLLM" in text
    assert "vllm, while loading, 67 % of the weights read, killed by SIGKILL" in text
    assert "server.log:7" in text


def test_texts_of_the_log_are_shown_and_never_obeyed() -> None:
    text = card(DIAGNOSIS)
    assert "[bold]--max-modle-len[/bold]" in text
    assert "[red]now[/red]" in text
    assert "\x07" not in text
    assert "\x1b[2J" not in text


@pytest.mark.parametrize("width", [30, 59, 60, 200])
def test_the_card_fits_the_terminal(width: int) -> None:
    before, _, _ = card(DIAGNOSIS, width=width).partition("Corrected command:")
    assert max(map(len, before.splitlines())) <= width


@pytest.mark.parametrize("terminal", [True, False])
def test_the_corrected_command_stands_alone_on_one_line(terminal: bool) -> None:
    wanted = "TOKEN='a b' vllm serve m --api-key sk-secretsecretsecret --max-model-len 256"
    assert wanted in card(DIAGNOSIS, width=40, terminal=terminal).splitlines()


def test_in_a_pipe_the_difference_is_marked_word_by_word() -> None:
    assert "[---max-modle-len-] {+--max-model-len+} 256" in card(DIAGNOSIS, terminal=False)


def test_a_card_that_others_see_holds_no_secret() -> None:
    assert "sk-secretsecretsecret" not in card(DIAGNOSIS, redact=True)


def test_a_rebuilt_command_is_redacted_always() -> None:
    rebuilt = replace(DIAGNOSIS, origin=Origin.REBUILT)
    assert "sk-secretsecretsecret" not in card(rebuilt)
    assert "sk-secretsecretsecret" not in str(diagnosis_json(rebuilt, redact=False))


def test_without_a_command_the_fix_is_told_in_words() -> None:
    text = card(replace(DIAGNOSIS, command=None, causes=(replace(CAUSE, command=None),)), terminal=False)
    assert "Change: set --enforce-eager; write --max-model-len for --max-modle-len" in text


@pytest.mark.parametrize(
    ("outcome", "phase", "told"),
    [
        (Outcome.HEALTHY, Phase.READY, "Nothing failed"),
        (Outcome.STARTING, Phase.LOADING, "loading 67 %"),
        (Outcome.UNKNOWN, Phase.STARTING, "Nothing was recognised"),
    ],
)
def test_when_nothing_failed_it_says_so(outcome: Outcome, phase: Phase, told: str) -> None:
    assert told in card(replace(DIAGNOSIS, outcome=outcome, phase=phase, causes=()))


def test_a_terminal_without_unicode_gets_plain_letters() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    print_card(Console(file=out, width=80, force_terminal=False), DIAGNOSIS, log="server.log")


def test_a_bare_flag_is_json_true_and_other_values_are_strings() -> None:
    assert fix_json(Fix(set={"--a": True, "--b": "1"}))["set"] == {"--a": True, "--b": "1"}


def test_what_a_change_cannot_help_has_no_fix_and_no_command() -> None:
    data = cause_json(replace(CAUSE, fix=None, command=None, line=None))
    assert (data["fix"], data["command"], data["line"]) == (None, None, None)


def test_secrets_in_a_fix_are_redacted_for_others() -> None:
    fix = Fix(set={"--api-key": "sk-secretsecretsecret"}, env_set={"HF_TOKEN": "hf_abcdefghijklmnopqrstuv"})
    assert "secret" not in str(fix_json(fix)["set"]["--api-key"])
    assert "hf_abc" not in str(fix_json(fix)["env_set"])
