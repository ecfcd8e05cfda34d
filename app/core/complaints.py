"""What each kind of complaint about arguments means; `arguments.py` finds out which kind a line is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.core.command import Command
from app.core.helptext import parse_help
from app.core.occurrences import Occurrence, is_flag_word, key_of, with_plain_dashes
from app.core.problems import ArgumentProblem

_FLAG = r"--?[A-Za-z][\w.+-]*"
_TYPES = {
    "int": "int",
    "positive_int": "int",
    "float": "float",
    "loads": "json",
    "human_readable_int": "human-int",
    "human_readable_int_or_auto": "human-int-or-auto",
}


@dataclass(frozen=True, slots=True)
class Context:
    """The line, what the program printed around it, and the command that it was started with."""

    text: str
    around: str
    command: Command | None

    def problem(self, kind: str, flag: str, value: str | None = None, **more: object) -> ArgumentProblem:
        """A problem with the flag as the person typed it, and the value that the command gave it."""
        spelled = self.typed(flag, value)
        if value is None and self.command is not None:
            given = self.command.get(spelled)
            value = given if isinstance(given, str) else None
        return ArgumentProblem(kind, spelled, value, text=self.text, **more)  # type: ignore[arg-type]

    def typed(self, flag: str, value: str | None = None) -> str:
        """The spelling in the command of one of `-tp/--tensor-parallel-size`; else the long one.

        Where the flag is given more than once, the one with the value that was complained about.
        """
        names = flag.split("/")
        if self.command is not None:
            keys = {key_of(name, self.command.catalogue)[0] for name in names}
            found = [entry for entry in self.command.arguments if _same(entry.spelled, names[0]) or entry.key in keys]
            blamed = [entry for entry in found if value is not None and value in self.command.values_of(entry)]
            if found:
                return (blamed or found)[-1].spelled
        return next((name for name in names if name.startswith("--")), names[0])


def _same(typed: str, reported: str) -> bool:
    """vLLM's parser reports `--max_model_len` as `--max-model-len`."""
    return typed == reported or (typed.startswith("--") and typed.replace("_", "-") == reported.replace("_", "-"))


# -- argparse --------------------------------------------------------------------------------------------------------


