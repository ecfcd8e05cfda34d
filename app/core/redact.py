"""Takes secrets and prompts out of words, environments and text, before anything is stored, sent or shown.

Secrets are known by the name that they are given to (`--api-key`, `HF_TOKEN=`, `'api_key': `) or by their shape
(`hf_...`, `sk-...`, JWT, `user:pass@host`). Prompts are known by the lines in which servers dump them. Redacting
twice changes nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.core.secretnames import is_secret_name, is_secret_variable

REDACTED = "[redacted]"
NO_PROMPT = "[prompt removed]"

_ASSIGNMENT = re.compile(r"(?P<before>(?:--?[A-Za-z][\w-]*=)?)(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_FLAG = re.compile(r"(?P<name>--?[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
# Values that hide nothing: switches, numbers, placeholders and what is redacted already.
_HARMLESS = re.compile(
    r"|none|null|true|false|yes|no|on|off|auto|0|1|\[redacted\]|\*+|<[^<>]*>|\.\.\.|\$\{?\w+\}?", re.IGNORECASE
)


def redact_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command with every secret replaced by `[redacted]`."""
    return tuple(_redacted_words(words))


def _redacted_words(words: Sequence[str]) -> Iterator[str]:
    hides = False  # the word before was a secret's flag
    for word in words:
        if hides and not word.startswith("-"):
            # A key can be one of several (`--api-key a b`); what has a slash is the model that stands behind it.
            yield REDACTED
            continue
        hides = False
        flag = _FLAG.fullmatch(word)
        assigned = _ASSIGNMENT.fullmatch(word)
        if flag and is_secret_name(flag["name"]):
            hides = flag["value"] is None
            yield word if flag["value"] is None else f"{flag['name']}={_hidden(flag['value'])}"
        elif assigned and is_secret_variable(assigned["name"]):
            yield f"{assigned['before']}{assigned['name']}={_hidden(assigned['value'])}"
        else:
            yield redact_text(word)


def _hidden(value: str) -> str:
    return value if _HARMLESS.fullmatch(value) else REDACTED


def redact_env(env: Mapping[str, str]) -> dict[str, str]:
    """The same variables, their secrets replaced."""
    return {name: _hidden(value) if is_secret_variable(name) else redact_text(value) for name, value in env.items()}


def redact_text(text: str) -> str:
    """Text (a log, a URL, a message) without secrets and dumped prompts; the rest byte for byte."""
    folded = text.lower()  # what is taken out adds no needle
    for rule in _RULES:
        if any(needle in (folded if rule.fold else text) for needle in rule.needles):
            text = rule.pattern.sub(rule.replace, text)
    lines = text.split("\n")
    return "\n".join(_by_name(line) if _NAMED_LINE.search(line) else line for line in lines)


def _by_name(line: str) -> str:
    for pattern, replace in _BY_NAME:
        line = pattern.sub(replace, line)
    return line


@dataclass(frozen=True, slots=True)
class _Rule:
    """One kind of secret; `needles` are looked for first, because most text holds none of them."""

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    replace: str | Callable[[re.Match[str]], str]
    fold: bool = False  # needles are in small letters, the text may not be


_QUOTED = r"""'(?:[^'\\\n]|\\.)*(?:'|$)|"(?:[^"\\\n]|\\.)*(?:"|$)"""
_STRING = rf"(?:{_QUOTED})"


def _named(match: re.Match[str]) -> str:
    """`api_key='x'`, `"hf_token": "x"`, `HF_TOKEN=x`: hidden when the name says so."""
    name, value = match["name"], match["value"]
    secret = is_secret_variable(name) if name.isupper() else is_secret_name(name) and name.lower() != "token"
    bare = value.strip("'\"[]() ")
    if not secret or _HARMLESS.fullmatch(bare) or re.fullmatch(r"[\d.]+|", bare):
        return match[0]
    quote = value[0] if value[0] in "'\"" else ""
    return f"{match['head']}{quote}{REDACTED}{quote}"


_PROSE = re.compile(
    r"(?:or|and|is|to|for|flag|option|argument|with|if|instead|in|not|can|must|should|was|has|are|be|when|as|on|of|the|"
    r"an?|its?|requires|takes|value|parameter|given|set)",
    re.IGNORECASE,
)


def _flag_in_text(match: re.Match[str]) -> str:
    """`--api-key x` in a printed command; a flag that a sentence or a usage block talks about stays."""
    value = match["value"].strip("'\"`,.;:)}")
    if not is_secret_name(match["name"]) or _HARMLESS.fullmatch(value) or not re.match(r"\w", value):
        return match[0]
    if "=" not in match["join"] and (_PROSE.fullmatch(value) or re.fullmatch(r"[A-Z_]+\]?", value)):
        return match[0]
    lead, tail = re.match(r"['\"]?", match["value"]), re.search(r"['\"`,.;:)}\]]*$", match["value"])
    return f"{match['name']}{match['join']}{lead[0] if lead else ''}{REDACTED}{tail[0] if tail else ''}"


def _rule(needles: str, pattern: str, replace: str | Callable[[re.Match[str]], str], fold: bool = False) -> _Rule:
    flags = re.MULTILINE | (re.IGNORECASE if fold else re.NOFLAG)
    return _Rule(tuple(needles.split()), re.compile(pattern, flags), replace, fold)


