from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from app.core.command import Command
from app.core.model import Diagnosis, Exit
from app.core.vocabulary import Action, Category, Engine, Origin, Outcome, Phase, Safety
from app.diagnosis.pipeline import Pipeline, Session
from app.rules.load import RuleSet
from app.rules.schema import Rule


def rule(name: str, **fields: Any) -> Rule:
    cause = {"category": "gpu-out-of-memory", "explain": "why"} if fields.get("role", "cause") == "cause" else {}
    base = {"id": name, "title": name, "status": "stable", "role": "cause"}
    return Rule.model_validate(base | cause | fields)


BANNER = rule("x/a".replace("x", "sglang"), role="progress", identifies="sglang", when={"line": r"^server_args="})
LOADING = rule(
    "sglang/loading", role="progress", reaches="loading", when={"line": r"^Loading shards: +(?P<percent>\d+)%"}
)
READY = rule("sglang/ready", role="progress", reaches="ready", when={"line": r"^The server is fired up"})
STOP = rule("sglang/stop", role="progress", stops=True, when={"line": r"^Shutting down$"})
SIGQUIT = rule("sglang/sigquit", role="symptom", when={"line": r"^Received sigquit"})
NOISE = rule("sglang/noise", role="noise", when={"traceback": {"type": "ClientError"}})
OOM = rule("any/oom", when={"traceback": {"type": "OutOfMemoryError"}})
BASE = (BANNER, LOADING, READY, STOP, SIGQUIT, NOISE)

START = "server_args=ServerArgs(model_path='/m', tp_size=2)\n"
FIRED = "[2026-01-12 10:00:09] The server is fired up and ready to roll!\n"


def traceback(error: str, function: str = "load", rank: str = "") -> str:
    head = f"[2026-01-12 10:00:00 {rank}] Scheduler hit an exception: " if rank else ""
    return f'{head}Traceback (most recent call last):\n  File "/a/x.py", line 1, in {function}\n    f()\n{error}\n'


def session(*rules: Rule, command: str | None = None) -> Session:
    pipeline = Pipeline(RuleSet(tuple(sorted(rules, key=lambda one: one.id))))
    return pipeline.session(command=Command.from_string(command) if command else None)


def diagnosed(log: str, *rules: Rule, exit: int | None = None, command: str | None = None, **more: Any) -> Diagnosis:
    one = session(*BASE, *rules, command=command)
    one.feed(log.encode())
    one.close()
    return one.diagnose(Exit.from_code(exit), **more)


def test_a_rule_that_holds_is_the_cause_with_its_line() -> None:
    found = diagnosed(START + traceback("torch.OutOfMemoryError: no memory"), OOM, exit=1)
    assert found.outcome is Outcome.FAILED
    assert [cause.rule for cause in found.causes] == ["any/oom"]
    assert found.causes[0].line is not None
    assert found.causes[0].line.text == "torch.OutOfMemoryError: no memory"


def test_a_healthy_log_has_no_cause() -> None:
    found = diagnosed(START + FIRED, OOM)
    assert (found.outcome, found.causes, found.phase) == (Outcome.HEALTHY, (), Phase.READY)


def test_a_launch_under_way_is_starting_with_its_percentage() -> None:
    found = diagnosed(START + "Loading shards:  33%\rLoading shards:  67%\n")
    assert (found.outcome, found.phase, found.progress.percent) == (Outcome.STARTING, Phase.LOADING, 67.0)


def test_a_text_that_is_no_servers_log_is_unknown_and_no_failure() -> None:
    found = diagnosed("dear diary,\ntoday nothing happened\n")
    assert (found.outcome, found.causes, found.engine) == (Outcome.UNKNOWN, (), None)


def test_the_first_rank_that_fails_is_the_root() -> None:
    nccl = rule("any/nccl", category="nccl-failure", when={"traceback": {"type": "NcclError"}})
    log = START + traceback("OutOfMemoryError: x", rank="TP3") + traceback("NcclError: aborted", rank="TP0")
    found = diagnosed(log, OOM, nccl, exit=1)
    assert [(cause.rule, cause.rank) for cause in found.causes] == [("any/oom", "TP3"), ("any/nccl", "TP0")]


def test_of_a_chain_the_exception_raised_first_is_the_root() -> None:
    wrapped = rule("any/wrapped", category="scheduler-crash", when={"traceback": {"type": "RuntimeError"}})
    link = "\nThe above exception was the direct cause of the following exception:\n\n"
    log = START + traceback("OutOfMemoryError: x") + link + traceback("RuntimeError: failed")
    assert [cause.rule for cause in diagnosed(log, OOM, wrapped, exit=1).causes] == ["any/oom", "any/wrapped"]


def test_a_covered_rule_is_folded_under_the_one_that_covers_it() -> None:
    special = rule("sglang/oom", covers=["any/oom"], when={"traceback": {"type": "OutOfMemoryError", "frame": "load"}})
    found = diagnosed(START + traceback("OutOfMemoryError: x"), OOM, special, exit=1)
    assert [cause.rule for cause in found.causes] == ["sglang/oom"]


