from __future__ import annotations

import pytest
import regex
from pydantic import TypeAdapter, ValidationError

from app.rules.conditions import Condition
from app.rules.shapes import SHAPES, spelled_out


@pytest.mark.parametrize(
    "line",
    [
        "CUDA error: no kernel image",
        "torch.AcceleratorError: CUDA error: no kernel image",
        "  what():  CUDA error: no kernel image",
        "/app/ggml-cuda.cu:75: CUDA error in forward: no kernel image",
        "[TensorRT-LLM][ERROR] Assertion failed: CUDA runtime error: no kernel image",
    ],
)
def test_a_cuda_error_is_found_whoever_passes_it_on(line: str) -> None:
    assert regex.search(spelled_out("^(?#raised)(?#cuda-error)no kernel image"), line)


def test_a_line_that_only_quotes_the_error_is_not_found() -> None:
    assert not regex.search(spelled_out("^(?#raised)(?#cuda-error)no kernel"), "text='CUDA error: no kernel image'")


def test_a_pattern_is_kept_with_its_pieces_spelled_out() -> None:
    condition = Condition.model_validate({"line": "^(?#raised)x"})
    assert condition.line is not None
    assert condition.line.regex == "^" + SHAPES["raised"] + "x"


def test_a_name_that_stands_for_nothing_is_told_with_those_that_are_known() -> None:
    with pytest.raises(ValidationError, match=r"known are cuda-error, raised"):
        TypeAdapter(Condition).validate_python({"line": "^(?#rased)x"})
