"""What the words of a line that no rule knows tell about the kind of failure."""

from __future__ import annotations

import pytest

from app.core.model import Line
from app.core.vocabulary import Category
from app.diagnosis.mechanism import complaint, kind_of


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("ray.exceptions.OutOfDiskError: Local disk is full", Category.DISK_FULL),
        ("IO Error: No space left on device (os error 28)", Category.DISK_FULL),
        ("OSError: [Errno 122] Disk quota exceeded: '/home/u/x'", Category.DISK_FULL),
        ("cannot map /dev/shm/block-1: No space left on device", Category.SHM_TOO_SMALL),
        ("cudaMalloc failed: out of memory", Category.GPU_OUT_OF_MEMORY),
        ("vk::Device::allocateMemory: ErrorOutOfDeviceMemory", Category.GPU_OUT_OF_MEMORY),
        ("std::bad_alloc", Category.HOST_OUT_OF_MEMORY),
        ("Runtime compute cap 75 is not compatible with compile time compute cap 80", Category.UNSUPPORTED_GPU),
        ("ROCm error: invalid device function", Category.UNSUPPORTED_GPU),
        ("CUDA driver version is insufficient for CUDA runtime version", Category.VERSION_MISMATCH),
        ("Cannot find plugin: GPTAttention, version: 1", Category.VERSION_MISMATCH),
        ("digest mismatch, file must be downloaded again", Category.CORRUPT_CHECKPOINT),
        ("request error: 401 Unauthorized", Category.GATED_MODEL),
        ("error sending request for url: connection refused (os error 111)", Category.NETWORK_UNREACHABLE),
        ("HTTP status client error (404 Not Found) for url (https://example.com/a)", Category.MODEL_NOT_FOUND),
        ("Sequence length 4096 is larger than the model's max position embeddings 2048", Category.CONTEXT_TOO_LONG),
        ("Cannot load `gptq` weight, make sure the model is already quantized", Category.QUANTIZATION_UNSUPPORTED),
        ("hidden size 100 is not divisible by 8", Category.INCOMPATIBLE_ARGUMENTS),
    ],
)
def test_words_of_systems_and_drivers_tell_the_kind(said: str, kind: Category) -> None:
    assert kind_of(said) == kind


@pytest.mark.parametrize(
    "said", ["KeyError: 'choices'", "AssertionError", "exit status 2", "IndexError: list index out"]
)
def test_other_words_tell_nothing(said: str) -> None:
    assert kind_of(said) is None


def numbered(*bodies: str, level: str | None = None) -> list[Line]:
    return [Line(number, body, body, level=level) for number, body in enumerate(bodies, start=1)]


def test_of_complaints_that_stand_together_the_first_says_what_failed() -> None:
    found = complaint(numbered("failed to guess", "loading", "could not find it", "failed to start", "bye"))
    assert found is not None
    assert found.body == "could not find it"


def test_of_lines_of_level_error_the_first_says_what_failed() -> None:
    lines = [*numbered("the widget broke", level="ERROR"), Line(2, "going on", "going on", level="INFO")]
    found = complaint([*lines, Line(3, "failed to start", "failed to start", level="ERROR")])
    assert found is not None
    assert found.number == 1


def test_information_and_noise_are_no_complaints() -> None:
    told = Line(1, "0 errors, nothing missing", "0 errors, nothing missing", level="INFO")
    known = Line(2, "could not find a plugin", "could not find a plugin")
    assert complaint([told, known], harmless=[2]) is None
