"""The launch command as the log tells it, where nobody gave it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping

from app.core.command import Command
from app.core.errors import CommandError
from app.core.model import Line
from app.core.redact import redact_words

SGLANG_OBJECT = r"^server_args=ServerArgs\((?P<sglang_object>.*)"
SGLANG_DICT = r"^server_args=\{(?P<sglang_dict>.*)"
VLLM_CHANGED = r"^(?:.{0,40}\s)?non-default args: \{(?P<vllm_changed>.*)"
VLLM_NAMESPACE = r"^(?:.{0,40}\s)?args: Namespace\((?P<vllm_namespace>.*)"
SHELL_ECHO = r"^\+ (?:exec )?(?P<shell_echo>\S.*)"
PATTERNS = (SGLANG_OBJECT, SGLANG_DICT, VLLM_CHANGED, VLLM_NAMESPACE, SHELL_ECHO)

_LONGEST = 64 * 1024  # a dump is 5 to 9 kB
_DEEPEST = 20  # brackets within brackets

# What is worth having of a dump that holds every setting: name → value that need not be said. The engines fill in
# many settings themselves before they print; those that they always compute (batch sizes, back ends, seeds)
# are left out, because nobody typed them.
_SGLANG: Mapping[str, object] = {
    "model_path": None, "tokenizer_path": None, "host": "127.0.0.1", "port": 30000, "device": "cuda",
    "tp_size": 1, "dp_size": 1, "pp_size": 1, "ep_size": 1, "nnodes": 1, "node_rank": 0, "dist_init_addr": None,
    "dtype": "auto", "quantization": None, "kv_cache_dtype": "auto", "load_format": "auto", "context_length": None,
    "trust_remote_code": False, "served_model_name": None, "chat_template": None, "tool_call_parser": None,
    "reasoning_parser": None, "mem_fraction_static": None, "max_running_requests": None, "max_total_tokens": None,
    "speculative_algorithm": None, "speculative_draft_model_path": None, "speculative_num_steps": None,
    "speculative_eagle_topk": None, "speculative_num_draft_tokens": None, "disable_cuda_graph": False,
    "disable_radix_cache": False, "enable_dp_attention": False, "enable_mixed_chunk": False,
    "enable_torch_compile": False, "enable_hierarchical_cache": False, "disaggregation_mode": "null",
    "is_embedding": False, "enable_multimodal": None, "skip_tokenizer_init": False, "api_key": None,
}  # fmt: skip
_VLLM: Mapping[str, object] = {
    "model": "facebook/opt-125m", "host": None, "port": 8000, "api_key": None, "tokenizer": None, "dtype": "auto",
    "tensor_parallel_size": 1, "pipeline_parallel_size": 1, "data_parallel_size": 1, "max_model_len": None,
    "gpu_memory_utilization": 0.9, "max_num_seqs": None, "max_num_batched_tokens": None, "quantization": None,
    "kv_cache_dtype": "auto", "load_format": "auto", "trust_remote_code": False, "served_model_name": None,
    "enforce_eager": False, "chat_template": None, "tool_call_parser": None, "enable_auto_tool_choice": False,
    "reasoning_parser": None, "enable_prefix_caching": None, "enable_chunked_prefill": None, "swap_space": 4,
    "cpu_offload_gb": 0, "speculative_config": None, "enable_lora": False,
}  # fmt: skip
_SAME_AS_MODEL = ("tokenizer_path", "served_model_name", "tokenizer")


def rebuild(lines: Iterable[tuple[str, Line]]) -> tuple[Command, Line] | None:
    """The last launch command that the lines show, with the line that shows it; secrets are redacted.

    `lines` are pairs of one of `PATTERNS` and a line on which it held.
    """
    found: tuple[Command, Line] | None = None
    for pattern, line in lines:
        words = _words(pattern, line.body[:_LONGEST])
        if words is not None and (found is None or line.number >= found[1].number):
            found = Command.parse(redact_words(words)), line
    return found


def setting_names(lines: Iterable[tuple[str, Line]]) -> frozenset[str]:
    """The names of all settings that a dump shows: they tell an engine's version apart from others."""
    names: set[str] = set()
    for pattern, line in lines:
        mark = {SGLANG_OBJECT: ("ServerArgs(", "="), SGLANG_DICT: ("server_args={", ":")}.get(pattern)
        if mark is not None:
            items = _split(line.body[:_LONGEST].partition(mark[0])[2])
            names |= {item.partition(mark[1])[0].strip().strip("'\"") for item in items}
    return frozenset(name for name in names if name.isidentifier())


