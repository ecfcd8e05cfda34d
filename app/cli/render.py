"""What people and programs see of a diagnosis: the JSON objects and the card at the terminal."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from app.cli.styled import Output, Styled
from app.core.model import Cause, Diagnosis, Fix, Line
from app.core.redact import redact_text, redact_words
from app.core.text import neutralise, shorten
from app.core.vocabulary import Action, Origin, Outcome, Safety

_LINE_SHOWN = 400  # characters of a log line on the card
_OTHERS_SHOWN = 3  # further causes on the card
_NARROW = 60  # columns below which labels stand above their texts

_SAFETY = {
    Safety.SAFE: "safe: everything that was typed keeps its meaning",
    Safety.DEGRADING: "degrading: it runs, with less speed or capacity",
    Safety.MANUAL: "manual: a person has to decide",
}


# -- the card


def print_card(
    console: Output, diagnosis: Diagnosis, *, log: str | None = None, redact: bool = True, next_step: str | None = None
) -> None:
    """Prints what failed, why, the proving line, the corrected command and what to do next.

    On a terminal it is a card that fits the width; in a pipe it is plain lines of any length, one fact each.
    """
    redact = redact or diagnosis.origin is not Origin.GIVEN
    if not diagnosis.causes:
        console.print(_text(_all_well(diagnosis)), soft_wrap=True)
        return
    cause = diagnosis.causes[0]
    print_cause(console, cause, launched=diagnosis.command, log=log, redact=redact, situation=_situation(diagnosis))
    for other in diagnosis.causes[1 : _OTHERS_SHOWN + 1]:
        console.print(_text(f"Also: {other.title} ({other.category}){_place(other.line, log)}"), soft_wrap=True)
    if diagnosis.symptoms:
        titles = dict.fromkeys(symptom.title for symptom in diagnosis.symptoms)
        console.print(_text("Followed from it: " + "; ".join(titles), "dim"), soft_wrap=True)
    for evidence in diagnosis.evidence:
        if evidence.kind != "log":
            place = f" ({evidence.path}:{evidence.number})" if evidence.path else ""
            console.print(_text(f"Evidence ({evidence.kind}): {evidence.text}{place}", "dim"), soft_wrap=True)
    if (step := next_step or _next_step(cause)) is not None:
        console.print(_text(f"Next: {step}", "bold"), soft_wrap=True)


def print_cause(
    console: Output,
    cause: Cause,
    *,
    launched: Sequence[str] | None = None,
    log: str | None = None,
    redact: bool = True,
    situation: str | None = None,
) -> None:
    """Prints one cause, with its corrected command as a difference and, below, ready to paste."""
    rows = list(_rows(cause, launched, log, redact, situation, plain=not console.is_terminal))
    title = _text(f"{_mark(console)} {redact_text(cause.title)}", "bold red")
    if console.is_terminal:
        _print_panel(console, title, rows)
    else:
        console.print(title, soft_wrap=True)
        for label, text in rows:
            console.print(_text(f"  {label}: ").append_text(text), soft_wrap=True)
    if cause.command is not None:
        console.print(_text("Corrected command:"), soft_wrap=True)
        # Alone on its line and unwrapped: it is there to be copied.
        console.print(_text(_shell(cause.command, redact), "bold green"), soft_wrap=True)


def _rows(
    cause: Cause, launched: Sequence[str] | None, log: str | None, redact: bool, situation: str | None, *, plain: bool
) -> Iterator[tuple[str, Styled]]:
    if situation:
        yield "Failed", _text(situation)
    yield "Why", _text(redact_text(cause.explanation))
    if cause.line is not None:
        yield "Proof", _proof(cause.line, log)
    if cause.command is not None and launched is not None:
        before, after = (list(redact_words(words)) if redact else list(words) for words in (launched, cause.command))
        yield "Change", _difference(before, after, plain=plain)
    elif cause.fix is not None:
        yield "Change", _text(_described(cause.fix, redact))
    if cause.fix is not None or cause.action is Action.RESTART:
        yield "Safety", _text(_SAFETY[cause.safety], "green" if cause.safety is Safety.SAFE else "yellow")
    if cause.loses:
        yield "Loses", _text(", ".join(cause.loses), "yellow")
    yield "Rule", _text(f"{cause.rule}, {cause.category}, confidence {cause.confidence}", "dim")


def _print_panel(console: Output, title: Styled, rows: Sequence[tuple[str, Styled]]) -> None:
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    body: Any
    if console.width < _NARROW:
        body = Group(*(part for label, text in rows for part in (Text(label, style="bold"), text)))
    else:
        body = Table.grid(padding=(0, 2))
        body.add_column(style="bold", no_wrap=True)
        body.add_column(overflow="fold")
        for label, text in rows:
            body.add_row(label, text)
    console.print(Panel(body, title=title.__rich__(), title_align="left", border_style="red"))


def _proof(line: Line, log: str | None) -> Styled:
    place = f"{log}:{line.number}" if log else f"line {line.number}"
    return _text(place, "cyan").append_text(_text("  " + shorten(redact_text(line.text).strip(), _LINE_SHOWN)))


def _place(line: Line | None, log: str | None) -> str:
    if line is None:
        return ""
    return f", {log}:{line.number}" if log else f", line {line.number}"


def _difference(before: Sequence[str], after: Sequence[str], *, plain: bool) -> Styled:
    """The command word by word: what goes is struck out, what comes is marked; without colours by [-…-] and {+…+}."""
    text = _text("")
    for kind, begin, end, new_begin, new_end in difflib.SequenceMatcher(None, before, after, False).get_opcodes():
        if kind == "equal":
            _append(text, before[begin:end], "", ("", ""))
        else:
            _append(text, before[begin:end], "red strike", ("[-", "-]"))
            _append(text, after[new_begin:new_end], "bold green", ("{+", "+}"))
    return text


def _append(text: Styled, words: Sequence[str], style: str, marks: tuple[str, str]) -> None:
    if words:
        shown = neutralise(" ".join(shlex.quote(word) for word in words))
        text.append(" " if text.plain else "")
        text.append(marks[0] + shown + marks[1], style=style)


def _described(fix: Fix, redact: bool) -> str:
    """A fix in words, for when no command is known."""
    from app.service.objects import fix_json  # rarely needed, and it brings the database's views

    data = fix_json(fix, redact=redact)
    parts = [f"set {flag}" + ("" if value is True else f" {value}") for flag, value in data["set"].items()]
    parts += [f"remove {flag}" for flag in data["remove"]]
    parts += [f"write {new} for {old}" for old, new in data["rename"].items()]
    parts += [f"set {name}={value} in the environment" for name, value in data["env_set"].items()]
    parts += [f"unset {name} in the environment" for name in data["env_unset"]]
    return "; ".join(parts)


def _situation(diagnosis: Diagnosis) -> str:
    engine = " ".join(filter(None, (diagnosis.engine, diagnosis.engine_version)))
    percent = diagnosis.progress.percent
    phase = f"while {diagnosis.phase}" if diagnosis.phase != "ready" else "after it was ready"
    if percent is not None and diagnosis.phase == "loading":
        phase += f", {percent:.0f} % of the weights read"
    ended = str(diagnosis.exit) if diagnosis.exit.known else ""
    return ", ".join(filter(None, (engine, phase, ended)))


def _all_well(diagnosis: Diagnosis) -> str:
    if diagnosis.outcome is Outcome.HEALTHY:
        return "Nothing failed: the log shows a healthy server or a stop that was asked for."
    if diagnosis.outcome is Outcome.STARTING:
        percent = f" {diagnosis.progress.percent:.0f} %" if diagnosis.progress.percent is not None else ""
        return f"Nothing failed so far: the server is {diagnosis.phase}{percent}."
    return "Nothing was recognised: this does not look like the log of an inference server."


def _next_step(cause: Cause) -> str | None:
    if cause.command is not None and cause.safety is Safety.SAFE:
        return "start the server with the corrected command."
    if cause.command is not None:
        return "read what the change means, then start the server with the corrected command."
    if cause.action is Action.RESTART:
        return "start the same command again."
    if cause.references:
        return "see " + ", ".join(cause.references)
    return None


def _shell(words: Sequence[str], redact: bool) -> str:
    """Ready to paste: values of environment assignments are quoted, their names are not."""
    shown = list(redact_words(words)) if redact else list(words)
    parts: list[str] = []
    leading = True
    for word in shown:
        name, equals, value = word.partition("=")
        leading = leading and bool(equals) and name.isidentifier()
        parts.append(f"{name}={shlex.quote(value)}" if leading else shlex.quote(word))
    return neutralise(" ".join(parts))


def _text(text: str, style: str = "") -> Styled:
    """Text for the console: escapes made visible, never read as markup."""
    return Styled(neutralise(text), style)


def _mark(console: Output) -> str:
    return "✖" if console.encoding.lower().startswith("utf") else "x"