def unrecognized(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    """`--a 1 --b`: flags with the values that belong to them, and words that belong to no flag."""
    words = match["words"].strip(" ").split(" ")
    if re.fullmatch(r"(?:\S*/)?(?:ba|da|z)?sh", words[0]):
        # A shell's command line that an image's entry point took for its arguments: its flags are not ours.
        return [ArgumentProblem("unknown", "", match["words"].strip(), text=context.text)]
    found: list[ArgumentProblem] = []
    at = 0
    while at < len(words):
        stop = next((i for i in range(at + 1, len(words)) if _is_flag(words[i])), len(words))
        if _is_flag(words[at]):
            found.extend(_unknown_flag(words[at], words[at + 1 : stop], context))
        else:
            found.extend(_stray(words[at:stop], context))
        at = stop
    return found


def _is_flag(word: str) -> bool:
    return is_flag_word(word, None) and re.match(r"--?[A-Za-z]", with_plain_dashes(word)) is not None


def _unknown_flag(word: str, following: list[str], context: Context) -> list[ArgumentProblem]:
    name, equals, inline = word.partition("=")
    entry = _occurrence(name, context.command)
    if entry is None or context.command is None:
        value = " ".join([inline, *following]) if equals else " ".join(following) or None
        return [ArgumentProblem("unknown", name, value, text=context.text)]
    values = context.command.values_of(entry)
    # Words behind the flag's own values belonged to something else; a positional may have taken its value from it.
    own = " ".join(values)
    rest = " ".join([inline, *following] if equals else following)
    problem = ArgumentProblem("unknown", entry.spelled, own if values else None, text=context.text)
    strays = rest.removeprefix(own).split() if rest.startswith(own) and rest != own else []
    return [problem, *(_stray(strays, context) if strays else [])]


def _occurrence(name: str, command: Command | None) -> Occurrence | None:
    if command is None:
        return None
    return next((entry for entry in reversed(command.arguments) if _same(entry.spelled, name)), None)


def _stray(words: Sequence[str], context: Context) -> list[ArgumentProblem]:
    """A word behind a switch was meant as its value; of others we can't tell more than that they are too many."""
    for count in range(len(words), 0, -1):
        word = " ".join(words[:count])  # the message does not tell where an argument with blanks ends
        if switch := _switch_before(word, context.command):
            rest = _stray(words[count:], context) if count < len(words) else []
            return [ArgumentProblem("unexpected-value", switch, word, text=context.text), *rest]
    return [ArgumentProblem("unknown", "", " ".join(words), text=context.text)]


def _switch_before(word: str, command: Command | None) -> str | None:
    """The flag behind which this word stands in the command without being its value."""
    if command is None:
        return None
    typed = command.words()
    for entry in command.arguments:
        behind = entry.at + 1
        own = behind in entry.values and entry.flag is not None
        if entry.inline is None and not own and typed[behind : behind + 1] == (word,):
            return entry.spelled
    return None


def ambiguous(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    return [context.problem("ambiguous", match["flag"], match["value"], candidates=_listed(match["all"]))]


def required(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    """`--model-path/--model, --port`: each is missing; positionals are named without dashes."""
    return [
        ArgumentProblem("required", _long(names), candidates=tuple(names.split("/")), text=context.text)
        for names in _listed(match["all"])
    ]


def one_of(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    names = tuple(_long(name) for name in match["all"].split())
    return [ArgumentProblem("required", "", candidates=names, text=context.text)]


def argument(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    """`argument --port: ...`: a value is missing, too much, not among the choices, or of another type."""
    flag, what = match["flag"], match["what"]
    if re.match(r"expected (?:one|at least|at most|\d+) ?\w* argument", what):
        return [context.problem("missing-value", flag, choices=_choices_nearby(flag, context.around))]
    if found := re.match(r"invalid choice: (?P<value>'[^']*'|\"[^\"]*\"|[^\s(,]+)(?P<rest>.*)$", what):
        return [context.problem("bad-choice", flag, _bare(found["value"]), choices=_choices(found["rest"]))]
    if found := re.match(r"invalid (?P<type>\S+) value: (?P<value>.*)$", what):
        kind = _TYPES.get(found["type"], found["type"])
        return [context.problem("bad-type", flag, _bare(found["value"]), type=kind)]
    if found := re.match(r"ignored explicit argument (?P<value>.+)$", what):
        return [context.problem("unexpected-value", flag, _bare(found["value"]))]
    if found := re.match(r"not allowed with argument (?P<other>\S+)", what):
        return [context.problem("conflict", flag, candidates=(context.typed(found["other"]),))]
    if found := re.match(r"Value (?P<value>.*) cannot be converted to (?:<function (?P<type>\w+)|(?P<name>\w+))", what):
        wanted = found["type"] or found["name"]
        value = _given(flag, found["value"], context)
        return [context.problem("bad-type", flag, value, type=_TYPES.get(wanted, wanted))]
    if found := re.match(r"Invalid integer value: (?P<value>'[^']*'|\"[^\"]*\")", what):
        return [context.problem("bad-type", flag, _bare(found["value"]), type="human-int")]
    return [context.problem("bad-type", flag, type="json" if "json" in what.lower() else None)]


def not_json(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    return [context.problem("bad-type", match["flag"], type="json")]


def _given(flag: str, reported: str, context: Context) -> str:
    """The value as typed: a program's message may have lost its quotes."""
    value = context.command.get(context.typed(flag)) if context.command is not None else None
    return value if isinstance(value, str) else reported


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r",\s*", text.strip().rstrip(".")) if part)


def _long(names: str) -> str:
    parts = names.split("/")
    return next((part for part in parts if part.startswith("--")), parts[0])


def _bare(text: str) -> str:
    """Without the quotes that repr() put around it."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _choices(text: str) -> tuple[str, ...]:
    """`(choose from 'a', 'b')` or `(choose from a, b)`; the end may be cut off."""
    _, found, listed = text.partition("(choose from ")
    return tuple(_bare(choice) for choice in _listed(listed.removesuffix(")"))) if found else ()


def _choices_nearby(flag: str, around: str) -> tuple[str, ...]:
    names = set(flag.split("/"))
    return next((known.choices for known in parse_help(around) if names & set(known.spellings)), ()) if around else ()


# -- click and typer -------------------------------------------------------------------------------------------------


def no_such_option(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    """`Did you mean --y?` or `(Possible options: --y, --z)`."""
    return [context.problem("unknown", match["flag"], candidates=tuple(re.findall(_FLAG, match["rest"])))]


def option_value(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    return [context.problem("missing-value" if match["what"] == "requires" else "unexpected-value", match["flag"])]


def invalid_value(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    what = match["what"]
    if found := re.match(r"'?(?P<value>[^']*)'? is not one of (?P<all>.+)$", what):
        choices = tuple(_bare(choice) for choice in _listed(found["all"]))
        return [context.problem("bad-choice", match["flag"], found["value"].strip(), choices=choices)]
    found = re.match(r"'?(?P<value>[^']*)'? is not a valid (?P<type>\w+)", what)
    kinds = {"integer": "int", "float": "float"}
    value = found["value"] if found else None
    return [context.problem("bad-type", match["flag"], value, type=kinds.get(found["type"]) if found else None)]


def missing_option(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    return [ArgumentProblem("required", match["flag"], candidates=(match["flag"],), text=context.text)]


# -- llama.cpp -------------------------------------------------------------------------------------------------------


def handling(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    """`error while handling argument "--x": ...`; the flag's own help follows it and may list the choices."""
    flag, what = match["flag"], match["what"]
    choices = _choices_nearby(flag, context.around)
    if "has been removed" in what:
        return [context.problem("removed", flag, candidates=tuple(re.findall(_FLAG, what.partition("use ")[2])))]
    if re.search(r"expected value|missing value", what):
        return [context.problem("missing-value", flag, choices=choices)]
    if found := re.search(r"unk(?:n)?own value[^']*'(?P<value>[^']*)'", what):
        # It takes the next word for the value, whatever it is: a flag there means that the value is missing.
        missing = found["value"].startswith("--")
        kind = "missing-value" if missing else "bad-choice"
        return [context.problem(kind, flag, None if missing else found["value"], choices=choices or _quoted(context))]
    if re.search(r"\bsto[a-z]+\b", what):
        return [context.problem("bad-type", flag, type="float" if "stof" in what or "stod" in what else "int")]
    return [context.problem("bad-choice" if choices else "bad-type", flag, choices=choices)]


def _quoted(context: Context) -> tuple[str, ...]:
    """`set Flash Attention use ('on', 'off', or 'auto', default: 'auto')`: choices that the help only tells."""
    listed = re.search(r"\(((?:'[\w-]+',? ?(?:or )?){2,})", context.around)
    return tuple(re.findall(r"'([\w-]+)'", listed[1])) if listed else ()


# -- clap, Go, and what they share -----------------------------------------------------------------------------------


def unknown(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    """The program names one flag; a similar one may be offered in a `tip:` line."""
    flag, _, inline = match["flag"].partition("=")
    tip = re.search(
        rf"tip: a similar argument exists: '(?P<flag>{_FLAG})|Did you mean '?(?P<other>{_FLAG})", context.around
    )
    candidates = (tip["flag"] or tip["other"],) if tip else ()
    if not flag.startswith("-"):
        return [ArgumentProblem("unknown", "", flag, text=context.text)]
    return [context.problem("unknown", flag, inline or None, candidates=candidates)]


def no_value(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    return [context.problem("missing-value", match["flag"])]


def conflict(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    return [context.problem("conflict", match["flag"], candidates=(match["all"],))]


def shorthand(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    return [context.problem("unknown", f"-{match['letter']}")]


def clap_value(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    possible = re.search(r"possible values: ([^\]]+)", context.around)
    if possible:
        return [context.problem("bad-choice", match["flag"], match["value"], choices=_listed(possible[1]))]
    kinds = {"invalid digit": "int", "invalid float": "float"}
    kind = next((name for words, name in kinds.items() if words in match["what"]), None)
    return [context.problem("bad-type", match["flag"], match["value"], type=kind)]


def clap_required(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    names = re.findall(rf"^\s+({_FLAG})", context.around, re.MULTILINE) or [""]
    return [ArgumentProblem("required", name, candidates=(name,) if name else (), text=context.text) for name in names]


def go_value(match: re.Match[str], context: Context) -> list[ArgumentProblem]:
    return [context.problem("bad-type", match["flag"], match["value"])]
