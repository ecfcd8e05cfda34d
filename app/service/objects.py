"""The JSON objects of diagnoses, servers and incidents, the same in the CLI and over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from app.core.model import Cause, Diagnosis, Evidence, Exit, Fix, Line, Progress, Symptom
from app.core.redact import redact_env, redact_text, redact_words
from app.core.vocabulary import Origin

if TYPE_CHECKING:  # `wait` must not load the diagnosis that only `report` needs
    from app.service.asking import Answer, Truth
    from app.service.reporting import Report
    from app.store.giving_back import Missing
    from app.store.views import IncidentView, LaunchView, ProposalView, ServerView


def time_json(at: datetime | None) -> str | None:
    """RFC 3339 in UTC."""
    return None if at is None else at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def server_json(server: ServerView, truth: Truth, missing: Sequence[Missing] = ()) -> dict[str, Any]:
    """A server as it is now; `missing` is what it runs without since fixes that cost something held."""
    return {
        "name": server.name,
        "engine": server.engine,
        "state": truth.state,
        "evidence": truth.evidence,
        "progress": progress_json(server.progress),
        "since": time_json(server.since),
        "pid": truth.pid,
        "command": list(server.command),
        "last_good_command": None if server.last_good_command is None else list(server.last_good_command),
        "mode": server.mode,
        "decision": server.decision,
        "supervised": truth.supervised,
        "missing": [
            {
                "what": one.what,
                "incident": one.incident_id,
                "since": time_json(one.since),
                "acknowledged": one.acknowledged,
            }
            for one in missing
        ],
    }


def progress_json(progress: Progress | None) -> dict[str, Any] | None:
    """How far a launch came."""
    if progress is None:
        return None
    return {"phase": progress.phase, "percent": progress.percent, "text": progress.text}


def incident_json(incident: IncidentView) -> dict[str, Any]:
    """An incident; in lists without its launches and timeline."""
    return {
        "id": incident.id,
        "server": incident.server,
        "status": incident.status,
        "category": incident.category,
        "title": incident.title,
        "fingerprint": incident.fingerprint,
        "opened_at": time_json(incident.opened_at),
        "updated_at": time_json(incident.updated_at),
        "resolved_at": time_json(incident.resolved_at),
        "regressed": incident.regressed,
        "acknowledged": incident.acknowledged,
        "muted_until": time_json(incident.muted_until),
        "launches": [launch_json(launch) for launch in incident.launches],
        "proposal": proposal_json(incident.proposal),
        "timeline": [{"at": time_json(line.at), "kind": line.kind, "text": line.text} for line in incident.timeline],
    }


def launch_json(launch: LaunchView) -> dict[str, Any]:
    """A launch of an incident; `ran` is false where pre-flight stopped it."""
    return {
        "id": launch.id,
        "command": list(launch.command),
        "started_at": time_json(launch.started_at),
        "ended_at": time_json(launch.ended_at),
        "phase": launch.phase,
        "exit": exit_json(launch.exit),
        "ran": launch.ran,
        "diagnosis": None if launch.diagnosis is None else diagnosis_json(launch.diagnosis),
    }


def exit_json(exit: Exit) -> dict[str, Any] | None:
    """How a process ended; null while that is not known."""
    return {"code": exit.code, "signal": exit.signal} if exit.known else None


def proposal_json(proposal: ProposalView | None) -> dict[str, Any] | None:
    """A proposed fix; `fix` is null for a restart of the same command."""
    if proposal is None:
        return None
    return {
        "fix_id": proposal.id,
        "fix": None if proposal.fix is None else fix_json(proposal.fix),
        "command": list(proposal.command),
        "safety": proposal.safety,
        "guards": list(proposal.guards),
        "action": proposal.action,
        "rule": proposal.rule,
        "title": proposal.title,
        "loses": list(proposal.loses),
    }


def wait_json(answer: Answer) -> dict[str, Any]:
    """The end of a wait."""
    return {
        "reached": answer.reached,
        "state": answer.state,
        "diagnosis": None if answer.diagnosis is None else diagnosis_json(answer.diagnosis),
        "server": answer.server.name,
        "text": answer.text,
        "proposal": proposal_json(answer.proposal),
        "incident": answer.incident_id,
    }


def report_json(answer: Report) -> dict[str, Any]:
    """The answer to a report."""
    return {
        "crashed": answer.crashed,
        "text": answer.text,
        "server": server_json(answer.server, answer.truth),
        "diagnosis": None if answer.diagnosis is None else diagnosis_json(answer.diagnosis),
        "proposal": proposal_json(answer.proposal),
        "incident": answer.incident_id,
    }


def diagnosis_json(diagnosis: Diagnosis, *, redact: bool = True) -> dict[str, Any]:
    """The object that `diagnose --json` prints.

    `redact=False` leaves a given command as it was typed: only for one that was typed into this very call. Texts of
    the log and commands rebuilt from it are redacted always.
    """
    redact = redact or diagnosis.origin is not Origin.GIVEN
    return {
        "outcome": diagnosis.outcome.value,
        "phase": diagnosis.phase.value,
        "engine": diagnosis.engine.value if diagnosis.engine else None,
        "engine_version": diagnosis.engine_version,
        "launch": {"command": _words(diagnosis.command, redact), "origin": diagnosis.origin.value},
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
        "title": redact_text(cause.title),
        "explanation": redact_text(cause.explanation),
        "confidence": cause.confidence.value,
        "line": line_json(cause.line),
        "rank": cause.rank,
        "action": cause.action.value,
        "fix": fix_json(cause.fix, redact=redact) if cause.fix is not None else None,
        "safety": cause.safety.value,
        "loses": list(cause.loses),
        "command": _words(cause.command, redact),
    }


def fix_json(fix: Fix, *, redact: bool = True) -> dict[str, Any]:
    """A fix; a bare flag's value is `true`, other values are strings."""
    settings = {flag: _redacted_value(flag, value) if redact else value for flag, value in fix.set.items()}
    return {
        "set": settings,
        "remove": list(fix.remove),
        "rename": dict(fix.rename),
        "env_set": redact_env(fix.env_set) if redact else dict(fix.env_set),
        "env_unset": list(fix.env_unset),
    }


def line_json(line: Line | None) -> dict[str, Any] | None:
    """A log line with its number; null where no line shows the cause."""
    return {"number": line.number, "text": redact_text(line.text)} if line is not None else None


def symptom_json(symptom: Symptom) -> dict[str, Any]:
    """What followed from the cause, and the line that shows it."""
    return {"rule": symptom.rule, "title": redact_text(symptom.title), "line": line_json(symptom.line)}


def evidence_json(evidence: Evidence) -> dict[str, Any]:
    """A fact that supports the diagnosis; `path` and `number` name a place in a source file."""
    return {
        "kind": evidence.kind,
        "text": redact_text(evidence.text),
        "line": line_json(evidence.line),
        "path": evidence.path,
        "number": evidence.number,
    }


def _words(words: Sequence[str] | None, redact: bool) -> list[str] | None:
    if words is None:
        return None
    return list(redact_words(words)) if redact else list(words)


def _redacted_value(flag: str, value: str | bool) -> str | bool:
    return value if isinstance(value, bool) else list(redact_words([flag, value]))[1]
