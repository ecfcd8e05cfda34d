"""What people and programs see of a diagnosis: the JSON objects and the card at the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.model import Cause, Diagnosis, Evidence, Fix, Line, Symptom

if TYPE_CHECKING:
    from rich.console import Console


def diagnosis_json(diagnosis: Diagnosis, *, redact: bool = True) -> dict[str, Any]:
    """The object that `diagnose --json` prints.

    `redact=False` leaves a command as typed; only for a command that was typed into this very call.
    """
    return {
        "outcome": diagnosis.outcome.value,
        "phase": diagnosis.phase.value,
        "engine": diagnosis.engine.value if diagnosis.engine else None,
        "engine_version": diagnosis.engine_version,
        "launch": {
            "command": list(diagnosis.command) if diagnosis.command is not None else None,
            "origin": diagnosis.origin.value,
        },
        "causes": [cause_json(cause, redact=redact) for cause in diagnosis.causes],
        "symptoms": [symptom_json(symptom) for symptom in diagnosis.symptoms],
        "evidence": [evidence_json(evidence) for evidence in diagnosis.evidence],
        "elapsed_ms": round(diagnosis.elapsed_ms),
    }


def cause_json(cause: Cause, *, redact: bool = True) -> dict[str, Any]:
    """One cause as `diagnose`, `check` and the API show it."""
    return {
        "rule": cause.rule,
        "category": cause.category.value,
        "title": cause.title,
        "explanation": cause.explanation,
        "confidence": cause.confidence.value,
        "line": line_json(cause.line),
        "rank": cause.rank,
        "action": cause.action.value,
        "fix": fix_json(cause.fix) if cause.fix is not None else None,
        "safety": cause.safety.value,
        "loses": list(cause.loses),
        "command": list(cause.command) if cause.command is not None else None,
    }


def fix_json(fix: Fix) -> dict[str, Any]:
    """A fix; a bare flag's value is `true`, other values are strings."""
    return {
        "set": dict(fix.set),
        "remove": list(fix.remove),
        "rename": dict(fix.rename),
        "env_set": dict(fix.env_set),
        "env_unset": list(fix.env_unset),
    }


def line_json(line: Line | None) -> dict[str, Any] | None:
    return {"number": line.number, "text": line.text} if line is not None else None


def symptom_json(symptom: Symptom) -> dict[str, Any]:
    return {"rule": symptom.rule, "title": symptom.title, "line": line_json(symptom.line)}


def evidence_json(evidence: Evidence) -> dict[str, Any]:
    return {
        "kind": evidence.kind,
        "text": evidence.text,
        "line": line_json(evidence.line),
        "path": evidence.path,
        "number": evidence.number,
    }


def print_card(
    console: Console, diagnosis: Diagnosis, *, log: str | None = None, redact: bool = True, next_step: str | None = None
) -> None:
    """Prints what failed, why, the proving line, the corrected command and what to do next."""
