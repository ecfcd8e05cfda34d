"""Where things stand in a launch command: assignments, wrappers, interpreter, program, and its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.core.vocabulary import Engine

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?(?:\.exe)?")
_SHELL_OPERATOR = re.compile(r"\|\|?|&&?|;|<|[0-9&]?>{1,2}(?:&[0-9]|[\w./~-]*)")

_MODULES: Mapping[str, Engine] = {
    "sglang.launch_server": Engine.SGLANG,
    "sglang.srt.server": Engine.SGLANG,
    "sglang.srt.entrypoints.http_server": Engine.SGLANG,
    "vllm.entrypoints.openai.api_server": Engine.VLLM,
    "vllm.entrypoints.api_server": Engine.VLLM,
    "tensorrt_llm.commands.serve": Engine.TENSORRT_LLM,
}
# A module or program that serves only with a subcommand; the subcommands are no arguments of the server.
_SUBCOMMANDS: Mapping[str, tuple[Engine, tuple[str, ...]]] = {
    "vllm": (Engine.VLLM, ("serve",)),
    "vllm.entrypoints.cli.main": (Engine.VLLM, ("serve",)),
    "sglang": (Engine.SGLANG, ("serve",)),
    "sglang.cli.main": (Engine.SGLANG, ("serve",)),
    "lmdeploy": (Engine.LMDEPLOY, ("serve", "api_server")),
    "ollama": (Engine.OLLAMA, ("serve",)),
}
_PROGRAMS: Mapping[str, Engine] = {
    "llama-server": Engine.LLAMACPP,
    "text-generation-launcher": Engine.TGI,
    "trtllm-serve": Engine.TENSORRT_LLM,
}
_IMAGES: Mapping[str, Engine] = {
    "vllm-openai": Engine.VLLM,
    "text-generation-inference": Engine.TGI,
    "llama.cpp": Engine.LLAMACPP,
}
_TAKES_MODEL_FIRST = {
    (Engine.VLLM, "serve"),
    (Engine.SGLANG, "serve"),
    (Engine.TENSORRT_LLM, ""),
    (Engine.LMDEPLOY, "api_server"),
}

# Programs that start the rest of the line: the options of each that take a value, and its own words before the command.
_WRAPPERS: Mapping[str, tuple[frozenset[str], int]] = {
    "nohup": (frozenset(), 0),
    "setsid": (frozenset(), 0),
    "exec": (frozenset({"-a"}), 0),
    "time": (frozenset({"-f", "-o"}), 0),
    "nice": (frozenset({"-n"}), 0),
    "ionice": (frozenset({"-c", "-n"}), 0),
    "chrt": (frozenset(), 1),
    "taskset": (frozenset(), 1),
    "numactl": (frozenset({"-m", "-N", "-C", "-i", "-p", "-l", "--membind", "--cpunodebind", "--physcpubind"}), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "timeout": (frozenset({"-k", "-s"}), 1),
    "sudo": (frozenset({"-u", "-g", "-C", "-h", "-p", "-D"}), 0),
    "tini": (frozenset({"-e", "-p"}), 0),
    "dumb-init": (frozenset({"-r"}), 0),
}
# Their own arguments can't all be known: the server is found by its name further on.
_RUNNERS = frozenset(
    {
        "uv",
        "uvx",
        "poetry",
        "pipenv",
        "pdm",
        "hatch",
        "pixi",
        "rye",
        "conda",
        "mamba",
        "micromamba",
        "srun",
        "mpirun",
        "mpiexec",
        "nsys",
        "ncu",
        "strace",
        "ltrace",
        "perf",
        "rocprof",
        "prlimit",
        "cgexec",
        "systemd-run",
        "singularity",
        "apptainer",
        "bwrap",
        "catchsegv",
        "ddtrace-run",
        "opentelemetry-instrument",
        "xvfb-run",
        "script",
        "unshare",
    }
)
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_CONTAINER_SWITCHES = frozenset(
    {
        "--detach",
        "--interactive",
        "--tty",
        "--rm",
        "--privileged",
        "--init",
        "--no-healthcheck",
        "--read-only",
        "--publish-all",
        "--sig-proxy",
        "--oom-kill-disable",
        "--quiet",
        "--disable-content-trust",
        "--replace",
        "--tls-verify",
        "--rmi",
    }
)
# What a server's own argument parser calls itself in `PROGRAM: error: ...`.
_SERVERS = frozenset(
    {*(module.rpartition(".")[2] for module in _MODULES), *_SUBCOMMANDS, *_PROGRAMS} - {"server", "serve"}
)


def is_server(program: str) -> bool:
    """Whether a program that names itself so is a server: `vllm serve`, `launch_server.py`."""
    words = (word.rpartition("/")[2].removesuffix(".py") for word in program.split())
    return any(word in _SERVERS or word.rpartition(".")[2] in _SERVERS for word in words)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One NAME=value: in which word it stands and what stands before it there (`--env=`)."""

    at: int
    name: str
    value: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """Indexes into the words of a command. `arguments` to `end` is what the server's own parser reads."""

    leading: int = 0  # so many assignments stand before the command
    assignments: tuple[Assignment, ...] = ()
    assign_at: int = 0  # a new assignment is put here,
    assign_with: tuple[str, ...] = ()  # after these words (`-e` of a container)
    interpreter: int | None = None
    module: str | None = None
    script: str | None = None
    program: int | None = None  # the word that names what is run: program, script or module
    arguments: int = 0
    end: int = 0
    engine: Engine | None = None
    positionals: int | None = None  # words without a flag that the program takes; None: not known
    hint: Engine | None = field(default=None, repr=False)  # the engine that a container image runs