_RULES: tuple[_Rule, ...] = (
    # Prompts first: what is cut out needs no further look.
    _rule("ReqInput( Request(", r"\b((?:Receive|Finish)[\w ]*: (?:obj=)?\w+\()(?!\[prompt).*", rf"\1{NO_PROMPT})"),
    _rule(
        "origin_input_text prompt_text input_text",
        rf"\b(origin_input_text|prompt_text|input_text)=(?:{_STRING}|(?!\[prompt)[^,)\n]*)",
        rf"\1={NO_PROMPT}",
    ),
    _rule(
        "_ids=[ _ids: _ids': _ids\":",
        r"\b((?:origin_)?(?:input|output|fill|prompt_token|token|output_token)_ids['\"]?(?:=|: ))"
        r"\[\s*-?\d[-\d,\s]*(?:\]|\.\.\.|$)",
        rf"\1{NO_PROMPT}",
    ),
    _rule(
        "Received details:",
        rf"((?:Received request|Request) [^\s:]+(?: details)?: prompt: )(?!\[prompt|None)(?:{_STRING}|.*)",
        rf"\1{NO_PROMPT}",
    ),
    _rule("messages", r"""(\bmessages['"]?(?:=|: ?))\[(?:\{|\w+\().*""", rf"\1{NO_PROMPT}"),
    _rule("\"prompt\" 'prompt'", rf"""((['"])prompt\2: ?){_STRING}""", rf"\1{NO_PROMPT}"),
    # Shapes.
    _rule(
        "PRIVATE",
        r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----(?!\[redacted\])[\s\S]*?(?:-----END \1-----|\Z)",
        rf"-----BEGIN \1-----{REDACTED}-----END \1-----",
    ),
    _rule("hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{16,}", REDACTED),
    _rule("sk-", r"(?<![A-Za-z0-9_-])sk-(?=[\w-]*\d)[A-Za-z0-9_-]{16,}", REDACTED),
    _rule("AKIA ASIA", r"(?<![A-Za-z0-9])A(?:KI|SI)A[0-9A-Z]{16}(?![A-Za-z0-9])", REDACTED),
    _rule("gh github_pat_ glpat-", r"\b(?:gh[pousr]_\w{30,}|github_pat_\w{20,}|glpat-[\w-]{16,})", REDACTED),
    _rule("xox xapp-", r"\b(?:xox[abeoprs]|xapp)-[\w-]{10,}", REDACTED),
    _rule("AIza nvapi-", r"\b(?:AIza[\w-]{30,}|nvapi-[\w-]{20,})", REDACTED),
    _rule("eyJ", r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", REDACTED),
    _rule(
        "hooks.slack.com webhooks/",
        r"(https://(?:hooks\.slack\.com/(?:services|workflows|triggers)|(?:\w+\.)?discord(?:app)?\.com/api/webhooks)/)"
        r"(?!\[redacted\])[^\s'\"<>)]+",
        rf"\1{REDACTED}",
    ),
    _rule("bearer", r"\b(bearer )(?!\[redacted\])(?:(?=\S*\d)[\w.~+/=-]{8,}|[\w.~+/=-]{24,})", rf"\1{REDACTED}", True),
    _rule(
        "authorization",
        r"""(\bauthorization['"]?\s*[:=]\s*['"]?(?:(?:bearer|basic|token) )?)(?!\[redacted\]|(?:bearer|basic|token) )"""
        r"""[^\s'",}]{4,}""",
        rf"\1{REDACTED}",
        True,
    ),
    _rule("://", r"(://)(?!\[redacted\]@)(?:[^\s/@:'\"]*:[^\s/@'\"]+|[^\s/@:'\"]{20,})@", rf"\1{REDACTED}@"),
    _rule(
        "token= key= sig= signature= secret= password= credential=",
        r"([?&](?:[\w-]*token|(?:[\w-]*[_-])?(?:api|access)?[_-]?key|sig|[\w-]*signature|[\w-]*secret|password|"
        r"x-amz-credential)=)(?!\[redacted\])[^&\s'\"<>)\]]+",
        rf"\1{REDACTED}",
        True,
    ),
)

# By names; tried only on lines that hold such a name in such a place, because it is the dearest look.
_NAMED_LINE = re.compile(
    r"(?:key|token|password|passwd|passphrase|secret|credential|auth|pass|pat|webhook)[\w-]*['\"]?,?[=:\s]",
    re.IGNORECASE,
)
_BY_NAME: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(
            r"(?P<name>--[a-zA-Z][\w.-]*)(?P<join>=|['\"]?,?[ \t]+)"
            r"(?P<value>\[redacted\]|'[^'\n]*'|\"[^\"\n]*\"|[^\s'\"]+['\"]?)"
        ),
        _flag_in_text,
    ),
    (
        re.compile(
            r"(?<![\w-])(?P<head>['\"]?(?P<name>[a-zA-Z_][\w-]*)(?:=|['\"]: ?|: ?(?=['\"])))"
            rf"(?P<value>\[redacted\]|\[[^\]\n]*\]|{_STRING}|[^\s,;)}}\]'\"&]+)"
        ),
        _named,
    ),
)
