"""A failed check of the engine: its condition, held against the command, becomes a cause.

A bare `AssertionError` or `ValueError` says nothing by itself, so its condition is read wherever it can be. One with a
message is read from the engine's own source only, and only where no rule knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from app.core.model import Cause, Event, Evidence, Fix, Raised
from app.core.vocabulary import Category, Confidence, Safety
from app.diagnosis.arguments import complete
from app.diagnosis.remedy import Bench, Remedy
from app.diagnosis.source import Check, Requirement, read_requirement, requirement_of_code, uncertain

RULE = "any/bare-assertion"
CHECK = "any/failed-check"
_BARE = ("AssertionError", "ValueError")
_CHECKS = (*_BARE, "RuntimeError", "NotImplementedError", "TypeError")
_LONGEST_TITLE = 200

# Values for companions that have to be given along with others and depend on neither machine nor model.
_COMPANIONS: Mapping[str, str] = {
    "--speculative-num-steps": "3",
    "--speculative-eagle-topk": "1",
    "--speculative-num-draft-tokens": "4",
}


def read_assertion(
    event: Event, bench: Bench, prefixes: Sequence[Path], *, read_source: bool
) -> tuple[Cause, Evidence] | None:
    """The cause behind a bare exception of an event, if the condition that it broke tests arguments."""
    for raised in event.chain:
        if raised.name not in _BARE or raised.message.strip() or not raised.frames:
            continue
        requirement = _requirement(raised, prefixes if read_source else ())
        if requirement is not None and (cause := _cause(raised, event, requirement, bench)) is not None:
            return cause, _evidence(raised, requirement)
    return None


def read_check(event: Event, bench: Bench, prefixes: Sequence[Path]) -> tuple[Cause, Evidence] | None:
    """The same for the first exception of an event that says something, from the engine's own source alone."""
    raised = event.chain[0] if event.chain else None
    requirement = _checked(raised, prefixes)
    if raised is None or requirement is None:
        return None
    cause = _cause(raised, event, requirement, bench)
    if cause is None:
        return None
    said = raised.message.strip().splitlines()[0][:_LONGEST_TITLE] if raised.message.strip() else cause.title
    return replace(cause, rule=CHECK, title=said, confidence=Confidence.MEDIUM), _evidence(raised, requirement)


def source_evidence(event: Event, prefixes: Sequence[Path]) -> Evidence | None:
    """The condition in the engine's own source that an event's first exception broke."""
    raised = event.chain[0] if event.chain else None
    requirement = _checked(raised, prefixes)
    return _evidence(raised, requirement) if raised is not None and requirement is not None else None


def _checked(raised: Raised | None, prefixes: Sequence[Path]) -> Requirement | None:
    if raised is None or raised.name not in _CHECKS or not raised.frames:
        return None
    return read_requirement(raised.frames[-1], prefixes)


def _requirement(raised: Raised, prefixes: Sequence[Path]) -> Requirement | None:
    frame = raised.frames[-1]
    found = read_requirement(frame, prefixes)
    if found is not None or raised.name != "AssertionError":
        return found
    found = requirement_of_code(frame.code)
    if found is None or frame.code.lstrip().startswith("assert"):
        return found
    # Only the last part of the condition was printed: another part may be the one that failed.
    return Requirement(found.text, uncertain(found.checks), found.guards)


def _evidence(raised: Raised, requirement: Requirement) -> Evidence:
    frame = raised.frames[-1]
    if requirement.path is None:
        return Evidence("source", f"The log shows a part of the failed condition: {requirement.text}", frame.code_line)
    return Evidence("source", f"required: {requirement.text}", frame.line, requirement.path, requirement.number)


def _cause(raised: Raised, event: Event, requirement: Requirement, bench: Bench) -> Cause | None:
    flags = _flags((*requirement.checks, *requirement.guards), bench)
    tested = [flags[check.attribute] for check in requirement.checks if check.attribute in flags]
    if not tested:
        return None
    fix, safety = _proposal(requirement, flags, bench)
    missing = _missing(requirement, flags, bench)
    remedy = bench.offer(fix, safety) if fix is not None else None
    remedy = complete(remedy, bench) if remedy is not None else Remedy()
    line = raised.line if raised.frames[-1].code_line is None or requirement.path else raised.frames[-1].code_line
    return Cause(
        rule=RULE,
        category=_category(requirement, tested, missing),
        title=_title(tested, missing),
        explanation=_explanation(requirement, flags, missing, bench),
        confidence=Confidence.HIGH if requirement.path else Confidence.MEDIUM,
        line=line,
        rank=event.rank,
        action=remedy.action,
        fix=remedy.fix,
        safety=remedy.safety,
        loses=remedy.loses,
        command=remedy.command.words() if remedy.command is not None else None,
        trusted=requirement.path is not None,
    )