def test_a_rule_may_cover_a_built_in_reader() -> None:
    special = rule("sglang/flag", category="version-mismatch", covers=["any/unknown-argument"], when={"line": "--old"})
    log = "usage: launch_server.py [-h] [--new NEW]\nlaunch_server.py: error: unrecognized arguments: --old 1\n"
    found = diagnosed(log, special, exit=2, command="python3 -m sglang.launch_server --old 1")
    assert [cause.rule for cause in found.causes] == ["sglang/flag"]


def test_of_two_rules_on_one_exception_the_more_specific_is_the_cause() -> None:
    special = rule("sglang/oom", when={"traceback": {"type": "OutOfMemoryError", "frame": "load"}})
    found = diagnosed(START + traceback("OutOfMemoryError: x"), OOM, special, exit=1)
    assert [cause.rule for cause in found.causes] == ["sglang/oom"]


def test_the_order_of_rules_changes_nothing() -> None:
    other = rule("any/other", category="nccl-failure", when={"traceback": {"type": "NcclError"}})
    log = START + traceback("NcclError: x") + traceback("OutOfMemoryError: y")
    answers = set()
    for order in permutations((OOM, other, SIGQUIT)):
        one = Pipeline(RuleSet(order)).session()
        one.feed(log.encode())
        one.close()
        answers.add(tuple(cause.rule for cause in one.diagnose(Exit(code=1)).causes))
    assert answers == {("any/other", "any/oom")}


def test_vllms_worker_is_believed_before_its_engine_core() -> None:
    worker = rule("vllm/worker", when={"line": r"^ValueError: worker"})
    core = rule("vllm/core", category="scheduler-crash", when={"line": r"^ValueError: core"})
    banner = rule("vllm/banner", role="progress", identifies="vllm", when={"line": "^vLLM API server"})
    log = (
        "INFO 11-30 20:54:23 [api_server.py:1] vLLM API server\n"
        "(EngineCore pid=1) ERROR 11-30 20:54:24 [core.py:1] ValueError: core\n"
        "(Worker pid=2) ERROR 11-30 20:54:25 [worker.py:1] ValueError: worker\n"
    )
    found = diagnosed(log, worker, core, banner, exit=1)
    assert [cause.rule for cause in found.causes] == ["vllm/worker", "vllm/core"]


def test_symptoms_stand_beside_the_cause() -> None:
    log = START + traceback("OutOfMemoryError: x", rank="TP0") + "\nReceived sigquit from a child process.\n"
    found = diagnosed(log, OOM, exit=-9)
    assert [cause.rule for cause in found.causes] == ["any/oom"]
    assert [symptom.rule for symptom in found.symptoms] == ["sglang/sigquit"]


def test_a_failure_that_no_rule_knows_shows_its_root_line() -> None:
    found = diagnosed(START + traceback("WeirdError: boom", rank="TP1") + "\nReceived sigquit from a child\n", exit=-9)
    [cause] = found.causes
    assert (cause.rule, cause.category, cause.rank) == ("any/unknown-failure", Category.UNKNOWN, "TP1")
    assert cause.line is not None
    assert cause.line.text == "WeirdError: boom"


def test_an_exit_code_alone_is_an_unknown_failure_without_a_line() -> None:
    [cause] = diagnosed(START, exit=1).causes
    assert (cause.rule, cause.line) == ("any/unknown-failure", None)
    assert "exit code 1" in cause.explanation


def test_killed_while_loading_says_how_far_it_came() -> None:
    [cause] = diagnosed(START + "Loading shards:  67%\n", exit=137).causes
    assert (cause.category, cause.action) == (Category.KILLED_BY_SIGNAL, Action.RESTART)
    assert cause.title == "The server was killed by SIGKILL at loading 67 %"


def test_sglangs_own_sigkill_after_a_failed_child_is_only_an_echo() -> None:
    found = diagnosed(START + traceback("OutOfMemoryError: x", rank="TP0"), OOM, exit=-9)
    assert [cause.rule for cause in found.causes] == ["any/oom"]


@pytest.mark.parametrize("code", [-2, -15, 130, 143])
def test_a_stop_that_a_person_asked_for_is_no_failure(code: int) -> None:
    found = diagnosed(START + "Loading shards:  67%\n", exit=code)
    assert (found.outcome, found.causes) == (Outcome.HEALTHY, ())


def test_what_a_stopping_server_complains_about_is_no_cause() -> None:
    found = diagnosed(START + FIRED + "Shutting down\n" + traceback("OutOfMemoryError: x"), OOM, exit=0)
    assert found.causes == ()


def test_ctrl_c_while_loading_is_no_failure() -> None:
    assert diagnosed(START + traceback("KeyboardInterrupt"), exit=1).causes == ()


def test_a_failure_before_a_person_stopped_it_is_still_told() -> None:
    found = diagnosed(START + traceback("OutOfMemoryError: x") + "[2026-01-12 10:00:09] Shutting down\n", OOM)
    assert [cause.rule for cause in found.causes] == ["any/oom"]


