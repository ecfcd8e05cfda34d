"""What must not change a diagnosis: how a log was cut, wrapped, coloured and mixed, and the order of rules."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.model import Diagnosis, Fix
from app.core.vocabulary import Category, Outcome
from app.diagnosis.pipeline import Pipeline
from app.rules.load import RuleSet, builtin_rules

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
Known = tuple[str, Category, str | None, Fix | None]


@cache
def pipeline() -> Pipeline:
    return Pipeline(builtin_rules(), read_source=False)


@cache
def logs() -> list[tuple[str, bytes]]:
    """The captured failures, and the log of each example that a cause is told by."""
    found = [(path.name, path.read_bytes()) for path in sorted((FIXTURES / "captured").rglob("*.log"))]
    for rule in builtin_rules().rules:
        for number, one in enumerate(rule.examples):
            if one.text is not None and one.match:
                found.append((f"{rule.id}[{number}]", one.text.encode()))
    return [(name, data) for name, data in found if len(data) < 60_000 and b"\r" not in data and b"\x1b" not in data]


def diagnose(data: bytes, sizes: Sequence[int] = (), of: Pipeline | None = None) -> Diagnosis:
    session = (of or pipeline()).session()
    at = 0
    for size in sizes:
        session.feed(data[at : at + size])
        at += size
    session.feed(data[at:])
    session.close()
    return session.diagnose()


def known(diagnosis: Diagnosis) -> list[Known]:
    """The first cause: rule, category, the text of the line that proves it, and the fix."""
    first = diagnosis.causes[:1]
    return [(one.rule, one.category, one.line.body if one.line else None, one.fix) for one in first]


WRAPPERS: dict[str, Callable[[int], str]] = {
    "docker compose": lambda number: "server-1  | ",
    "journald": lambda number: f"Jan 12 10:{number // 60 % 60:02}:{number % 60:02} gpu-1 sglang[4711]: ",
    "journald, precise": lambda number: (
        f"2026-01-12T10:{number // 60 % 60:02}:{number % 60:02}+0100 gpu-1 vllm[4711]: "
    ),
    "kubernetes": lambda number: f"2026-01-12T10:{number // 60 % 60:02}:{number % 60:02}.123456789Z stdout F ",
    "docker logs -t": lambda number: f"2026-01-12T10:{number // 60 % 60:02}:{number % 60:02}.123456789Z ",
}


def wrapped(data: bytes, prefix: Callable[[int], str]) -> bytes:
    return b"".join(prefix(number).encode() + line for number, line in enumerate(data.splitlines(keepends=True)))


def coloured(data: bytes) -> bytes:
    return b"".join(b"\x1b[31m" + line + b"\x1b[0m\n" for line in data.splitlines())


def windows(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


DRESSES: dict[str, Callable[[bytes], bytes]] = {
    **{name: (lambda data, prefix=prefix: wrapped(data, prefix)) for name, prefix in WRAPPERS.items()},  # type: ignore[misc]
    "colours": coloured,
    "CRLF": windows,
}


LOGS = st.deferred(lambda: st.sampled_from(logs()))
COST = settings(max_examples=60, deadline=None)


@COST
@given(LOGS, st.lists(st.integers(1, 3000), max_size=20))
def test_where_the_input_was_cut_changes_nothing(log: tuple[str, bytes], sizes: list[int]) -> None:
    assert known(diagnose(log[1], sizes)) == known(diagnose(log[1]))


@COST
@given(LOGS, st.sampled_from(sorted(DRESSES)))
def test_what_wraps_or_colours_the_lines_changes_nothing(log: tuple[str, bytes], dress: str) -> None:
    assert known(diagnose(DRESSES[dress](log[1]))) == known(diagnose(log[1]))


UNRELATED = [
    b'INFO:     10.0.0.7:40112 - "GET /health HTTP/1.1" 200 OK\n',
    b'[2026-01-12 10:00:00] INFO:     10.0.0.7:40112 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n',
    b"time=10:00 level=info msg=scraped\n",
]


@COST
@given(LOGS, st.lists(st.tuples(st.floats(0, 1), st.sampled_from(UNRELATED)), max_size=8))
def test_unrelated_lines_anywhere_change_no_known_cause(
    log: tuple[str, bytes], added: list[tuple[float, bytes]]
) -> None:
    plain = diagnose(log[1])
    if not plain.causes or plain.causes[0].category is Category.UNKNOWN:
        return  # what nothing explains is judged by being the last words
    lines = [*log[1].splitlines(), b""] if log[1].endswith(b"\n") else log[1].splitlines()
    mixed = [line + b"\n" for line in lines if line or lines[-1:] != [line]]
    for place, line in added:
        mixed.insert(round(place * len(mixed)), line)
    assert [one[:2] for one in known(diagnose(b"".join(mixed)))] == [one[:2] for one in known(plain)]


FAILURE = (
    "Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/app/sglang/srt/managers/scheduler.py", line 2636, in run_scheduler_process\n'
    "    scheduler = Scheduler(server_args, port_args, gpu_id, tp_rank, dp_rank)\n"
    '  File "/app/sglang/srt/model_executor/model_runner.py", line 812, in init_memory_pool\n'
    "    raise RuntimeError(\n"
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n\n"
)
RANK_RECORDS = {
    rank: [
        f"[2026-01-12 10:00:00 TP{rank}] Init torch distributed begin.\n",
        f"[2026-01-12 10:00:01 TP{rank}] Load weight begin. avail mem=78.00 GB\n",
        f"[2026-01-12 10:00:09 TP{rank}] Load weight end. type=LlamaForCausalLM, avail mem=3.00 GB\n",
        f"[2026-01-12 10:00:10 TP{rank}] {FAILURE}",
    ]
    for rank in range(3)
}


@COST
@given(st.permutations([rank for rank in RANK_RECORDS for _ in RANK_RECORDS[rank]]))
def test_the_order_in_which_ranks_come_changes_no_cause(turns: list[int]) -> None:
    rest = {rank: iter(records) for rank, records in RANK_RECORDS.items()}
    mixed = "".join(next(rest[rank]) for rank in turns)
    inline = "".join(record for records in RANK_RECORDS.values() for record in records)
    assert known(diagnose(mixed.encode())) == known(diagnose(inline.encode()))


@COST
@given(LOGS, st.sampled_from(["sglang", "vllm"]), st.booleans())
def test_a_prompt_that_quotes_a_failure_is_no_failure(log: tuple[str, bytes], engine: str, last: bool) -> None:
    healthy, record = SERVING[engine]
    quoted = record % repr(log[1].decode()).encode()
    assert diagnose(healthy + quoted + (b"" if last else quoted)).outcome is Outcome.HEALTHY


def serving(path: Path) -> bytes:
    """A healthy log up to its stop."""
    data = path.read_bytes().partition(b"Shutting down")[0]
    return data[: data.rfind(b"\n") + 1]


SERVING = {
    "sglang": (
        serving(FIXTURES / "healthy/sglang/0.5.23-serving.log"),
        b"[2026-01-12 10:00:00] Receive: obj=GenerateReqInput(rid='7', text=%s, sampling_params={'n': 1})\n",
    ),
    "vllm": (
        serving(FIXTURES / "healthy/vllm/0.32.0-serving.log"),
        b"INFO 01-12 10:00:00 [logger.py:40] Received request chatcmpl-7: prompt: %s, params: SamplingParams(n=1).\n",
    ),
}


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rules_changes_nothing(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rules = list(builtin_rules().rules)
    random.Random(seed).shuffle(rules)
    cache = tmp_path_factory.getbasetemp() / "scan"
    other = Pipeline(RuleSet(tuple(rules), (), builtin_rules().paths), read_source=False, cache=cache)
    changed = [name for name, data in logs()[seed::3] if known(diagnose(data, of=other)) != known(diagnose(data))]
    assert changed == []