def _flags(checks: Sequence[Check], bench: Bench) -> dict[str, str]:
    """The flag of each attribute, where this version has one of that very name."""
    found: dict[str, str] = {}
    for check in checks:
        spelled = "--" + check.attribute.strip("_").replace("_", "-")
        if bench.catalogue is not None and bench.catalogue.resolve(spelled).kind == "exact":
            found[check.attribute] = bench.typed(spelled) or spelled
        elif bench.catalogue is None and bench.typed(spelled) is not None:
            found[check.attribute] = spelled
    return found


def _absent(flag: str, bench: Bench) -> bool:
    return bench.command is not None and bench.typed(flag) is None


def _missing(requirement: Requirement, flags: Mapping[str, str], bench: Bench) -> list[str]:
    """Flags that would have to be given: required, or asked for by the condition around it and left out."""
    wanted = [check for check in requirement.checks if check.kind == "is-not-none"]
    # `if x is None: assert y is None`: y is given, so x is what was left out.
    given = any(
        check.kind == "is-none" and check.attribute in flags and not _absent(flags[check.attribute], bench)
        for check in requirement.checks
    )
    if given:
        wanted += [check for check in requirement.guards if check.kind == "is-none"]
        if any(check.kind == "is-none" for check in requirement.guards):
            wanted += [check for check in requirement.checks if check.kind == "is-none"]
    names = [flags[check.attribute] for check in wanted if check.attribute in flags]
    return [flag for flag in dict.fromkeys(names) if _absent(flag, bench)]


def _proposal(requirement: Requirement, flags: Mapping[str, str], bench: Bench) -> tuple[Fix | None, Safety]:
    """A value only where one is plain: a companion that is missing, or the one value that is allowed."""
    missing = _missing(requirement, flags, bench)
    certain = all(check.certain for check in requirement.checks)
    if missing and certain:
        values = {flag: _value_for(flag, bench) for flag in missing}
        settings = {flag: value for flag, value in values.items() if value is not None}
        if len(settings) == len(values):
            known = all(flag in _COMPANIONS for flag in settings)
            return Fix(set=settings), Safety.SAFE if known else Safety.MANUAL
        return None, Safety.MANUAL
    single = [
        check
        for check in requirement.checks
        if check.kind == "member" and check.certain and len(check.values) == 1 and check.attribute in flags
    ]
    if len(single) == 1 and len(requirement.checks) == 1:
        return Fix(set={flags[single[0].attribute]: single[0].values[0]}), Safety.MANUAL
    return None, Safety.MANUAL


def _value_for(flag: str, bench: Bench) -> str | Literal[True] | None:
    if flag in _COMPANIONS:
        return _COMPANIONS[flag]
    known = bench.catalogue.find(flag) if bench.catalogue is not None else None
    if known is not None and known.takes == "none":
        return True
    return known.choices[0] if known is not None and len(known.choices) == 1 else None


def _category(requirement: Requirement, tested: Sequence[str], missing: Sequence[str]) -> Category:
    if missing:
        return Category.MISSING_ARGUMENT
    # What must not be given at all is refused because of something else that is given.
    barred = any(check.kind == "is-none" for check in requirement.checks)
    return Category.INCOMPATIBLE_ARGUMENTS if barred or len(set(tested)) > 1 else Category.INVALID_ARGUMENT_VALUE


def _title(tested: Sequence[str], missing: Sequence[str]) -> str:
    if missing:
        return f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing beside the other arguments"
    return f"A check of {', '.join(dict.fromkeys(tested))} failed without a message"


def _explanation(requirement: Requirement, flags: Mapping[str, str], missing: Sequence[str], bench: Bench) -> str:
    part = "The condition" if requirement.path else "The part of the condition that the log shows"
    text = f"{part} that had to hold: {requirement.text}."
    if requirement.guards:
        around = " and ".join(dict.fromkeys(check.text for check in requirement.guards))
        text += f" It is asked where {around}."
    if bench.command is not None:
        names = dict.fromkeys(flags.values())
        states = [_state(flag, bench) for flag in names]
        text += f" In the command, {', '.join(states)}."
    if missing:
        text += f" So {', '.join(missing)} {'has' if len(missing) == 1 else 'have'} to be given as well."
    return text


def _state(flag: str, bench: Bench) -> str:
    value = bench.command.get(flag) if bench.command is not None else None
    if value is None:
        return f"{flag} is not given"
    return f"{flag} is given" if value is True else f"{flag} is {value}"
