"""The failures that are made on real servers: what to type or break, and what the diagnosis must say.

The tests run them, and `capture.py` keeps their logs as fixtures.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field
from pathlib import Path

from tests.real.tiny_model import truncate_last_shard, write_model

SGLANG = ("sglang-0.5.9", "sglang-0.5.23")
VLLM = ("vllm-0.32.0",)
EAGLE = ("--speculative-algorithm", "EAGLE3")


@dataclass(frozen=True)
class Failure:
    """`extra` is typed behind the healthy command; `renamed` (flags or values) and `appended` correct it."""

    name: str
    servers: tuple[str, ...]
    category: str
    proof: str  # a regex: the line that proves it
    extra: tuple[str, ...] = ()
    renamed: dict[str, str] = field(default_factory=dict)
    appended: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # words that go, for a person to confirm
    shards: int = 1
    layers: int = 2
    truncated: bool = False  # the last weights file is cut in half
    port_taken: bool = False
    stop_at: str | None = None  # a regex: when the log shows it, the server is killed
    stop_with: signal.Signals = signal.SIGKILL
    phase: str = "starting"  # how far the launch came

    @property
    def correctable(self) -> bool:
        return bool(self.renamed or self.appended or self.left_out)

    def corrected(self, words: list[str]) -> list[str]:
        """The whole corrected command: nothing changes but what is named."""
        kept = [word for word in words if word not in self.left_out]
        return [*(self.renamed.get(word, word) for word in kept), *self.appended]

    def make_model(self, folder: Path) -> Path:
        write_model(folder, shards=self.shards, layers=self.layers)
        if self.truncated:
            truncate_last_shard(folder)
        return folder

    def proven_by(self, text: str) -> bool:
        return re.search(self.proof, text) is not None


FAILURES = (
    Failure(
        "unknown-num-speculative-tokens",
        SGLANG,
        "unknown-argument",
        r"error: unrecognized arguments: --num-speculative-tokens 16$",
        extra=(*EAGLE, "--num-speculative-tokens", "16"),
        renamed={"--num-speculative-tokens": "--speculative-num-draft-tokens"},
    ),
    Failure(
        "flag-of-vllm",
        SGLANG,
        "unknown-argument",
        r"error: unrecognized arguments: --max-model-len 256$",
        extra=("--max-model-len", "256"),
        renamed={"--max-model-len": "--context-length"},
    ),
    Failure(
        "flag-of-sglang",
        VLLM,
        "unknown-argument",
        r"error: unrecognized arguments: --context-length 256$",
        extra=("--context-length", "256"),
        renamed={"--context-length": "--max-model-len"},
    ),
    Failure(
        "misspelt-flag",
        VLLM,
        "unknown-argument",
        r"error: unrecognized arguments: --max-modle-len 256$",
        extra=("--max-modle-len", "256"),
        renamed={"--max-modle-len": "--max-model-len"},
    ),
    Failure(
        "ambiguous-prefix",
        SGLANG,
        "unknown-argument",
        r"error: ambiguous option: --speculative-num could match",
        extra=(*EAGLE, "--speculative-num", "16"),
    ),
    Failure(
        "bad-choice",
        SGLANG,
        "invalid-argument-value",
        r"error: argument --attention-backend: invalid choice: 'flashinferr'",
        extra=("--attention-backend", "flashinferr"),
        renamed={"flashinferr": "flashinfer"},
    ),
    Failure(
        "bad-choice",
        VLLM,
        "invalid-argument-value",
        r"error: argument --kv-cache-dtype: invalid choice: 'fp7'",
        extra=("--kv-cache-dtype", "fp7"),
        left_out=("--kv-cache-dtype", "fp7"),
    ),
    Failure(
        "bad-type",
        SGLANG,
        "invalid-argument-value",
        r"error: argument --random-seed: invalid int value: 'lucky'$",
        extra=("--random-seed", "lucky"),
        left_out=("--random-seed", "lucky"),
    ),
    Failure(
        "bad-type",
        VLLM,
        "invalid-argument-value",
        r"error: argument --seed: invalid int value: 'lucky'$",
        extra=("--seed", "lucky"),
        left_out=("--seed", "lucky"),
    ),
    Failure(
        "missing-value",
        SGLANG,
        "missing-argument",
        r"error: argument --context-length: expected one argument$",
        extra=("--context-length",),
    ),
    Failure(
        "missing-value",
        VLLM,
        "missing-argument",
        r"error: argument --max-model-len: expected one argument$",
        extra=("--max-model-len",),
    ),
    Failure(
        "bare-assertion",
        SGLANG,
        "missing-argument",
        r"^AssertionError$",
        extra=(*EAGLE, "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "16"),
        appended=("--speculative-num-steps", "3"),
    ),
    Failure(
        "context-too-long",
        SGLANG,
        "context-too-long",
        r"ValueError: .*context_length \(8192\) is greater than the derived context_length \(512\)",
        extra=("--context-length", "8192"),
        renamed={"8192": "512"},
    ),
    Failure(
        "context-too-long",
        VLLM,
        "context-too-long",
        r"max_model_len \(8192\) is greater than the derived max_model_len",
        extra=("--max-model-len", "8192"),
        renamed={"8192": "512"},
    ),
    Failure(
        "truncated-shard",
        (*SGLANG, *VLLM),
        "corrupt-checkpoint",
        r"SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered",
        shards=3,
        truncated=True,
        phase="loading",
    ),
    Failure(
        "port-in-use",
        SGLANG,
        "port-in-use",
        r"\[Errno 98\] error while attempting to bind on address",
        port_taken=True,
        stop_at=r"\[Errno 98\]",
        phase="warming",
    ),
    Failure("port-in-use", VLLM, "port-in-use", r"OSError: \[Errno 98\] Address already in use", port_taken=True),
    Failure(
        "killed-while-loading",
        (*SGLANG, *VLLM),
        "killed-by-signal",
        r"\d+% Completed",
        shards=2000,
        layers=230,
        stop_at=r"[1-9]\d?% Completed",
        phase="loading",
    ),
)


def failures_of(server: str) -> list[Failure]:
    return [failure for failure in FAILURES if server in failure.servers]