def lay_out(words: Sequence[str]) -> Layout:
    """Finds the parts of a command. A command that is only arguments (`--model x`) is taken as that."""
    at, assignments = _assignments(words, 0)
    layout = Layout(leading=at, assignments=assignments, assign_at=at)
    while at < len(words):
        step = _unwrap(words, at, layout)
        if step is None:
            break
        layout, at = step
    layout = _program(words, at, layout)
    end = next((i for i in range(layout.arguments, len(words)) if is_shell_operator(words[i])), len(words))
    return replace(layout, end=end)


def is_shell_operator(word: str) -> bool:
    """`>`, `2>&1`, `| tee`, `&`: what a pasted line has behind the command itself."""
    return _SHELL_OPERATOR.fullmatch(word) is not None


def basename(word: str) -> str:
    """The last part of a path, in either system's spelling, without `.exe`."""
    return re.split(r"[/\\]", word)[-1].removesuffix(".exe")


def _assignments(words: Sequence[str], start: int) -> tuple[int, tuple[Assignment, ...]]:
    found = []
    at = start
    while at < len(words) and (match := _ASSIGNMENT.fullmatch(words[at])):
        found.append(Assignment(at, match[1], match[2]))
        at += 1
    return at, tuple(found)


def _unwrap(words: Sequence[str], at: int, layout: Layout) -> tuple[Layout, int] | None:
    """Steps over one wrapper; None when the program itself stands here."""
    name = basename(words[at])
    if name == "env":
        return _unwrap_env(words, at + 1, layout)
    if name in _CONTAINERS:
        return _unwrap_container(words, at + 1, layout)
    if name in _WRAPPERS:
        valued, own = _WRAPPERS[name]
        return layout, _skip_options(words, at + 1, valued) + own
    if name in _RUNNERS:
        later = next((i for i in range(at + 1, len(words)) if _starts_server(words, i)), None)
        return None if later is None else (layout, later)
    return None


def _skip_options(words: Sequence[str], at: int, valued: frozenset[str]) -> int:
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "--":
            return at + 1
        at += 2 if words[at] in valued else 1
    return at


def _unwrap_env(words: Sequence[str], at: int, layout: Layout) -> tuple[Layout, int]:
    at = _skip_options(words, at, frozenset({"-u", "-C", "--unset", "--chdir"}))
    at, found = _assignments(words, at)
    return replace(layout, assignments=layout.assignments + found, assign_at=at), at


