"""From what a program refuses in its arguments to causes with an exact corrected command.

The same for the program's own complaint in a log and for what the catalogue says before a launch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from app.core import nearness
from app.core.catalogue import FlagCatalogue
from app.core.equivalents import Equivalent, equivalent
from app.core.model import Cause, Fix, Line
from app.core.occurrences import with_plain_dashes
from app.core.problems import ArgumentProblem, ProblemKind
from app.core.repair import json_meant, means_the_default, number_meant
from app.core.vocabulary import Category, Confidence, Engine, Safety
from app.diagnosis.remedy import Bench, Remedy, Step, clear_choice
from app.diagnosis.wording import explanation_of, program_name, title_of

_RULES: Mapping[ProblemKind, tuple[str, Category]] = {
    "unknown": ("any/unknown-argument", Category.UNKNOWN_ARGUMENT),
    "removed": ("any/unknown-argument", Category.UNKNOWN_ARGUMENT),
    "ambiguous": ("any/ambiguous-argument", Category.UNKNOWN_ARGUMENT),
    "missing-value": ("any/argument-value-missing", Category.MISSING_ARGUMENT),
    "unexpected-value": ("any/argument-bad-type", Category.INVALID_ARGUMENT_VALUE),
    "bad-choice": ("any/argument-bad-choice", Category.INVALID_ARGUMENT_VALUE),
    "bad-type": ("any/argument-bad-type", Category.INVALID_ARGUMENT_VALUE),
    "required": ("any/required-argument-missing", Category.MISSING_ARGUMENT),
    "conflict": ("any/conflicting-arguments", Category.INCOMPATIBLE_ARGUMENTS),
}
# Names of one and the same number format.
_FORMATS = (
    ("float16", "half", "fp16", "f16", "torch.float16"),
    ("bfloat16", "bf16", "torch.bfloat16"),
    ("float32", "float", "fp32", "f32", "torch.float32"),
)
_NAME_WRONG = ("unknown", "removed", "ambiguous")
_ORDER = (Safety.SAFE, Safety.DEGRADING, Safety.MANUAL)
_MOST_ROUNDS = 4  # of mending what a corrected command still has wrong
_ALIKE = 0.75  # from here on, a name is worth showing to a person as the one that may have been meant
_ALIKE_MARGIN = 0.1  # so much better than the second
# Without these there is no server: a program that refuses one is another version or another program.
_TRUE_OR_FALSE = frozenset({"true", "false", "yes", "no", "on", "off"})
_CORE = ("--model", "--model-path", "-m", "--model-id", "-hf", "--hf-repo", "--host", "--port")


def causes_of(
    problems: Sequence[ArgumentProblem], bench: Bench, *, engine: Engine | None, version: str | None, line: Line | None
) -> list[Cause]:
    """One cause for all flags that are unknown, and one for each other problem."""
    unknown = [problem for problem in problems if problem.kind in ("unknown", "removed")]
    groups = ([unknown] if unknown else []) + [[one] for one in problems if one not in unknown]
    return [_cause(group, bench, engine, version, line) for group in groups]


def known_mend(problem: ArgumentProblem, bench: Bench) -> bool:
    """Whether it is known what was meant by an argument: what mends it is more than a guess."""
    step = _step(problem, bench)
    return step is not None and step.safety is not Safety.MANUAL


def complete(remedy: Remedy, bench: Bench) -> Remedy:
    """The remedy together with the mending of whatever else this version would refuse in its command.

    A program names one wrong argument at a time; a command that is offered should start.
    """
    for _ in range(_MOST_ROUNDS):
        if remedy.command is None or remedy.fix is None or not bench.exact:
            return remedy
        problems = bench.problems(remedy.command)
        steps = [_step(problem, replace(bench, command=remedy.command)) for problem in problems]
        if not steps or any(step is None for step in steps):
            return remedy
        merged = _merged([Step(remedy.fix, remedy.wanted, ""), *(step for step in steps if step is not None)])
        better = bench.offer(merged.fix, merged.safety, (*remedy.loses, *merged.loses))
        if better is None:
            return remedy
        remedy = better
    return remedy


def _cause(
    problems: Sequence[ArgumentProblem], bench: Bench, engine: Engine | None, version: str | None, line: Line | None
) -> Cause:
    rule, category = _RULES[problems[0].kind]
    steps = [_step(problem, bench, said=line is not None) for problem in problems]
    known = [step for step in steps if step is not None]
    remedy = Remedy()
    if known and len(known) == len(steps):
        merged = _merged(known)
        offered = bench.offer(merged.fix, merged.safety, merged.loses)
        remedy = complete(offered, bench) if offered is not None else remedy
    program = program_name(engine, version)
    return Cause(
        rule=rule,
        category=category,
        title=title_of(problems, program),
        explanation=explanation_of(problems, steps, bench, program),
        confidence=Confidence.HIGH,
        line=line,
        rank=line.rank if line is not None else None,
        action=remedy.action,
        fix=remedy.fix,
        safety=remedy.safety,
        loses=remedy.loses,
        command=remedy.command.words() if remedy.command is not None else None,
        trusted=True,
    )


# -- what mends one argument


def _step(problem: ArgumentProblem, bench: Bench, *, said: bool = False) -> Step | None:
    """`said`: the program itself refused it, so it is wrong for sure whatever the catalogue knows."""
    if problem.kind in _NAME_WRONG:
        return _other_name(problem, bench, said=said)
    if problem.kind == "bad-choice":
        return _other_choice(problem, bench)
    if problem.kind == "unexpected-value":
        return _bare(problem, bench)
    if problem.kind == "bad-type":
        return _other_value(problem, bench)
    # A missing value, a missing flag: what was meant can't be known.
    return None


def _other_name(problem: ArgumentProblem, bench: Bench, *, said: bool) -> Step | None:
    catalogue = bench.catalogue
    engine = catalogue.engine if catalogue is not None else bench.engine
    if tip := _by_tip(problem, bench):
        return tip
    if engine is None or not problem.flag:
        return None
    # What the program refused but the catalogue knows shows that the catalogue is of another version: then it can't
    # tell what this one has.
    if catalogue is not None and problem.kind == "unknown" and catalogue.resolve(problem.flag).kind == "exact":
        return None
    plain = with_plain_dashes(problem.flag)
    if plain != problem.flag and catalogue is not None and catalogue.resolve(plain).kind == "exact":
        return _renamed(problem, plain, Safety.SAFE, "its dashes had become a long one", bench)
    known = equivalent(problem.flag, engine, catalogue)
    if known is not None:
        return _by_equivalent(problem, known, bench)
    if catalogue is None or problem.kind == "ambiguous":
        return None
    return _by_likeness(problem, catalogue, bench, said or bench.exact)


def _by_tip(problem: ArgumentProblem, bench: Bench) -> Step | None:
    """The one flag that the program itself proposes: of its own flags it knows best."""
    if problem.kind != "unknown" or len(problem.candidates) != 1 or not problem.flag:
        return None
    (name,) = problem.candidates
    slip = nearness.distance(problem.flag.replace("_", "-"), name.replace("_", "-"), 2) <= 1
    why = f"the program itself asks whether {name} was meant"
    return _renamed(problem, name, Safety.SAFE if slip else Safety.MANUAL, why, bench)


def _by_likeness(problem: ArgumentProblem, catalogue: FlagCatalogue, bench: Bench, sure: bool) -> Step | None:
    """The flag that was clearly meant; else, for a person to decide, the one most like it, or none at all."""
    near = catalogue.near(problem.flag)
    if near is not None:
        return _renamed(problem, near, Safety.SAFE, f"{near} is the only flag so named that is a slip away", bench)
    alike = catalogue.closest(problem.flag, limit=2)
    if alike and alike[0][1] >= _ALIKE and (len(alike) == 1 or alike[0][1] - alike[1][1] >= _ALIKE_MARGIN):
        name = alike[0][0].name
        return _renamed(
            problem, name, Safety.MANUAL, f"{name} is the flag most like it: see whether it was meant", bench
        )
    if not sure or problem.flag in _CORE:
        return None
    return Step(
        Fix(remove=(problem.flag,)), Safety.MANUAL, "this version has nothing that stands for it", (problem.flag,)
    )


def _by_equivalent(problem: ArgumentProblem, known: Equivalent, bench: Bench) -> Step | None:
    if known.flag is None:
        # Where the program does the thing anyway nothing but the wish is lost; else a person gives something up.
        safety = Safety.DEGRADING if known.drop else Safety.MANUAL
        return Step(Fix(remove=(problem.flag,)), safety, known.note or "nothing stands for it", (problem.flag,))
    if known.fold is not None:
        return _folded(problem, known.flag, known.fold, bench)
    if known.same_meaning:
        return _renamed(problem, known.flag, Safety.SAFE, known.note or f"{known.flag} is its name here", bench)
    why = known.note or f"{known.flag} is near to it, but not the same"
    return _renamed(problem, known.flag, Safety.DEGRADING, why, bench, loses=(f"the exact meaning of {problem.flag}",))


def _renamed(
    problem: ArgumentProblem, new: str, safety: Safety, why: str, bench: Bench, loses: tuple[str, ...] = ()
) -> Step:
    given = bench.command.find(new) if bench.command is not None else ()
    if any(entry.spelled != problem.flag for entry in given):  # `--a_b` itself counts as `--a-b`
        # It is given under its right name too: writing it twice would let this value win.
        gone = f"{problem.flag} {problem.value}".strip() if problem.value else problem.flag
        return Step(Fix(remove=(problem.flag,)), Safety.MANUAL, f"{new} is given as well", (gone,))
    return Step(Fix(rename={problem.flag: new}), safety, why, loses)


def _folded(problem: ArgumentProblem, target: str, key: str, bench: Bench) -> Step | None:
    """The value moves under a key of a JSON flag, beside what that flag holds already."""
    typed = bench.command.get(problem.flag) if bench.command is not None else problem.value
    if not isinstance(typed, str):
        return None
    present = bench.command.get(target) if bench.command is not None else None
    try:
        held = json.loads(present) if isinstance(present, str) else {}
    except ValueError:
        return None
    if not isinstance(held, dict) or key in held:
        return None
    held[key] = _as_json(typed)
    fix = Fix(remove=(problem.flag,), set={target: json.dumps(held)})
    return Step(fix, Safety.SAFE, f"here it is {key} in {target}")


def _joined_json(before: str | Literal[True] | None, value: str | Literal[True]) -> str | Literal[True]:
    """Two mendings that each fold a value into the same JSON flag add up; else the later one stands."""
    try:
        held, more = json.loads(str(before)), json.loads(str(value))
    except ValueError:
        return value
    return json.dumps(held | more) if isinstance(held, dict) and isinstance(more, dict) else value


def _as_json(text: str) -> object:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float, bool)) else text


def _other_choice(problem: ArgumentProblem, bench: Bench) -> Step | None:
    typed = problem.value or ""
    choice = _same_format(typed, problem.choices)
    if choice is not None and problem.flag:
        flag = bench.typed(problem.flag) or problem.flag
        return Step(Fix(set={flag: choice}), Safety.SAFE, f"{choice} is this program's name for {typed}")
    if any(typed.lower() in names for names in _FORMATS):
        return None  # `float16` is no slip of `bfloat16`: it is another format
    choice = clear_choice(typed, problem.choices)
    # A slip of one key in a word can mean nothing else; further off, a person looks at it.
    safety = Safety.SAFE if choice and nearness.distance(typed.lower(), choice.lower(), 2) <= 1 else Safety.MANUAL
    choice = choice or _longer_name(typed, problem.choices)
    if choice is None or not problem.flag:
        return None
    flag = bench.typed(problem.flag) or problem.flag
    return Step(Fix(set={flag: choice}), safety, f"{choice} is the only choice named like {typed}")


def _other_value(problem: ArgumentProblem, bench: Bench) -> Step | None:
    """A value of the wrong type whose meaning shows; a person confirms it."""
    typed = problem.value or ""
    if not problem.flag or not typed:
        return None
    flag = bench.typed(problem.flag) or problem.flag
    if typed.lower() in _TRUE_OR_FALSE and problem.type not in ("int", "float"):
        return None
    meant = json_meant(typed)
    if meant is None:
        meant = number_meant(typed, whole=problem.type != "float")
    if meant is not None:
        return Step(Fix(set={flag: meant}), Safety.MANUAL, f"{typed} was probably meant as {meant}")
    if means_the_default(typed):
        return Step(Fix(remove=(flag,)), Safety.MANUAL, f"without {flag} the program chooses itself", (flag,))
    return None


def _same_format(typed: str, choices: Sequence[str]) -> str | None:
    """The choice that is another name of the same number format: `float16` for `fp16`."""
    names = next((names for names in _FORMATS if typed.lower() in names), ())
    return next((name for name in names if name in choices and name != typed), None)


def _longer_name(typed: str, choices: Sequence[str]) -> str | None:
    """The one choice whose words hold all words typed: `triton` for `triton_attn`."""
    words = set(typed.lower().replace("_", "-").split("-"))
    holding = [choice for choice in choices if words <= set(choice.lower().replace("_", "-").split("-"))]
    return holding[0] if len(holding) == 1 and len(typed) > 2 else None


def _bare(problem: ArgumentProblem, bench: Bench) -> Step | None:
    said = (problem.value or "").lower()
    if not problem.flag:
        return None
    if said in ("true", "1", "yes", "on"):
        return Step(Fix(set={problem.flag: True}), Safety.SAFE, f"{problem.flag} stands alone: it takes no value")
    return _switched_off(problem, bench) if said in ("false", "0", "no", "off") else None


def _switched_off(problem: ArgumentProblem, bench: Bench) -> Step:
    """A switch that was told no: its opposite where there is one, else it goes."""
    known = bench.catalogue.find(problem.flag) if bench.catalogue is not None else None
    if known is not None and known.negations:
        opposite = known.negations[0]
        return Step(
            Fix(remove=(problem.flag,), set={opposite: True}), Safety.MANUAL, f"{opposite} is its opposite here"
        )
    return Step(Fix(remove=(problem.flag,)), Safety.MANUAL, f"{problem.flag} is off unless it is given")


def _merged(steps: Iterable[Step]) -> Step:
    settings: dict[str, str | Literal[True]] = {}
    rename: dict[str, str] = {}
    env_set: dict[str, str] = {}
    remove: list[str] = []
    env_unset: list[str] = []
    loses: list[str] = []
    safety = Safety.SAFE
    for step in steps:
        for flag, value in step.fix.set.items():
            settings[flag] = _joined_json(settings.get(flag), value)
        rename.update(step.fix.rename)
        env_set.update(step.fix.env_set)
        remove += step.fix.remove
        env_unset += step.fix.env_unset
        loses += step.loses
        safety = max(safety, step.safety, key=_ORDER.index)
    fix = Fix(settings, tuple(dict.fromkeys(remove)), rename, env_set, tuple(dict.fromkeys(env_unset)))
    return Step(fix, safety, "", tuple(dict.fromkeys(loses)))
