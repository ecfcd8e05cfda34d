"""Names for the same thing across engines and versions, as data, and the one question asked of them.

`_SAME` rows: one thing, the flag of each engine, value and effect the same. `_NEAR` rows: the same purpose, but the
number means something else. `_VERSIONS`: what later versions of one engine call it. A target counts only when the
catalogue at hand has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.core.catalogue import FlagCatalogue
from app.core.vocabulary import Engine


@dataclass(frozen=True, slots=True)
class Equivalent:
    """What stands for a flag in another engine or version.

    `flag` is None where nothing does; `drop` then says that the program does the thing anyway. `same_meaning`: value
    and effect stay the same. `fold`: the value belongs under this key of the JSON flag `flag`.
    """

    flag: str | None
    same_meaning: bool = True
    note: str = ""
    fold: str | None = None
    drop: bool = False


_S, _V, _L = Engine.SGLANG, Engine.VLLM, Engine.LLAMACPP
_T, _N, _D = Engine.TGI, Engine.TENSORRT_LLM, Engine.LMDEPLOY

# The first name of an engine is the one to offer; `--flag.key` is a key of a JSON flag.
_SAME: tuple[Mapping[Engine, tuple[str, ...]], ...] = (
    {_S: ("--model-path", "--model"), _V: ("--model",), _T: ("--model-id",), _N: ("--model",)},
    {
        _S: ("--context-length",),
        _V: ("--max-model-len",),
        _L: ("--ctx-size",),
        _N: ("--max_seq_len",),
        _D: ("--session-len",),
    },
    {
        _S: ("--max-running-requests",),
        _V: ("--max-num-seqs",),
        _N: ("--max_batch_size",),
        _D: ("--max-batch-size",),
    },
    {
        _S: ("--tp-size", "--tensor-parallel-size", "--tp"),
        _V: ("--tensor-parallel-size",),
        _T: ("--num-shard",),
        _N: ("--tp_size",),
        _D: ("--tp",),
    },
    {_S: ("--pp-size", "--pipeline-parallel-size"), _V: ("--pipeline-parallel-size",), _N: ("--pp_size",)},
    {_S: ("--dp-size", "--data-parallel-size"), _V: ("--data-parallel-size",), _D: ("--dp",)},
    {_S: ("--disable-cuda-graph",), _V: ("--enforce-eager",), _D: ("--eager-mode",)},
    {_S: ("--disable-radix-cache",), _V: ("--no-enable-prefix-caching", "--disable-prefix-caching")},
    {_S: ("--tokenizer-path",), _V: ("--tokenizer",), _N: ("--tokenizer",)},
    {_S: ("--random-seed",), _V: ("--seed",), _L: ("--seed",)},
    {_S: ("--served-model-name",), _V: ("--served-model-name",), _L: ("--alias",), _D: ("--model-name",)},
    {_S: ("--quantization",), _V: ("--quantization",), _T: ("--quantize",)},
    {_S: ("--json-model-override-args",), _V: ("--hf-overrides",)},
    {_S: ("--log-requests",), _V: ("--enable-log-requests",)},
    {_S: ("--log-level-http",), _V: ("--uvicorn-log-level",)},
    {_S: ("--lora-paths",), _V: ("--lora-modules",)},
    {_S: ("--max-loras-per-batch",), _V: ("--max-loras",)},
    {_S: ("--cuda-graph-bs", "--cuda-graph-bs-decode"), _V: ("--cudagraph-capture-sizes", "--cuda-graph-sizes")},
    {
        _S: ("--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"),
        _V: ("--max-cudagraph-capture-size",),
    },
    {
        _S: ("--speculative-num-draft-tokens",),
        _V: ("--speculative-config.num_speculative_tokens", "--num-speculative-tokens", "--spec-tokens"),
        _L: ("--spec-draft-n-max", "--draft-max", "--draft-n", "--draft"),
    },
    {
        _S: ("--speculative-draft-model-path",),
        _V: ("--speculative-config.model", "--speculative-model", "--spec-model"),
    },
    {_S: ("--host",), _V: ("--host",), _L: ("--host",), _T: ("--hostname",), _D: ("--server-name",)},
    {_S: ("--port",), _V: ("--port",), _L: ("--port",), _T: ("--port",), _D: ("--server-port",)},
    {_S: ("--api-key",), _V: ("--api-key",), _L: ("--api-key",), _D: ("--api-keys",)},
)

_NEAR: tuple[tuple[str, Mapping[Engine, tuple[str, ...]]], ...] = (
    (
        "the fractions are not of the same memory, so the number may have to change",
        {
            _S: ("--mem-fraction-static",),
            _V: ("--gpu-memory-utilization",),
            _T: ("--cuda-memory-fraction",),
            _N: ("--kv_cache_free_gpu_memory_fraction",),
            _D: ("--cache-max-entry-count",),
        },
    ),
    (
        "one bounds the tokens of a whole step, the other those of a prefill chunk",
        {_S: ("--chunked-prefill-size",), _V: ("--max-num-batched-tokens",), _N: ("--max_num_tokens",)},
    ),
    (
        "llama-server divides its context among that many slots",
        {_S: ("--max-running-requests",), _V: ("--max-num-seqs",), _L: ("--parallel",)},
    ),
    ("llama-server wants a GGUF file", {_S: ("--model-path",), _V: ("--model",), _L: ("--model",)}),
    ("llama-server wants a GGUF file", {_S: ("--speculative-draft-model-path",), _L: ("--model-draft",)}),
    ("the policies have other names", {_S: ("--schedule-policy",), _V: ("--scheduling-policy",)}),
    ("page sizes depend on the attention backend", {_S: ("--page-size",), _V: ("--block-size",)}),
    ("the backends have other names", {_S: ("--grammar-backend",), _V: ("--guided-decoding-backend",)}),
    ("the level applies to other loggers", {_S: ("--log-level",), _V: ("--uvicorn-log-level",)}),
    ("it is counted another way", {_S: ("--limit-mm-data-per-request",), _V: ("--limit-mm-per-prompt",)}),
)


def _done(note: str) -> Equivalent:
    return Equivalent(None, note=note, drop=True)


def _none(note: str) -> Equivalent:
    return Equivalent(None, same_meaning=False, note=note)


def _folded(target: str, key: str) -> Equivalent:
    return Equivalent(target, note=f"it became {key} in {target}", fold=key)


def _renamed(target: str) -> Equivalent:
    return Equivalent(target, note=f"later versions call it {target}")


# What one engine's later (or earlier) versions call its own flag, or do without it; alternatives in order.
_VERSIONS: Mapping[Engine, Mapping[str, tuple[Equivalent, ...]]] = {
    _S: {
        "--cuda-graph-max-bs": (_renamed("--cuda-graph-max-bs-decode"),),
        "--cuda-graph-max-bs-decode": (Equivalent("--cuda-graph-max-bs", note="this version has one name for both"),),
        "--cuda-graph-bs": (_renamed("--cuda-graph-bs-decode"),),
        "--cuda-graph-bs-decode": (Equivalent("--cuda-graph-bs", note="this version has one name for both"),),
        "--nsa-prefill-backend": (_renamed("--dsa-prefill-backend"),),
        "--nsa-decode-backend": (_renamed("--dsa-decode-backend"),),
        "--dsa-prefill-backend": (Equivalent("--nsa-prefill-backend", note="this version still calls it so"),),
        "--dsa-decode-backend": (Equivalent("--nsa-decode-backend", note="this version still calls it so"),),
        "--enable-nsa-prefill-context-parallel": (_renamed("--enable-prefill-cp"),),
        "--mamba-scheduler-strategy": (_renamed("--mamba-radix-cache-strategy"),),
        "--mamba-radix-cache-strategy": (
            Equivalent("--mamba-scheduler-strategy", note="this version still calls it so"),
        ),
        "--stream-output": (_renamed("--incremental-streaming-output"),),
        "--incremental-streaming-output": (Equivalent("--stream-output", note="this version still calls it so"),),
        "--enable-piecewise-cuda-graph": (
            _none("--cuda-graph-backend-prefill and its kin took its place, with values of their own"),
        ),
    },
    _V: {
        "--num-speculative-tokens": (_folded("--speculative-config", "num_speculative_tokens"),),
        "--speculative-model": (_folded("--speculative-config", "model"),),
        "--speculative-draft-tensor-parallel-size": (_folded("--speculative-config", "draft_tensor_parallel_size"),),
        "--speculative-max-model-len": (_folded("--speculative-config", "max_model_len"),),
        "--ngram-prompt-lookup-max": (_folded("--speculative-config", "prompt_lookup_max"),),
        "--ngram-prompt-lookup-min": (_folded("--speculative-config", "prompt_lookup_min"),),
        "--guided-decoding-backend": (_folded("--structured-outputs-config", "backend"),),
        "--override-pooler-config": (_renamed("--pooler-config"),),
        "--cuda-graph-sizes": (_renamed("--cudagraph-capture-sizes"),),
        "--disable-log-requests": (_done("requests are not logged unless --enable-log-requests asks for it"),),
        "--use-v2-block-manager": (_done("the newer block manager is the only one"),),
        "--enable-reasoning": (_done("--reasoning-parser alone turns it on"),),
        "--swap-space": (_none("preempted requests are computed again, nothing is swapped out"),),
    },
    _L: {
        **dict.fromkeys(("--draft", "--draft-n", "--draft-max"), (_renamed("--spec-draft-n-max"),)),
        **dict.fromkeys(("--draft-min", "--draft-n-min"), (_renamed("--spec-draft-n-min"),)),
        "--spec-draft-n-max": (Equivalent("--draft-max", note="this version still calls it so"),),
        "--spec-draft-n-min": (Equivalent("--draft-min", note="this version still calls it so"),),
    },
}

# What an engine does anyway, so that another engine's flag for it can go; or has nothing for.
_WITHOUT: Mapping[Engine, Mapping[str, Equivalent]] = {
    _S: {
        "--enable-reasoning": _done("--reasoning-parser alone turns it on"),
        "--enable-auto-tool-choice": _done("--tool-call-parser alone turns it on"),
        "--enable-prefix-caching": _done("prefixes are cached unless --disable-radix-cache forbids it"),
        "--enable-chunked-prefill": _done("prefills are chunked unless --chunked-prefill-size -1 forbids it"),
        "--disable-log-requests": _done("requests are not logged unless --log-requests asks for it"),
        "--use-v2-block-manager": _none("there is no block manager to choose"),
        "--swap-space": _none("nothing is swapped out"),
        "--ngram-prompt-lookup-max": _none("its n-gram speculation has other settings"),
        "--ngram-prompt-lookup-min": _none("its n-gram speculation has other settings"),
        "--n-gpu-layers": _none("all layers are on the GPU"),
    },
    _V: {
        "--enable-metrics": _done("metrics are always served"),
        "--disable-overlap-schedule": _none("its scheduler has --no-async-scheduling, which is not the same"),
        "--speculative-algorithm": _none("the method belongs into --speculative-config, with a name of its own"),
        "--speculative-num-steps": _none("the number of draft tokens decides it"),
        "--speculative-eagle-topk": _none("drafts are chains, not trees"),
    },
    _L: {
        "--trust-remote-code": _done("a GGUF file brings no code"),
        "--tensor-parallel-size": _none("--split-mode and --tensor-split divide the model"),
        "--tp-size": _none("--split-mode and --tensor-split divide the model"),
        "--gpu-memory-utilization": _none("--n-gpu-layers says what goes to the GPU"),
        "--mem-fraction-static": _none("--n-gpu-layers says what goes to the GPU"),
    },
}


def equivalent(flag: str, to: Engine, catalogue: FlagCatalogue | None = None) -> Equivalent | None:
    """What `flag`, which engine `to` refuses, is called there; None when nothing is known about it.

    With a catalogue only flags that it has are offered, and a flag that it has already needs no other.
    """
    name = flag.partition("=")[0].replace("_", "-") if flag.startswith("--") else flag
    if catalogue is not None and catalogue.resolve(flag).kind == "exact":
        return None
    return next((found for found in _candidates(name, to) if _usable(found, catalogue)), None)


def _candidates(name: str, to: Engine) -> Iterator[Equivalent]:
    """Everything known, best first: this engine's own history, the same elsewhere, what it does anyway, the near."""
    yield from _VERSIONS.get(to, {}).get(name, ())
    for row in _SAME:
        if _names_it(row, name, to):
            for target in row.get(to, ()):
                yield _to_target(target, name)
    if name in _WITHOUT.get(to, {}):
        yield _WITHOUT[to][name]
    for note, row in _NEAR:
        if _names_it(row, name, to):
            for target in row.get(to, ()):
                yield Equivalent(target, same_meaning=False, note=f"{target} is near to it: {note}")


def _names_it(row: Mapping[Engine, tuple[str, ...]], name: str, to: Engine) -> bool:
    """Whether the row is about this flag; an older name in the target's own list counts too."""
    if to not in row:
        return False
    return any(name == known.replace("_", "-") for names in row.values() for known in names)


def _to_target(target: str, name: str) -> Equivalent:
    json_flag, dot, key = target.partition(".")
    note = f"{name} is another engine's name for it"
    return Equivalent(json_flag, note=note, fold=key) if dot else Equivalent(target, note=note)


def _usable(found: Equivalent, catalogue: FlagCatalogue | None) -> bool:
    return found.flag is None or catalogue is None or catalogue.resolve(found.flag).kind == "exact"
