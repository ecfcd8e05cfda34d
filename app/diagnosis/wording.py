"""Argument mistakes in words: what is wrong, what was changed, and what a person has to decide."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.model import Fix
from app.core.problems import ArgumentProblem
from app.core.vocabulary import Engine
from app.diagnosis.remedy import Bench, Step

_ENGINE_NAMES = {Engine.SGLANG: "SGLang", Engine.VLLM: "vLLM", Engine.LLAMACPP: "llama-server"}
_CHOICES_SHOWN = 12


def program_name(engine: Engine | None, version: str | None) -> str:
    """`SGLang 0.5.9`, or `this program`."""
    name = _ENGINE_NAMES.get(engine, "this program") if engine is not None else "this program"
    return f"{name} {version}" if version else name


def title_of(problems: Sequence[ArgumentProblem], program: str) -> str:
    """One line that says what is wrong."""
    first = problems[0]
    names = ", ".join(problem.flag or problem.value or "?" for problem in problems)
    one = first.flag or "an argument"
    match first.kind:
        case "unknown" | "removed":
            return f"{names} {'is no flag' if len(problems) == 1 else 'are no flags'} of {program}"
        case "ambiguous":
            return f"{one} abbreviates several flags of {program}"
        case "missing-value":
            return f"{one} stands without its value"
        case "unexpected-value":
            return f"{one} takes no value"
        case "bad-choice":
            return f"{one} can't be {first.value!r}"
        case "bad-type":
            return f"{one} can't be {first.value!r}"
        case "required":
            return f"{one} is required"
        case "conflict":
            return f"{one} is not allowed together with {', '.join(first.candidates) or 'another flag'}"


def explanation_of(
    problems: Sequence[ArgumentProblem], steps: Sequence[Step | None], bench: Bench, program: str
) -> str:
    """What each problem is, and what mends it."""
    sentences = []
    for problem, step in zip(problems, steps, strict=True):
        if step is not None:
            sentences.append(f"{problem.flag}: {_changed(step.fix)}, for {step.why}.")
        else:
            sentences.append(_unmended(problem, bench, program))
    return " ".join(sentences)


def _changed(fix: Fix) -> str:
    for new in fix.rename.values():
        return f"write {new}"
    for flag, value in fix.set.items():
        return f"write {flag}" + ("" if value is True else f" {value}")
    return "leave it out"


def _unmended(problem: ArgumentProblem, bench: Bench, program: str) -> str:
    one = problem.flag or problem.value or "The argument"
    match problem.kind:
        case "unknown" | "removed":
            near = [flag.name for flag, _ in bench.catalogue.closest(problem.flag)] if bench.catalogue else []
            alike = f" Flags with like names: {', '.join(near)}." if near and problem.flag else ""
            return f"{program} does not know {one}, and no other flag clearly stands for it.{alike}"
        case "ambiguous":
            return f"{one} could be {_listed(problem.candidates)}: write the one that is meant."
        case "missing-value":
            return f"A value has to follow {one}.{_choices(problem)}"
        case "bad-choice":
            return f"{program} does not take {problem.value!r} for {one}.{_choices(problem)}"
        case "bad-type":
            wanted = f" It has to be {_article(problem.type)}." if problem.type else ""
            return f"{program} can't read {problem.value!r} as the value of {one}.{wanted}"
        case "unexpected-value":
            return f"{one} is a switch: it is given without a value."
        case "required":
            return f"{program} does not start without {one}."
        case "conflict":
            return f"Only one of {_listed((one, *problem.candidates))} may be given."


def _choices(problem: ArgumentProblem) -> str:
    return f" Choices: {_listed(problem.choices)}." if problem.choices else ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_CHOICES_SHOWN])
    return shown + (f" and {len(names) - _CHOICES_SHOWN} more" if len(names) > _CHOICES_SHOWN else "")


def _article(kind: str | None) -> str:
    return {"int": "a whole number", "float": "a number", "json": "JSON"}.get(kind or "", f"of type {kind}")
