"""What the place of a failure tells of its kind, where neither a rule nor its words do.

Engines keep grammar, speculation, images and transfer in folders of their own: an exception that was raised there is a
failure of that part, whatever it says. It is no more than a kind: no fix follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.core.model import Frame, Raised
from app.core.vocabulary import Category, Phase

_INNERMOST = 8  # frames: what lies further out only called it

# Mistakes of a program in itself: their words ("out of range", "unexpected keyword") are about code, not about causes.
_SLIPS = frozenset(("AttributeError", "IndexError", "NameError", "TypeError", "UnboundLocalError", "ZeroDivisionError"))

# What can only fail before a server is ready: its arguments and its model were accepted by then.
ONLY_BEFORE_READY = frozenset(
    (
        Category.CONFIG_FILE_ERROR,
        Category.GATED_MODEL,
        Category.INCOMPATIBLE_ARGUMENTS,
        Category.INVALID_ARGUMENT_VALUE,
        Category.MISSING_ARGUMENT,
        Category.MODEL_NOT_FOUND,
        Category.QUANTIZATION_UNSUPPORTED,
        Category.UNSUPPORTED_ARCHITECTURE,
        Category.WEIGHTS_MISMATCH,
    )
)

_PARTS: tuple[tuple[Category, str], ...] = (
    (Category.GRAMMAR_BACKEND_CRASH, r"/constrained/|structured_output|guided_decoding|xgrammar|llguidance|/outlines"),
    (Category.SPECULATIVE_DECODING_CRASH, r"/speculative/|spec_decode|/eagle\w*\.py"),
    (Category.DISAGGREGATION_FAILURE, r"/disaggregation/|mooncake|/nixl|kv_transfer|kv_connector"),
    (
        Category.MULTIMODAL_PROCESSING,
        r"/multimodal/|/mm_utils|/image_process|/feature_extraction_|/(?:image|video|audio)_utils|_vl\.py|_vision\.py",
    ),
)
_LOADING: tuple[tuple[Category, str], ...] = (
    (Category.WEIGHTS_MISMATCH, r"/model_loader/|/weight_utils|\bload_weights?$|\bweight_loader$"),
    (Category.QUANTIZATION_UNSUPPORTED, r"/quantization/"),
    (
        Category.KERNEL_COMPILE_FAILURE,
        r"/torch/_inductor/|/triton/(?:compiler|backends|runtime)/|/flashinfer/jit|deep_gemm",
    ),
)
_LOOP = re.compile(r"/scheduler\.py|/model_runner\.py|/tp_worker\.py|/engine/core\.py|gpu_model_runner|event_loop")


def is_slip(raised: Raised | None) -> bool:
    """Whether the exception is a mistake of the program in itself, whose words tell no kind."""
    return raised is not None and raised.name in _SLIPS


def kind_by_place(raised: Raised | None, phase: Phase) -> Category | None:
    """The kind of a failure by where it was raised; None where that tells nothing."""
    if raised is None or not raised.frames:
        return None
    places = [_place(frame) for frame in reversed(raised.frames[-_INNERMOST:])]
    kinds = _PARTS if phase is Phase.READY else (*_PARTS, *_LOADING)
    found = next((kind for place in places for kind, words in kinds if re.search(words, place)), None)
    if found is None and phase is Phase.READY and _runs_the_loop(raised.frames):
        return Category.SCHEDULER_CRASH
    return found


def _runs_the_loop(frames: Sequence[Frame]) -> bool:
    return any(_LOOP.search(_place(frame)) for frame in frames)


def _place(frame: Frame) -> str:
    return f"{frame.file} {frame.function}"
