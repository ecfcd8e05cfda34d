"""What a model's own folder says before a server spends ten minutes on it: sizes, quantization, missing files.

Only small files are read, and nothing in them is believed further than its type: a model folder comes from strangers.
Shapes: `config.json` of transformers, `*.safetensors.index.json` of safetensors, quantization files of AutoAWQ and
AutoGPTQ, and the pointer files that a clone without Git LFS leaves in place of weights.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_LARGEST_JSON = 64 * 1024 * 1024
_POINTER = b"version https://git-lfs"
_MOST_NAMED = 3
# Where a model with several parts keeps what its language model is.
_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")
_FAMILIES = ("awq", "gptq", "fp8", "bitsandbytes")
_QUANTIZATION_FILES = ("quant_config.json", "quantize_config.json", "hf_quant_config.json")


def model_facts(folder: Path) -> dict[str, object]:
    """Facts about a model folder, as probes of rules name them; empty where there is no model.

    `model_heads`, `model_tp_sizes` (the sizes that divide the heads), `model_positions` (tokens, the most that the
    configuration allows), `model_quantization` (a family, or `none`), `model_files_missing`, `model_pointer_files`.
    """
    config = _object(folder / "config.json")
    if config is None:
        return {}
    language = next((part for name in _PARTS if isinstance(part := config.get(name), dict)), config)
    facts: dict[str, object | None] = {
        "model_positions": _positions(language),
        "model_quantization": _quantization(config, folder),
        "model_files_missing": list(_missing(folder)) or None,
        "model_pointer_files": list(_pointers(folder)) or None,
    }
    heads = _first_number(language, _HEADS)
    if heads:
        facts |= {"model_heads": heads, "model_tp_sizes": [size for size in range(1, 129) if heads % size == 0]}
    return {name: value for name, value in facts.items() if value is not None}


def _object(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _LARGEST_JSON:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _first_number(config: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    found = (config.get(name) for name in names)
    return next((one for one in found if isinstance(one, int) and not isinstance(one, bool) and one > 0), None)


def _positions(config: Mapping[str, Any]) -> int | None:
    """The most tokens that any reading of the configuration allows: engines differ in how they count stretching."""
    positions = [one for name in _POSITIONS if (one := _first_number(config, (name,)))]
    if not positions:
        return None
    longest = max(positions)
    scaling = config.get("rope_scaling") or config.get("rope_parameters")
    if not isinstance(scaling, dict):
        return longest
    factor = scaling.get("factor")
    original = _first_number(scaling, ("original_max_position_embeddings",)) or longest
    stretched = max(longest, original) * factor if isinstance(factor, int | float) and factor > 1 else longest
    return int(max(longest, stretched))


def _quantization(config: Mapping[str, Any], folder: Path) -> str | None:
    """The checkpoint's family of quantization; `none` where nothing says one; None where it is another."""
    described = config.get("quantization_config") or config.get("compression_config")
    if described is None:
        return None if any((folder / name).is_file() for name in _QUANTIZATION_FILES) else "none"
    method = str(described.get("quant_method", "")).lower() if isinstance(described, dict) else ""
    return method if method in _FAMILIES else None


def _missing(folder: Path) -> Iterator[str]:
    """Weight files that an index names and that are not there; the first few."""
    wanted: dict[str, None] = {}
    for index in sorted(folder.glob("*.safetensors.index.json")):
        weights = (_object(index) or {}).get("weight_map")
        if isinstance(weights, dict):
            wanted |= dict.fromkeys(name for name in weights.values() if isinstance(name, str))
    if any(folder.glob("*.bin")) or any(folder.glob("*.gguf")):
        return  # other weights may be read instead
    absent = [name for name in wanted if "/" not in name and not (folder / name).is_file()]
    yield from absent[:_MOST_NAMED]


def _pointers(folder: Path) -> Iterator[str]:
    """Weight files that are pointers left by a clone without Git LFS; the first few."""
    found = 0
    for path in sorted(folder.glob("*.safetensors")):
        if found < _MOST_NAMED and _is_pointer(path):
            found += 1
            yield path.name


def _is_pointer(path: Path) -> bool:
    try:
        if path.stat().st_size > 1024:
            return False
        with path.open("rb") as file:
            return file.read(len(_POINTER)) == _POINTER
    except OSError:
        return False