def test_what_a_server_got_over_before_it_became_ready_is_no_cause() -> None:
    assert diagnosed(START + traceback("OutOfMemoryError: x") + FIRED, OOM).causes == ()


def test_noise_is_no_failure() -> None:
    assert diagnosed(START + FIRED + traceback("ClientError: gone")).causes == ()


def test_an_unknown_traceback_that_a_serving_log_goes_on_after_is_no_failure() -> None:
    log = START + FIRED + traceback("WeirdError: boom") + "[2026-01-12 10:01:00] GET /health 200\n" * 10
    assert diagnosed(log).causes == ()


@pytest.mark.parametrize("code", [0, -2, -15])
def test_an_end_that_supervision_did_not_expect_is_a_cause(code: int) -> None:
    [cause] = diagnosed(START + FIRED, exit=code, expected_running=True).causes
    assert cause.rule == ("any/clean-exit" if code == 0 else "any/killed-by-signal")


def test_the_command_is_rebuilt_from_the_log_and_marked_so() -> None:
    found = diagnosed(START + FIRED)
    assert found.origin is Origin.REBUILT
    assert found.command == ("python3", "-m", "sglang.launch_server", "--model-path", "/m", "--tp-size", "2")


def test_a_given_command_wins_over_the_log() -> None:
    found = diagnosed(START + FIRED, command="A=1 python3 -m sglang.launch_server --model-path /other")
    assert (found.origin, found.command) == (
        Origin.GIVEN,
        ("A=1", "python3", "-m", "sglang.launch_server", "--model-path", "/other"),
    )


def test_a_rules_fix_becomes_the_corrected_command() -> None:
    fix = {"safety": "degrading", "loses": ["memory"], "set": {"--mem-fraction-static": 0.8}}
    mended = rule("sglang/oom", fix=fix, when={"traceback": {"type": "OutOfMemoryError"}})
    found = diagnosed(START + traceback("OutOfMemoryError: x"), mended, command="python3 -m sglang.launch_server -h")
    cause = found.causes[0]
    assert cause.command == ("python3", "-m", "sglang.launch_server", "-h", "--mem-fraction-static", "0.8")
    assert (cause.action, cause.safety, cause.loses) == (Action.CHANGE, Safety.DEGRADING, ("memory",))


def test_an_unknown_flag_is_corrected_by_the_usage_block_in_the_log() -> None:
    log = (
        "usage: launch_server.py [-h] --model-path MODEL_PATH [--port PORT] [--host HOST]\n"
        "                        [--context-length CONTEXT_LENGTH]\n"
        "launch_server.py: error: unrecognized arguments: --contxt-length 8\n"
    )
    found = diagnosed(log, exit=2, command="python3 -m sglang.launch_server --model-path m --contxt-length 8")
    [cause] = found.causes
    assert cause.line is not None
    assert (cause.rule, cause.line.number) == ("any/unknown-argument", 3)
    assert cause.command is not None
    assert cause.command[-2:] == ("--context-length", "8")


def test_a_prompt_that_quotes_an_argument_error_is_no_cause() -> None:
    quoted = "prompt: launch_server.py: error: unrecognized arguments: --foo\n"
    assert diagnosed(START + "Loading shards: 100%\n" + FIRED + quoted).causes == ()


def test_the_engine_is_told_from_the_frames_where_no_line_names_it() -> None:
    log = traceback("WeirdError: x").replace("/a/x.py", "/venv/lib/vllm/engine.py")
    assert diagnosed(log, exit=1).engine is Engine.VLLM


def test_the_same_failure_has_the_same_fingerprint_on_another_rank_at_another_time() -> None:
    one = diagnosed(START + traceback("OutOfMemoryError: 2 GiB", rank="TP0"), OOM, exit=1)
    other = diagnosed(START + "x\n" + traceback("OutOfMemoryError: 7 GiB", rank="TP5"), OOM, exit=-9)
    assert one.fingerprint is not None
    assert one.fingerprint == other.fingerprint


def test_progress_can_be_asked_at_any_time() -> None:
    one = session(*BASE)
    one.feed(START.encode())
    assert one.progress().phase is Phase.STARTING
    one.feed(b"Loading shards:  12%\n")
    assert (one.progress().phase, one.progress().percent) == (Phase.LOADING, 12.0)
    one.feed(FIRED.encode())
    assert one.progress().phase is Phase.READY


def test_a_file_and_its_pieces_give_the_same_diagnosis(tmp_path: Path) -> None:
    log = START + traceback("OutOfMemoryError: x", rank="TP0") + "\nReceived sigquit from a child process.\n"
    (tmp_path / "log").write_text(log)
    whole = Pipeline(RuleSet((*BASE, OOM))).diagnose_file(tmp_path / "log", exit=Exit(code=1))
    pieces = session(*BASE, OOM)
    for at in range(0, len(log), 7):
        pieces.feed(log[at : at + 7].encode())
    pieces.close()
    assert pieces.diagnose(Exit(code=1)).causes == whole.causes
