"""Reading the configuration: YAML, `${VARIABLES}`, and every problem with its field, line and mend."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import ValidationError
from pydantic_settings.exceptions import SettingsError

from app.alerts.webhook import is_public
from app.core.errors import ConfigError, CrashcartError
from app.service.config import Config, Listen, ServerConfig, model_at
from app.store.locks import checked_name

Place = tuple[str | int, ...]

_DEFAULT = Path("crashcart.yaml")
_VARIABLE = re.compile(r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\{\S{0,40})")
_VERBATIM = ("command", "env")  # the words of a server's command stay as typed: 0.80 is not 0.8
_LARGEST = 4 * 2**20
_MOST = 50_000  # values, aliases of a hostile file multiplied out
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


@dataclass
class _File:
    """A file read: plain values, and the line of each place in it."""

    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[tuple[Place, str]] = field(default_factory=list)


def find_config(chosen: Path | None) -> Path | None:
    """The file to read: the one chosen, else `$CRASHCART_CONFIG`, else `crashcart.yaml` here, else none."""
    if chosen is not None:
        return chosen
    if named := os.environ.get("CRASHCART_CONFIG"):
        return Path(named)
    return _DEFAULT if _DEFAULT.is_file() else None


def load_config(path: Path | None, *, host: str | None = None, port: int | None = None) -> Config:
    """The validated configuration; host and port of the command line go over it. ConfigError names every problem."""
    where = str(path) if path else "the environment"
    found = _read(path) if path else _File()
    config = None
    of_file = bool(found.problems)
    if not of_file:
        try:
            config = Config(**found.data)
        except ValidationError as error:
            found.problems += [(_place(one["loc"]), _said(one)) for one in error.errors()]
        except SettingsError as error:
            raise _no_json(error) from error
    if config is not None:
        listen = Listen(host or config.listen.host, config.listen.port if port is None else port)
        config = config.model_copy(update={"listen": listen})
        found.problems += _across(config)
    if config is None or found.problems:
        problems = tuple(_shown(found, place, text, of_file) for place, text in _in_order(found))
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        raise ConfigError(f"{where}: {count}", problems, mend="All keys: docs/configuration.md")
    return config


def _no_json(error: SettingsError) -> ConfigError:
    field = re.search(r'field "(\w+)"', str(error))
    begin = f"CRASHCART_{field[1].upper()}" if field else "CRASHCART_"
    names = ", ".join(sorted(name for name in os.environ if name.startswith(begin))) or begin
    return ConfigError(f"{names}: this is no JSON.", mend='A value with parts is written as JSON, a list like ["a"].')


def doubtful(config: Config) -> Iterator[str]:
    """What can be read but does not do what was meant, as far as it can be told without asking anybody."""
    url = config.slack.webhook_url
    host = urlsplit(url.get_secret_value()).hostname if url is not None else None
    if host is not None and not config.slack.allow_private_addresses and _is_private(host):
        yield (
            "slack.webhook_url lies on a private address, where nothing is sent to. For a relay of your own set "
            "slack.allow_private_addresses: true."
        )


def _is_private(host: str) -> bool:
    try:
        return not is_public(host)
    except ValueError:
        return host == "localhost"


# -- the file


def _read(path: Path) -> _File:
    try:
        if path.stat().st_size > _LARGEST:
            raise ConfigError(f"{path} is too large for a configuration.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path} can't be read: {error.strerror}.", mend="Give the configuration with --config FILE."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8.", mend="Save it as UTF-8.") from error
    found = _File()
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        data = _value(loader, root, (), found) if root is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{at}: no valid YAML: {error.problem}.", mend="Look at that line.") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: no valid YAML: {error}.") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: it is nested too deeply.") from error
    finally:
        loader.dispose()
    if not isinstance(data, dict) and not found.problems:
        raise ConfigError(f"{path}: keys are expected here, such as `servers:`.", mend="See docs/configuration.md")
    found.data = data if isinstance(data, dict) else {}
    return found


def _value(loader: yaml.SafeLoader, node: yaml.Node, place: Place, found: _File) -> Any:
    found.lines[place] = node.start_mark.line + 1
    if len(found.lines) > _MOST:
        raise ConfigError(f"Line {found.lines[place]}: too many values for a configuration.")
    if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTIONS:
        found.problems.append((place, f"the tag {node.tag} means nothing here. Remove it."))
        return None
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in values:
                found.problems.append(((*place, key), "stands there twice. Remove one."))
            value = _value(loader, value_node, (*place, key), found)
            found.lines[*place, key] = key_node.start_mark.line + 1
            # A key with nothing below it, as is left when the rest was commented out, means its default.
            if value is not None or place == ("servers",):
                values[key] = {} if value is None else value
        return values
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, one, (*place, number), found) for number, one in enumerate(node.value)]
    verbatim = len(place) > 3 and place[0] == "servers" and place[2] in _VERBATIM
    value = str(node.value) if verbatim else loader.construct_object(node, deep=True)
    return _expanded(value, place, found) if isinstance(value, str) else value


def _expanded(text: str, place: Place, found: _File) -> str:
    """`${NAME}` and `${NAME:-default}` from the environment; `$$` is one dollar."""

    def of(match: re.Match[str]) -> str:
        if match[1]:
            return "$"
        if match[2] is None:
            name = "begins no variable. Write ${NAME}, or $${ for the signs themselves."
            found.problems.append((place, f"{match[0]!r} {name}"))
            return ""
        value = os.environ.get(match[2]) or match[3]
        if value is None:
            text = f"the variable {match[2]} is not set. Set it, or write ${{{match[2]}:-}} for an empty value."
            found.problems.append((place, text))
        return value or ""

    return _VARIABLE.sub(of, text)


# -- problems


def _place(loc: tuple[str | int, ...]) -> Place:
    # What pydantic adds for the members of a union is no place of the file.
    return tuple(
        part for part in loc if not (isinstance(part, str) and part.startswith(("function-", "tuple[", "[key]")))
    )


def _said(error: Mapping[str, Any]) -> str:
    kind, loc, given = error["type"], _place(error["loc"]), error["input"]
    model = model_at(loc[:-1])
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(loc[-1]), list(model.model_fields) if model else (), n=1, cutoff=0.6)
        return f"there is no such key. Did you mean {near[0]}?" if near else "there is no such key. Remove it."
    if kind in ("enum", "literal_error"):
        value = getattr(given, "value", given)
        expected = re.sub(r"<\w+\.\w+: ('[^']*')>", r"\1", str(error["ctx"]["expected"]))
        return f"{value!r} is not possible here. Write one of {expected}."
    key = next((part for part in reversed(loc) if isinstance(part, str)), "")
    example = _EXAMPLES.get(key)
    if bound := _beyond(kind, error.get("ctx", {}), given, example):
        return bound
    for ending, (wanted, plain) in _WANTED.items():
        if kind.endswith(ending) or kind.startswith(ending):
            written = f"Write it like {example}." if example else plain
            return f"{wanted}. {written}" if isinstance(given, dict | list) else f"{given!r}: {wanted}. {written}"
    text = str(error["msg"]).removeprefix("Value error, ")
    return text if text.endswith((".", "!", ")")) else f"{text[:1].lower()}{text[1:]}."


# How the value of a key is written, where its type alone does not say it.
_EXAMPLES: dict[str, str] = {
    "allowed_hosts": "[gpu-1.example.org]",
    "body": "10MiB",
    "command": "[vllm, serve, /models/m]",
    "days": "90",
    "env": '{CUDA_VISIBLE_DEVICES: "0,1"}',
    "health": "http://127.0.0.1:30000/health",
    "limits": "{body: 10MiB}",
    "listen": "127.0.0.1:8321",
    "log_roots": "[/var/log/vllm]",
    "max_gib": "5",
    "max_relaunches": "5",
    "port": "30000",
    "preflight": "true",
    "public_url": "https://crashcart.example.org",
    "retention": "{days: 90, max_gib: 5}",
    "rules": "[/etc/crashcart/rules]",
    "server_log": "200MiB",
    "settle": "60s",
    "slack": '{webhook_url: "https://hooks.slack.com/services/…"}',
    "start": "true",
    "watch": "[/var/log/vllm/*.log]",
}
# By the beginning or the end of pydantic's word for what was wrong: what is wanted, and what to write.
_WANTED = {
    "url": ("this is no URL", "Write it like http://127.0.0.1:8000."),
    "dict_type": ("keys are expected here", "Write `name: value` lines below it, further in."),
    "model_type": ("keys are expected here", "Write `name: value` lines below it, further in."),
    "tuple_type": ("a list is expected here", "Write it in square brackets, with commas."),
    "int_": ("a whole number is expected here", "Write it like 5."),
    "float_": ("a number is expected here", "Write it like 2.5."),
    "bool_": ("yes or no is expected here", "Write true or false."),
    "string_": ("a text is expected here", "Write it in quotes."),
    "path_type": ("a path is expected here", "Write it in quotes."),
}


def _beyond(kind: str, bounds: Mapping[str, Any], given: object, example: str | None) -> str | None:
    """What is said of a number outside its bounds; a count of bytes is named as one."""
    sizes = example is not None and example.endswith("iB")
    for word, key in (("at least", "ge"), ("more than", "gt"), ("at most", "le"), ("less than", "lt")):
        if key in bounds and kind.startswith(("greater_than", "less_than")):
            bound = f"{bounds[key]:,} bytes. A size is written like {example}" if sizes else f"{bounds[key]:g}"
            return f"{given} is not possible here: it must be {word} {bound}."
    return None


def _in_order(found: _File) -> list[tuple[Place, str]]:
    return sorted(found.problems, key=lambda problem: _line(found, problem[0]) or 0)


def _line(found: _File, place: Place) -> int | None:
    return next((found.lines[place[:n]] for n in range(len(place), 0, -1) if place[:n] in found.lines), None)


def _shown(found: _File, place: Place, text: str, of_file: bool) -> str:
    line = _line(found, place)
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".") or "(all)"
    variable = "CRASHCART_" + "__".join(str(part).upper() for part in place)
    if variable in os.environ and not of_file:
        return f"{name} (from {variable}): {text}"
    return f"line {line}: {name}: {text}" if line else f"{name}: {text}"


def _across(config: Config) -> Iterator[tuple[Place, str]]:
    """What no single field can know."""
    if not config.listen.loopback and config.token is None:
        yield (
            ("listen",),
            f"{config.listen.host} can be reached from other machines, which demands a token. Add `token:`.",
        )
    if config.token is not None and len(config.token.get_secret_value()) < 16:
        yield ("token",), "a token of less than 16 characters can be guessed. `openssl rand -hex 32` makes one."
    for number, folder in enumerate(config.log_roots):
        if not folder.is_absolute():
            yield ("log_roots", number), f"{folder} is not absolute. Write its whole path."
    for name, server in config.servers.items():
        for place, text in _of_server(name, server, config):
            yield ("servers", name, *place), text


def _of_server(name: str, server: ServerConfig, config: Config) -> Iterator[tuple[Place, str]]:
    try:
        checked_name(name)
    except CrashcartError as error:
        yield (), f"{error} {error.mend}"
    if server.command is None and not server.watch:
        yield (), "neither `command` (to supervise it) nor `watch` (to follow its logs) is given. Add one."
    if server.command is not None and server.watch:
        yield ("watch",), "a supervised server's output is followed anyway. Leave out `watch` or `command`."
    if server.command is None:
        for key in ("env", "cwd"):
            if key in server.model_fields_set:
                yield (key,), "it belongs to a `command`, and this server has none. Remove it."
    if server.launch is not None and not server.launch.argv:
        yield ("command",), "it names no program."
    for number, pattern in enumerate(() if server.command else server.watch):
        if problem := _outside(pattern, config.log_roots):
            yield ("watch", number), problem


def _outside(pattern: str, roots: tuple[Path, ...]) -> str | None:
    """Why a log may not be read; None when it lies in one of the roots."""
    path = Path(pattern)
    if not path.is_absolute():
        return f"{pattern!r} is not absolute. Write its whole path."
    if path.is_dir():
        return f"{pattern} is a folder. Write which files: {path}/*.log"
    if ".." in path.parts:
        return f"{pattern} goes upwards. Write it without `..`."
    if any(path.is_relative_to(root) for root in roots):
        return None
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0] or "/"
    return f"{pattern} lies in none of log_roots. Add {fixed} to log_roots."
