"""Pieces of patterns that many rules share, each by a name: `(?#name)` in a pattern stands for one.

They say what programs put before an error that they pass on, so that a rule holds whoever reports it. To Python's
`re` such a piece is a comment: a pattern reads the same with the pieces left out.
"""

from __future__ import annotations

import re

_RAISED = "|".join(
    (
        r"[\w.]+(?:Error|Exception): ",
        r"\s*what\(\):\s+",
        r"\S+\.(?:cu|cuh|cpp|cc|hpp|h):\d+: ",
        r"\[TM\]\[ERROR\] ?",
        r"\[TensorRT-LLM\]\[ERROR\] ?",
        r"\[FT\]\[ERROR\] ?",
        r"ERROR: ",
        r"Failed to [\w ]{1,40}: ",
        r"unexpected error when creating \w+: ",
        r"msg=\"[^\"]{0,120}\" error=\"",
        r"(?:llama|model) runner (?:process )?(?:has )?terminated: ",
        r"Assertion failed: ",
    )
)
SHAPES = {
    "raised": rf"(?:{_RAISED}){{0,5}}",
    "cuda-error": (
        r"""(?:(?:CUDA|HIP|ROCm|MUSA|Cuda) (?:(?:runtime|driver) )?[Ee]rror(?: in [^'"]{1,200}?)?:? """
        r"""|CUDA failure \d+: |\[CUDA\] )"""
    ),
}
_PLACE = re.compile(r"\(\?#([a-z-]+)\)")


def spelled_out(pattern: str) -> str:
    """A pattern with its pieces in their places; ValueError for a name that stands for none."""
    unknown = [name for name in _PLACE.findall(pattern) if name not in SHAPES]
    if unknown:
        raise ValueError(f"(?#{unknown[0]}) stands for nothing: known are {', '.join(sorted(SHAPES))}")
    return _PLACE.sub(lambda place: SHAPES[place[1]], pattern)
