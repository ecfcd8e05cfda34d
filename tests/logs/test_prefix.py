"""Prefixes are taken off a line, whatever wrapped it; its body is what the program said."""

from __future__ import annotations

import pytest

from app.logs.prefix import parse_line, seconds

BODY = "Load weight begin."


@pytest.mark.parametrize(
    "prefix",
    [
        "server-1  | ",
        "vllm | ",
        "2026-01-12T10:00:00.1Z stderr F ",
        "2026-01-12T10:00:00.123456789+00:00 stdout P ",
        "2026-01-12T10:00:00.123456789Z ",
        "ERROR 2025-04-04T06:24:51.49Z ",
        "Jan 12 10:00:00 host sglang[812]: ",
        "2026-01-12T10:00:00+0100 host sglang.service[812]: ",
        "Jan  2 10:00:00 host kernel: [ 1234.567890] ",
        "<34>1 2026-01-12T10:00:00Z host app 12 - - ",
        "[ 123.456789] ",
        "[Mon Jan 12 10:00:00 2026] ",
        "[pod/vllm-0/server] ",
        "(RayWorkerWrapper pid=12, ip=1.2.3.4) ",
        "(pid=12) ",
        "(raylet, ip=10.0.0.2) ",
        "[rank3]: ",
        "[1,2]<stderr>:",
        "[2026-01-12 10:00:00] ",
        "[2026-01-12 10:00:00 DP0 PP0 TP3] ",
        "[2026-01-12 10:00:00] WARNING server_args.py:123: ",
        "(EngineCore_0 pid=12) ERROR 11-30 20:54:23 [core.py:718] ",
        "INFO 11-18 18:07:28 engine.py:366] ",
        "0.00.005.337 E ",
        "2026-01-12 10:00:00,123 - vllm.engine - ERROR - ",
        "2026-01-12 10:00:00.123 | ERROR    | mod:fn:12 - ",
        "E0112 10:00:00.123456 123 file.cc:12] ",
        "[E112 10:00:00.123456789 ProcessGroupNCCL.cpp:616] ",
        "ERROR:    ",
        "2026-01-12T10:00:00.000001Z  INFO text_generation_launcher: ",
        "2026-01-12T10:00:00.01Z ERROR warmup{max=9 size=None}:warmup: text_generation_client: router/lib.rs:46: ",
        "2026-01-12T10:00:00.1Z 2026-01-12T10:00:00.001Z  WARN text_generation_router::server: server.rs:2: ",
        "(ServeController pid=9) WARNING 2026-01-12 10:00:00,123 controller 9 -- ",
        "(ServeReplica:default:LLM pid=9) INFO 2026-01-12 10:00:00,123 default_LLM a8d12 0b1c-22 -- ",
        "(ServeReplica:default:LLM pid=9) ERROR 2026-01-12 10:00:00,123 default_LLM a8d12 replica.py:300 - ",
        "[2026-01-12 10:00:00 +0000] [12] [ERROR] ",
        "[01/12/2026-10:00:00] [TRT-LLM] [RANK 1] [E] ",
        "[TensorRT-LLM][ERROR] ",
        "2026-01-12T10:00:00.1Z stdout F server-1  | (Worker_TP0 pid=402) ERROR 11-30 20:54:23 [x.py:1] ",
        "Jan 12 10:00:00 host docker[1]: sglang-1  | [2026-01-12 10:00:00 TP0] ",
    ],
)
def test_the_body_begins_behind_all_prefixes(prefix: str) -> None:
    assert parse_line(7, prefix + BODY).line.body == BODY


@pytest.mark.parametrize("body", ["CUDA error: out of memory", "docker error: no space", "Error: no luck"])
def test_words_behind_a_dockers_time_are_no_host_and_unit(body: str) -> None:
    assert parse_line(1, f"2026-01-12T10:00:00.123456789Z {body}").line.body == body


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("[2026-01-12 10:00:00 DP0 PP0 TP3] x", "DP0 PP0 TP3"),
        ("[2026-01-12 10:00:00] x", None),
        ("(Worker_TP0 pid=402) x", "TP0"),
        ("(Worker_DP1_TP0 pid=402) x", "DP1 TP0"),
        ("(VllmWorker rank=2 pid=402) x", "rank2"),
        ("[rank3]: x", "rank3"),
        ("(EngineCore_DP1 pid=3) x", "DP1"),
    ],
)
def test_the_rank_is_read_from_the_prefix(text: str, rank: str | None) -> None:
    assert parse_line(1, text).line.rank == rank


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("(EngineCore pid=1) ERROR 11-30 20:54:23 [core.py:718] x", "ERROR"),
        ("0.00.005.337 E srv x", "ERROR"),
        ("WARN 11-30 20:54:23 [core.py:718] x", "WARNING"),
        ("[2026-01-12 10:00:00] ERROR:    x", "ERROR"),
        ("ERROR 2025-04-04T06:24:51.49Z x", None),  # GCP says so of all that came by stderr
        ("[2026-01-12 10:00:00 TP0] x", None),
    ],
)
def test_the_level_is_what_the_program_said(text: str, level: str | None) -> None:
    assert parse_line(1, text).line.level == level


def test_the_source_names_container_and_process() -> None:
    assert parse_line(1, "vllm-1  | (EngineCore_0 pid=12) x").line.source == "vllm-1/EngineCore_0 pid=12"


@pytest.mark.parametrize(
    "text",
    [
        '[2026-01-12 10:00:00] Receive: text="[2026-01-12 10:00:00] ValueError: no"',
        "[2026-01-12 10:00:00] [2026-01-12 10:00:01] ValueError: no",
        "[2026-01-12 10:00:00] ERROR 11-30 20:54:23 [core.py:718] ValueError: no",
    ],
)
def test_what_a_program_logs_of_others_is_not_taken_as_its_own_header(text: str) -> None:
    assert parse_line(1, text).line.body == text.removeprefix("[2026-01-12 10:00:00] ")


@pytest.mark.parametrize(
    "text",
    ['  File "a.py", line 3, in f', "    return f(x)", "ValueError: max | min", "", "plain words", "ERROR | nothing"],
)
def test_a_bare_line_is_its_own_body(text: str) -> None:
    assert parse_line(1, text).line.body == text


def test_indentation_behind_the_prefix_stays() -> None:
    line = parse_line(1, '(EngineCore pid=1) ERROR 11-30 20:54:23 [core.py:718]   File "a.py", line 3, in f').line
    assert line.body == '  File "a.py", line 3, in f'


@pytest.mark.parametrize(
    ("earlier", "later", "difference"),
    [
        ("2026-01-12 10:00:00", "2026-01-13 10:00:01", 86401.0),
        ("11-30 23:59:59", "12-01 00:00:00", 1.0),
        ("Jan 31 10:00:00", "Feb  1 10:00:00", 86400.0),
        ("2026-01-12T10:00:00.25Z", "2026-01-12T11:00:00.75+01:00", 0.5),
        ("01/12/2026-10:00:00", "01/12/2026-10:01:00", 60.0),
    ],
)
def test_times_differ_as_clocks_do(earlier: str, later: str, difference: float) -> None:
    first, second = seconds(earlier), seconds(later)
    assert first is not None
    assert second is not None
    assert second - first == pytest.approx(difference)


def test_a_date_that_does_not_exist_is_no_error() -> None:
    assert seconds("2026-02-31 10:00:00") == 36000.0