def _unwrap_container(words: Sequence[str], at: int, layout: Layout) -> tuple[Layout, int] | None:
    """`docker run [options] image command ...`: the assignments of the server are the `-e` options."""
    while at < len(words) and words[at] in ("container", "run", "exec", "create"):
        at += 1
    found: list[Assignment] = []
    entrypoint: int | None = None
    while at < len(words) and words[at].startswith("-"):
        option, equals, inline = words[at].partition("=")
        if _is_switch(option):
            at += 1
            continue
        value_at = at if equals else at + 1
        value = inline if equals else (words[value_at] if value_at < len(words) else "")
        if option in ("-e", "--env") and (match := _ASSIGNMENT.fullmatch(value)):
            found.append(Assignment(value_at, match[1], match[2], f"{option}=" if equals else ""))
        if option == "--entrypoint":
            entrypoint = value_at
        at = value_at + 1
    if at >= len(words):
        return None
    image = basename(words[at]).partition(":")[0]
    hint = next((engine for name, engine in _IMAGES.items() if name in image), None)
    if entrypoint is not None:
        hint = _engine_of(basename(words[entrypoint]).removeprefix("--entrypoint="), (), "") or hint
    layout = replace(
        layout,
        assignments=layout.assignments + tuple(found),
        assign_at=at,
        assign_with=("-e",),
        hint=hint,
        program=at,
    )
    return layout, at + 1


def _is_switch(option: str) -> bool:
    return option in _CONTAINER_SWITCHES or re.fullmatch(r"-[ditPq]+", option) is not None


def _starts_server(words: Sequence[str], at: int) -> bool:
    name = basename(words[at])
    following = words[at + 1] if at + 1 < len(words) else ""
    if name in _SUBCOMMANDS:
        return following == _SUBCOMMANDS[name][1][0]
    return name in _PROGRAMS or _PYTHON.fullmatch(name) is not None


def _program(words: Sequence[str], at: int, layout: Layout) -> Layout:
    """Reads what stands behind the wrappers: an interpreter, a program, or already its arguments."""
    if at >= len(words) or words[at].startswith("-"):
        taken = 0 if layout.hint else None
        return replace(layout, arguments=min(at, len(words)), engine=layout.hint, positionals=taken)
    name = basename(words[at])
    if _PYTHON.fullmatch(name):
        return _python(words, at, layout)
    return _finish(words, at, name, replace(layout, program=at))


def _python(words: Sequence[str], interpreter: int, layout: Layout) -> Layout:
    layout = replace(layout, interpreter=interpreter)
    at = interpreter + 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        option = words[at]
        if option.startswith("--"):
            at += 1
        elif match := re.fullmatch(r"-[bBdEiIOPqsSuvx]*([mcXW])(.*)", option, re.DOTALL):
            value_at = at if match[2] else at + 1
            if match[1] == "m" and value_at < len(words):
                module = match[2] or words[value_at]
                return _finish(words, value_at, module, replace(layout, module=module, program=value_at))
            at = value_at + 1
            if match[1] == "c":
                return replace(layout, arguments=min(at, len(words)), program=min(at, len(words)) - 1)
        else:
            at += 1
    if at >= len(words):
        return replace(layout, arguments=len(words), program=interpreter)
    script = words[at]
    return _finish(words, at, _as_module(script), replace(layout, script=script, program=at))


def _as_module(script: str) -> str:
    """`/usr/bin/vllm` → `vllm`; `.../sglang/launch_server.py` → `sglang.launch_server`."""
    dotted = re.sub(r"[/\\]", ".", script.removesuffix(".py"))
    known = (name for name in (*_MODULES, *_SUBCOMMANDS) if "." in name and dotted.endswith("." + name))
    return next(known, basename(script))


def _finish(words: Sequence[str], program: int, name: str, layout: Layout) -> Layout:
    """Sets engine and the start of the arguments, behind the subcommands."""
    at = program + 1
    engine = _engine_of(name, words, words[at] if at < len(words) else "")
    last = ""
    if engine is not None and name in _SUBCOMMANDS:
        for subcommand in _SUBCOMMANDS[name][1]:
            if at < len(words) and words[at] == subcommand:
                last, at = subcommand, at + 1
    elif engine is Engine.TENSORRT_LLM and at < len(words) and words[at] == "serve":
        at += 1
    positionals = None if engine is None else int((engine, last) in _TAKES_MODEL_FIRST)
    return replace(layout, arguments=at, engine=engine, positionals=positionals)


def _engine_of(name: str, words: Sequence[str], following: str) -> Engine | None:
    if name in _SUBCOMMANDS:
        engine, subcommands = _SUBCOMMANDS[name]
        return engine if following == subcommands[0] or not words else None
    return _MODULES.get(name) or _PROGRAMS.get(name)
