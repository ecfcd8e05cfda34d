"""Tracebacks come out whole, whatever cuts in and whoever prints them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.core.model import Event, LogDigest

Digest = Callable[..., LogDigest]

FRAMES = """\
  File "/opt/srv/scheduler.py", line 31, in run
    scheduler.loop()
  File "/opt/srv/worker.py", line 7, in forward
    return self.model(batch)
           ^^^^^^^^^^^^^^^^^
"""
PLAIN = f"Traceback (most recent call last):\n{FRAMES}ValueError: bad shape 3\n"


def only(digest: LogDigest) -> Event:
    tracebacks = [event for event in digest.events if event.kind == "traceback"]
    assert len(tracebacks) == 1
    return tracebacks[0]


def chain(event: Event) -> list[tuple[str, str, str]]:
    return [(raised.relation, raised.type, raised.message) for raised in event.chain]


def test_a_plain_traceback_gives_type_message_and_frames(digest: Digest) -> None:
    event = only(digest("starting\n" + PLAIN))
    frames = [(frame.file, frame.lineno, frame.function, frame.code) for frame in event.chain[0].frames]
    assert chain(event) == [("first", "ValueError", "bad shape 3")]
    assert frames == [
        ("/opt/srv/scheduler.py", 31, "run", "scheduler.loop()"),
        ("/opt/srv/worker.py", 7, "forward", "return self.model(batch)"),
    ]
    assert (event.first.number, event.last.number, event.truncated) == (2, 8, False)


def test_the_header_may_stand_behind_the_programs_own_words(digest: Digest) -> None:
    header = "[2026-01-12 10:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):"
    event = only(digest(f"{header}\n{FRAMES}KeyError: 'x'\n"))
    assert (event.rank, chain(event)) == ("TP3", [("first", "KeyError", "'x'")])


def test_chained_exceptions_keep_their_order_and_relation(digest: Digest) -> None:
    log = (
        f"Traceback (most recent call last):\n{FRAMES}KeyError: 'a'\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        f"Traceback (most recent call last):\n{FRAMES}RuntimeError: b\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        f"Traceback (most recent call last):\n{FRAMES}lib.errors.FinalError: c\n"
    )
    event = only(digest(log))
    assert chain(event) == [
        ("first", "KeyError", "'a'"),
        ("cause", "RuntimeError", "b"),
        ("context", "lib.errors.FinalError", "c"),
    ]
    assert [len(raised.frames) for raised in event.chain] == [2, 2, 2]


def test_each_line_may_carry_the_header(digest: Digest) -> None:
    prefix = "(EngineCore_0 pid=12) ERROR 11-30 20:54:23 [core.py:718] "
    log = prefix + "EngineCore failed to start.\n" + "".join(prefix + line + "\n" for line in PLAIN.splitlines())
    event = only(digest(log + "(EngineCore_0 pid=12) INFO 11-30 20:54:23 [core.py:720] bye\n"))
    assert (event.source, chain(event)) == ("EngineCore_0 pid=12", [("first", "ValueError", "bad shape 3")])


@pytest.mark.parametrize(
    "stranger",
    [
        "[2026-01-12 10:00:00 TP1] Decode batch. #running-req: 3",
        "Loading safetensors checkpoint shards:  33% Completed | 1/3 [00:01<00:02]",
        " 40%|████      | 4/10 [00:01<00:01,  3.9it/s]",
        "/opt/srv/x.py:12: UserWarning: old",
        "[W112 10:00:00.123456789 utils.cpp:68] Warning: NUMA",
        "(Worker_TP0 pid=7) INFO 11-30 20:54:23 [a.py:1] fine",
        "NCCL version 2.27.3+cuda12.9",
        "  warnings.warn(",
        "    4%|█         | 1/24 [00:01<00:01,  3.9it/s]",
    ],
)
def test_a_line_that_cuts_in_stays_out(digest: Digest, stranger: str) -> None:
    lines = PLAIN.splitlines()
    for place in range(1, len(lines)):
        log = "\n".join(["[2026-01-12 10:00:00 TP0] hit an exception: " + lines[0], *lines[1:]])
        cut = log.split("\n")
        cut.insert(place, stranger)
        event = only(digest("\n".join(cut) + "\n"))
        assert (chain(event), len(event.chain[0].frames)) == ([("first", "ValueError", "bad shape 3")], 2)
        assert stranger not in [line.text for line in event.lines]


def test_two_ranks_records_that_run_into_each_other_come_apart(digest: Digest) -> None:
    log = (
        "[2026-01-12 10:00:00 TP0] hit an exception: Traceback (most recent call last):\n"
        '  File "a.py", line 1, in a\n    a()\n'
        "[2026-01-12 10:00:00 TP1] hit an exception: Traceback (most recent call last):\n"
        '  File "b.py", line 2, in b\n    b()\n'
        "KeyError: 1\n"
        "ValueError: 0\n"
    )
    events = digest(log).events
    assert [(event.rank, chain(event)) for event in events] == [
        ("TP0", [("first", "ValueError", "0")]),
        ("TP1", [("first", "KeyError", "1")]),
    ]


def test_the_same_traceback_of_several_ranks_is_one_event(digest: Digest) -> None:
    log = "".join(
        f"[2026-01-12 10:00:00 TP{rank}] hit: Traceback (most recent call last):\n{FRAMES}OSError: rank {rank} lost\n\n"
        for rank in (2, 0, 1)
    )
    event = only(digest(log))
    assert (event.rank, event.repeats, event.ranks) == ("TP2", 3, ("TP2", "TP0", "TP1"))


def test_a_traceback_printed_with_and_without_prefix_is_one_event(digest: Digest) -> None:
    prefix = "(EngineCore_0 pid=12) ERROR 11-30 20:54:23 [core.py:718] "
    event = only(digest("".join(prefix + line + "\n" for line in PLAIN.splitlines()) + PLAIN))
    assert event.repeats == 2


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("RuntimeError: CUDA error\nCompile with X\n", "CUDA error\nCompile with X"),
        (
            "pydantic_core.ValidationError: 1 validation error for C\nmax_len\n  Value error, no [type=v]\n"
            "    For further information visit https://x\n",
            "1 validation error for C\nmax_len\n  Value error, no [type=v]\n    For further information visit https://x",
        ),
        ("OSError: gated\n\nAsk for access.\n", "gated\n\nAsk for access."),
        ("ImportError: \n requires protobuf\n", "\n requires protobuf"),
        ("AssertionError\n", ""),
        ("AssertionError\nnot a message of it\n", ""),
        ("ValueError: x\nKilled\n", "x"),
        ("ValueError: x\n[2026-01-12 10:00:00] next record\n", "x"),
        ("ValueError: x\n\n\n\nfar away\n", "x"),
        ("lib.Error: a\nframe #0: c10::f() (0x7f in lib.so)\nframe #1: <unknown>\n", None),
    ],
)
def test_a_message_takes_its_lines_and_no_others(digest: Digest, message: str, expected: str | None) -> None:
    event = only(digest(f"Traceback (most recent call last):\n{FRAMES}{message}"))
    if expected is None:
        expected = message.removeprefix("lib.Error: ").rstrip("\n")
    assert event.chain[-1].message == expected


def test_a_syntax_error_points_at_its_file(digest: Digest) -> None:
    log = 'Traceback (most recent call last):\n  File "m.py", line 3\n    def f(:\n          ^\nSyntaxError: invalid\n'
    event = only(digest(log))
    assert (event.chain[0].type, event.chain[0].frames[0].file, event.chain[0].frames[0].code) == (
        "SyntaxError",
        "m.py",
        "def f(:",
    )


def test_frames_without_code_and_repeated_lines_are_understood(digest: Digest) -> None:
    log = (
        'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
        '  File "<frozen runpy>", line 198, in _run\n  File "uvloop/loop.pyx", line 15, in uvloop.run\n'
        '  File "r.py", line 2, in r\n    r()\n    ~^^\n'
        "  [Previous line repeated 996 more times]\nRecursionError: deep\n"
    )
    event = only(digest(log))
    assert [frame.code for frame in event.chain[0].frames] == ["", "", "", "r()"]
    assert event.chain[0].type == "RecursionError"


def test_a_traceback_whose_indentation_was_taken_away_is_still_one(digest: Digest) -> None:
    log = "".join(f"ERROR 2026-01-12T10:00:00.{n}Z {line.strip()}\n" for n, line in enumerate(PLAIN.splitlines(), 100))
    event = only(digest(log.replace("           ^^^^^^^^^^^^^^^^^\n", "")))
    assert (chain(event), event.chain[0].frames[0].code) == (
        [("first", "ValueError", "bad shape 3")],
        "scheduler.loop()",
    )


def test_an_exception_group_is_read_with_its_parts(digest: Digest) -> None:
    log = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "g.py", line 4, in <module>\n  |     raise group\n'
        "  | ExceptionGroup: two failed (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n"
        '    |   File "g.py", line 1, in a\n    |     raise ValueError(1)\n    | ValueError: 1\n'
        "    +---------------- 2 ----------------\n    | Traceback (most recent call last):\n"
        '    |   File "g.py", line 2, in b\n    |     raise KeyError(2)\n    | KeyError: 2\n'
        "    +------------------------------------\n"
    )
    event = only(digest(log))
    assert [raised.type for raised in event.chain] == ["ExceptionGroup", "ValueError", "KeyError"]
    assert event.chain[1].frames[0].code == "raise ValueError(1)"


def test_a_ray_task_error_leads_to_the_remote_exception(digest: Digest) -> None:
    log = (
        'Traceback (most recent call last):\n  File "d.py", line 1, in get\n    raise value\n'
        "ray.exceptions.RayTaskError(ValueError): ray::Worker.load() (pid=1, ip=1.2.3.4)\n"
        '  File "w.py", line 9, in load\n    check()\nValueError: remote\n'
    )
    event = only(digest(log))
    assert [raised.type for raised in event.chain] == ["ray.exceptions.RayTaskError(ValueError)", "ValueError"]


def test_user_code_quoted_in_a_message_is_no_traceback_of_its_own(digest: Digest) -> None:
    log = (
        f'{PLAIN.rstrip()}\n\nfrom user code:\n   File "m.py", line 8, in forward\n    q = q.view(n)\n\nSet VERBOSE=1\n'
    )
    event = only(digest(log))
    assert 'File "m.py", line 8, in forward' in event.chain[0].message
    assert len(event.chain[0].frames) == 2


def test_a_paste_that_begins_inside_a_traceback_is_truncated(digest: Digest) -> None:
    event = only(digest(FRAMES + "ValueError: bad shape 3\n"))
    assert event.truncated
    assert (chain(event), len(event.chain[0].frames)) == ([("first", "ValueError", "bad shape 3")], 2)


def test_a_log_that_ends_inside_a_traceback_is_truncated(digest: Digest) -> None:
    event = only(digest(f"Traceback (most recent call last):\n{FRAMES}"))
    assert event.truncated
    assert (event.chain[0].type, len(event.chain[0].frames)) == ("", 2)


def test_a_very_long_traceback_keeps_both_ends(digest: Digest) -> None:
    frames = "".join(f'  File "f{n}.py", line {n}, in f\n    f()\n' for n in range(1, 1001))
    event = only(digest(f"Traceback (most recent call last):\n{frames}ValueError: deep\n"))
    assert (len(event.lines), event.truncated, event.last.body) == (400, True, "ValueError: deep")
    assert (event.chain[0].frames[0].lineno, event.chain[0].frames[-1].lineno) == (1, 1000)


@pytest.mark.parametrize(
    "quoted",
    [
        "[2026-01-12 10:00:00] Receive: text='Traceback (most recent call last):'",
        "[2026-01-12 10:00:00] Receive: text='say: Traceback (most recent call last):",
        '{"prompt": "why Traceback (most recent call last):"}',
    ],
)
def test_a_traceback_in_a_logged_prompt_is_none(digest: Digest, quoted: str) -> None:
    assert digest(f"{quoted}\n").events == ()


def test_the_exception_text_of_a_record_has_the_records_rank(digest: Digest) -> None:
    event = only(digest("[2026-01-12 10:00:00 TP1] ERROR worker.py:12: request failed\n" + PLAIN))
    assert event.rank == "TP1"


def test_containers_do_not_mix(digest: Digest) -> None:
    lines = PLAIN.splitlines()
    log = "".join(f"a-1  | {line}\nb-1  | {line.replace('ValueError', 'KeyError')}\n" for line in lines)
    events = digest(log).events
    assert [(event.source, event.chain[0].type, len(event.chain[0].frames)) for event in events] == [
        ("a-1", "ValueError", 2),
        ("b-1", "KeyError", 2),
    ]
