"""A tiny random Llama that SGLang and vLLM serve on a CPU, written with the standard library alone."""

from __future__ import annotations

import json
import random
import struct
from array import array
from pathlib import Path
from typing import Any

_VOCABULARY, _HIDDEN, _HEADS = 320, 64, 2
_SPECIALS = ("<unk>", "<s>", "</s>")
_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def write_model(folder: Path, *, shards: int = 1, layers: int = 2, max_positions: int = 512) -> Path:
    """Writes config, tokenizer and weights (half a megabyte with two layers) and returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", _config(layers, max_positions))
    _write(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2})
    _write(folder / "tokenizer.json", _tokenizer())
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "model_max_length": max_positions,
            "chat_template": _TEMPLATE,
        },
    )
    _write_weights(folder, _shapes(layers), shards)
    return folder


def truncate_last_shard(folder: Path) -> Path:
    """Cuts the last weights file in half, as an interrupted download leaves it."""
    last = max(folder.glob("*.safetensors"))
    content = last.read_bytes()
    last.write_bytes(content[: len(content) // 2])
    return last


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1))


def _config(layers: int, max_positions: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": _HIDDEN,
        "intermediate_size": _HIDDEN * 2,
        "num_hidden_layers": layers,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS,
        "head_dim": _HIDDEN // _HEADS,
        "vocab_size": _VOCABULARY,
        "max_position_embeddings": max_positions,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "attention_bias": False,
        "mlp_bias": False,
    }


def _byte_alphabet() -> list[str]:
    """The 256 printable characters that byte-level BPE writes bytes as."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = len([byte for byte in range(256) if byte not in printable])
    return sorted([chr(code) for code in printable] + [chr(256 + index) for index in range(others)])


def _tokenizer() -> dict[str, Any]:
    """Byte-level BPE without merges: one token a byte."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, "content": word, **special} for index, word in enumerate(_SPECIALS)],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {word: index for index, word in enumerate([*_SPECIALS, *_byte_alphabet()])},
            "merges": [],
        },
    }


def _shapes(layers: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (_VOCABULARY, _HIDDEN),
        "model.norm.weight": (_HIDDEN,),
        "lm_head.weight": (_VOCABULARY, _HIDDEN),
    }
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        shapes |= {f"{prefix}self_attn.{name}_proj.weight": (_HIDDEN, _HIDDEN) for name in "qkvo"}
        shapes |= {
            f"{prefix}mlp.gate_proj.weight": (2 * _HIDDEN, _HIDDEN),
            f"{prefix}mlp.up_proj.weight": (2 * _HIDDEN, _HIDDEN),
            f"{prefix}mlp.down_proj.weight": (_HIDDEN, 2 * _HIDDEN),
            f"{prefix}input_layernorm.weight": (_HIDDEN,),
            f"{prefix}post_attention_layernorm.weight": (_HIDDEN,),
        }
    return shapes


def _write_weights(folder: Path, shapes: dict[str, tuple[int, ...]], shards: int) -> None:
    names = list(shapes)
    weights = random.Random(0)  # the same model every time
    if shards == 1:
        _write_safetensors(folder / "model.safetensors", shapes, weights)
        return
    where: dict[str, str] = {}
    for index in range(shards):
        file = f"model-{index + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: shapes[name] for name in names[index::shards]}
        _write_safetensors(folder / file, part, weights)
        where |= dict.fromkeys(part, file)
    _write(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": where})


def _write_safetensors(path: Path, shapes: dict[str, tuple[int, ...]], weights: random.Random) -> None:
    """The format: length of the header, a JSON header that names each tensor's place, the tensors' bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = bytearray()
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        data = array("f", [1.0] * count if "norm" in name else (weights.gauss(0, 0.05) for _ in range(count)))
        raw = data.tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