def _words(pattern: str, body: str) -> list[str] | None:
    if pattern == SGLANG_OBJECT:
        return _sglang(dict(_pairs(body.partition("ServerArgs(")[2], "=")))
    if pattern == SGLANG_DICT:
        return _sglang(dict(_pairs(body.partition("server_args={")[2], ":")))
    if pattern == VLLM_CHANGED:
        return _vllm(dict(_pairs(body.partition("non-default args: {")[2], ":")))
    if pattern == VLLM_NAMESPACE:
        settings = dict(_pairs(body.partition("Namespace(")[2], "="))
        essential = {name: settings[name] for name in _VLLM if settings.get(name, _VLLM[name]) != _VLLM[name]}
        return _vllm({"model_tag": settings.get("model_tag"), **essential})
    return _echoed(body)


def _echoed(body: str) -> list[str] | None:
    """What `set -x` printed, where it starts a known engine."""
    text = body.removeprefix("+ ").removeprefix("exec ")
    try:
        command = Command.from_string(text)
    except CommandError:
        return None
    return list(command.words()) if command.engine is not None else None


def _sglang(settings: Mapping[str, object]) -> list[str] | None:
    model = settings.get("model_path")
    if not isinstance(model, str):
        return None
    said = {name: settings[name] for name, default in _SGLANG.items() if settings.get(name, default) != default}
    said = {name: value for name, value in said.items() if not (name in _SAME_AS_MODEL and value == model)}
    return ["python3", "-m", "sglang.launch_server", *_flags(said)]


def _vllm(settings: Mapping[str, object]) -> list[str] | None:
    said = {name: value for name, value in settings.items() if value is not None}
    tag = said.pop("model_tag", None)
    model = said.pop("model", None)
    target = model if isinstance(model, str) else tag
    if not isinstance(target, str):
        return None
    said = {name: value for name, value in said.items() if not (name in _SAME_AS_MODEL and value in (target, [target]))}
    return ["vllm", "serve", target, *_flags(said)]


def _flags(settings: Mapping[str, object]) -> Iterator[str]:
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            yield flag
        elif value is False:
            yield f"--no-{name.replace('_', '-')}"
        elif isinstance(value, dict):
            yield flag
            yield json.dumps(value)
        elif isinstance(value, (list, tuple)):
            if value and all(isinstance(item, (str, int, float)) for item in value):
                yield flag
                yield from (str(item) for item in value)
        elif isinstance(value, (str, int, float)):
            yield flag
            yield str(value)


def _pairs(text: str, separator: str) -> Iterator[tuple[str, object]]:
    """Reads `name=literal, …` or `'name': literal, …` up to the closing bracket; what is no literal is left out."""
    for item in _split(text):
        name, found, value = item.partition(separator)
        if not found or len(name) > 100:
            continue
        try:
            yield name.strip().strip("'\""), ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue  # an object's repr: nobody types those


def _split(text: str) -> Iterator[str]:
    """Cuts at the commas outside quotes and brackets, until the bracket that encloses the text closes."""
    begin = depth = 0
    quote = ""
    escaped = False
    for at, char in enumerate(text):
        if quote:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
            if depth > _DEEPEST:
                return
        elif char in ")]}":
            if depth == 0:
                yield text[begin:at]
                return
            depth -= 1
        elif char == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
