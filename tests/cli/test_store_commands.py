"""`status`, `wait`, `report` and `incidents` as they are typed."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.core.model import Diagnosis, Exit, Fix, Progress
from app.core.text import strip_ansi
from app.core.vocabulary import Engine, Phase, Safety, ServerState
from app.core.wording import ago, changes, shell
from app.store.store import Store
from app.store.words import AttemptKind, Decision

Asked = Callable[..., Any]
Dying = Callable[..., tuple[int, int]]
Diagnosing = Callable[..., Diagnosis]
CRASHCART = [sys.executable, "-c", "from app.cli.main import main; main()"]
EVIL = "\x1b]0;owned\x07\x1b[2Jready\rfake\nsecond line\u202e"


@pytest.fixture
def story(store: Store, dies: Dying) -> int:
    """An incident with two failed launches and a third that held."""
    _, incident = dies(("A=1", "serve", "--num-tokens", "16"))
    first = store.begin_attempt(incident, AttemptKind.RELAUNCH, ["A=1", "serve", "--tokens", "16"], rule="r1")
    dies(("A=1", "serve", "--tokens", "16"), attempt_id=first, fingerprint="fp-2")
    good = ["A=1", "serve", "--tokens", "16", "--steps", "3"]
    second = store.begin_attempt(incident, AttemptKind.RELAUNCH, good, rule="r2")
    store.settled(store.begin_launch("kimi", good, None, attempt_id=second), "ready for 30 s")
    return incident


@pytest.fixture
def proposed(store: Store, dies: Dying) -> tuple[int, int]:
    """An incident and the fix that it proposes."""
    launch, incident = dies(("serve", "--num-tokens", "16"))
    fix = Fix(rename={"--num-tokens": "--tokens"})
    guards = ["port: 30000 is free"]
    fix_id = store.propose(
        incident, fix, ["serve", "--tokens", "16"], Safety.SAFE, guards, title="Rename it", launch_id=launch
    )
    return incident, fix_id


# -- status


def test_status_of_an_empty_folder_says_how_to_begin(asked: Asked) -> None:
    assert asked("status").out == "No server yet. Start one with: crashcart run -- LAUNCH COMMAND\n"


def test_status_in_a_pipe_is_one_line_a_server(store: Store, asked: Asked) -> None:
    with store.lock_server("kimi", engine=Engine.SGLANG):
        store.begin_launch("kimi", ["serve"], Engine.SGLANG)
        store.set_state("kimi", ServerState.LOADING, "shard 67 of 100", Progress(Phase.LOADING, 67.0))
        said = asked("status")

    header, row = said.out.splitlines()
    assert header.split("\t") == ["SERVER", "ENGINE", "STATE", "PROGRESS", "SINCE", "PID", "EVIDENCE"]
    assert row.split("\t") == ["kimi", "sglang", "loading", "67 %", "0 s ago", "", "shard 67 of 100"]


def test_status_json_is_the_server_object(store: Store, asked: Asked) -> None:
    with store.lock_server("kimi", engine=Engine.SGLANG):
        store.begin_launch("kimi", ["A=1", "serve"], Engine.SGLANG)
        store.launch_started(1, os.getpid())
        store.set_state("kimi", ServerState.LOADING, "shard 67 of 100", Progress(Phase.LOADING, 67.0, "67%"))
        server = asked("status", "--json").json

    assert {key: server[key] for key in ("name", "engine", "state", "evidence", "pid", "command")} == {
        "name": "kimi",
        "engine": "sglang",
        "state": "loading",
        "evidence": "shard 67 of 100",
        "pid": os.getpid(),
        "command": ["A=1", "serve"],
    }
    assert server["progress"] == {"phase": "loading", "percent": 67.0, "text": "67%"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", server["since"])
    assert server["last_good_command"] is None


def test_status_tells_when_nobody_supervises_any_more(store: Store, asked: Asked) -> None:
    store.begin_launch("kimi", ["serve"], None)

    server = asked("status", "--json").json

    assert (server["state"], server["supervised"]) == ("exited", False)
    assert server["evidence"].startswith("gone: neither its process nor the Crashcart")


def test_the_state_folder_may_be_named_after_the_command(store: Store, asked: Asked, tmp_path: Path) -> None:
    store.begin_launch("kimi", ["serve"], None)

    assert "kimi" in asked("status", "--state", str(store.state), folder=tmp_path / "other").out


# -- wait


def test_wait_prints_the_death_the_card_and_the_proposal(proposed: tuple[int, int], asked: Asked) -> None:
    said = asked("wait", "kimi", "--timeout", "5")

    assert said.code == 1
    assert said.out.startswith("kimi: exit code 1 at loading 67 %\n")
    assert "EAGLE needs --speculative-num-steps" in said.out
    assert f"Proposed fix {proposed[1]} (safe): Rename it" in said.out
    assert f"crashcart incidents approve {proposed[0]}" in said.out


def test_wait_json_is_one_object(proposed: tuple[int, int], asked: Asked) -> None:
    said = asked("wait", "kimi", "--json")

    answer = said.json
    assert (said.code, answer["reached"], answer["state"]) == (1, False, "exited")
    assert answer["diagnosis"]["causes"][0]["rule"] == "sglang/steps-missing"
    assert answer["proposal"]["fix_id"] == proposed[1]


def test_wait_ready_is_0(store: Store, asked: Asked) -> None:
    with store.lock_server("kimi"):
        store.begin_launch("kimi", ["serve"], None)
        store.set_state("kimi", ServerState.READY, "health answered 200 in 0.1 s")
        said = asked("wait", "kimi")

    assert (said.code, said.out) == (0, "kimi: ready: health answered 200 in 0.1 s\n")


def test_wait_time_up_is_4(store: Store, asked: Asked) -> None:
    with store.lock_server("kimi"):
        store.begin_launch("kimi", ["serve"], None)
        said = asked("wait", "kimi", "--timeout", "200ms")

    assert said.code == 4
    assert "not ready within 0 s: starting" in said.out


def test_wait_until_down_is_0_for_a_dead_server(dies: Dying, asked: Asked) -> None:
    dies()

    assert asked("wait", "kimi", "--until", "down").code == 0


@pytest.mark.parametrize(
    "words", [("wait", "nobody"), ("wait", "kimi", "--timeout", "soon"), ("wait", "kimi", "--until", "up"), ("wait",)]
)
def test_wait_on_something_wrong_is_2(store: Store, asked: Asked, words: tuple[str, ...]) -> None:
    store.begin_launch("kimi", ["serve"], None)

    said = asked(*words)

    assert (said.code, said.out) == (2, "")
    assert said.err


def until_it_waits(process: subprocess.Popen[str]) -> None:
    """Until the process has the database open, and a moment longer."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        opened = [str(link.readlink()) for link in Path(f"/proc/{process.pid}/fd").iterdir() if link.is_symlink()]
        if any(name.endswith("crashcart.db") for name in opened):
            time.sleep(0.3)
            return
        time.sleep(0.05)


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks into /proc")


@needs_proc
def test_ctrl_c_ends_a_wait_without_a_traceback(store: Store) -> None:
    with store.lock_server("kimi"):
        store.begin_launch("kimi", ["serve"], None)
        words = [*CRASHCART, "wait", "kimi", "--state", str(store.state)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(3)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=10)

    assert (process.returncode, out, err) == (130, "", "")


@needs_proc
def test_a_wait_process_returns_promptly_after_the_death(store: Store, diagnosed: Diagnosing) -> None:
    words = [*CRASHCART, "wait", "kimi", "--state", str(store.state), "--timeout", "30"]
    with store.lock_server("kimi"):
        launch = store.begin_launch("kimi", ["serve"], None)
        store.set_state("kimi", ServerState.LOADING, "67 %", Progress(Phase.LOADING, 67.0))
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            time.sleep(4)
            store.record_death(launch, Exit(signal="SIGKILL"), Phase.LOADING, diagnosed(), decision=Decision.NONE)
            begin = time.monotonic()
            out, _ = process.communicate(timeout=10)
            took = time.monotonic() - begin

    assert out.startswith("kimi: killed by SIGKILL at loading 67 %\n")
    assert took < 2  # a second is the promise; machines that run tests beside each other are slower


# -- report


def test_report_of_a_loading_server_is_the_truth(store: Store, asked: Asked) -> None:
    with store.lock_server("kimi"):
        store.begin_launch("kimi", ["serve"], None)
        store.set_state("kimi", ServerState.LOADING, "shard 67 of 100", Progress(Phase.LOADING, 67.0))
        said = asked("report", "crashed")

    assert (said.code, said.out) == (0, "kimi: not crashed: loading 67 % (shard 67 of 100)\n")


def test_report_of_a_dead_server_shows_the_card(dies: Dying, asked: Asked) -> None:
    _, incident = dies()

    said = asked("report", "crashed", "--server", "kimi")

    assert said.code == 1
    assert "EAGLE needs --speculative-num-steps" in said.out
    assert said.out.endswith(f"More: crashcart incidents show {incident}\n")


def test_report_json_holds_server_and_diagnosis(dies: Dying, asked: Asked) -> None:
    _, incident = dies()

    answer = asked("report", "crashed", "--json").json

    assert (answer["crashed"], answer["server"]["name"], answer["incident"]) == (True, "kimi", incident)
    assert answer["diagnosis"]["causes"][0]["category"] == "missing-argument"


def test_report_without_any_server_is_2(asked: Asked) -> None:
    said = asked("report", "crashed")

    assert (said.code, said.out) == (2, "")
    assert "crashcart diagnose LOG" in said.err


# -- incidents


def test_the_list_is_one_line_an_incident(story: int, asked: Asked) -> None:
    header, row = asked("incidents", "list").out.splitlines()

    assert header.split("\t") == ["ID", "SERVER", "STATUS", "CATEGORY", "UPDATED", "TITLE"]
    assert row.split("\t") == [
        str(story),
        "kimi",
        "resolved",
        "missing-argument",
        "0 s ago",
        "EAGLE needs --speculative-num-steps",
    ]


def test_incidents_alone_is_the_list(story: int, asked: Asked) -> None:
    assert asked("incidents").out == asked("incidents", "list").out


def test_the_list_is_filtered(story: int, asked: Asked) -> None:
    assert asked("incidents", "list", "--status", "open").out == "No such incidents.\n"
    assert asked("incidents", "list", "--server", "kimi", "--json").json["id"] == story


def test_an_empty_list_says_so(asked: Asked) -> None:
    assert asked("incidents").out == "No incidents.\n"


def test_show_tells_each_launch_by_what_changed(story: int, asked: Asked) -> None:
    lines = asked("incidents", "show", str(story)).out.splitlines()

    assert "    A=1 serve --num-tokens 16" in lines
    assert "    - --num-tokens 16" in lines
    assert "    + --tokens 16" in lines
    assert "    + --steps 3" in lines


def test_all_that_is_known_of_an_incident_goes_into_one_archive(
    store: Store, story: int, asked: Asked, tmp_path: Path
) -> None:
    (store.evidence_folder(story) / "launch-1").mkdir(parents=True, exist_ok=True)
    (store.evidence_folder(story) / "launch-1" / "log").write_text("the log\n")
    (store.evidence_folder(story) / "launch-1" / "link").symlink_to("/etc/hostname")
    out = tmp_path / "bundle.tar.gz"
    said = asked("incidents", "bundle", str(story), "--output", str(out))

    assert said.out.startswith(f"Written: {out}. ")
    with tarfile.open(out) as archive:
        names = archive.getnames()
        told = archive.extractfile(names[0])
        assert told is not None
        assert json.load(told)["id"] == story
    assert names == [f"incident-{story}/incident.json", f"incident-{story}/launch-1/log"]


def test_an_archive_that_can_not_be_written_leaves_nothing_behind(story: int, asked: Asked, tmp_path: Path) -> None:
    said = asked("incidents", "bundle", str(story), "--output", str(tmp_path / "none" / "x.tar.gz"))

    assert (said.code, "can't be written" in said.err) == (2, True)


def test_a_message_that_reached_nobody_is_told_with_its_incident(store: Store, story: int, asked: Asked) -> None:
    alert = store.queue_alert(story, "opened", {})
    assert alert is not None
    store.alert_failed(alert, "Slack answered 404", None)
    assert (
        "a message about this could not be delivered: Slack answered 404\n"
        in asked("incidents", "show", str(story)).out
    )


def test_show_tells_each_failed_launch_by_its_cause_and_the_running_one_as_such(
    story: int, store: Store, asked: Asked
) -> None:
    store.launch_started(3, os.getpid())
    store.set_state("kimi", ServerState.READY, "health answered 200", Progress(Phase.READY))

    out = asked("incidents", "show", str(story)).out

    assert out.count("    → EAGLE needs --speculative-num-steps\n") == 2
    assert re.search(r"Launch 3 \(.*\): runs, ready\n", out)


def test_what_is_resolved_needs_no_next_step(story: int, asked: Asked) -> None:
    assert "Next: nothing, this is resolved." in asked("incidents", "show", str(story)).out


def test_the_proof_points_into_the_copy_that_was_kept(store: Store, dies: Dying, asked: Asked) -> None:
    launch, incident = dies()
    log = store.evidence_folder(incident) / f"launch-{launch}" / "log"
    log.parent.mkdir()
    log.write_text("the output of this launch\n")

    for words in (("wait", "kimi"), ("incidents", "show", str(incident)), ("report", "crashed")):
        assert f"{log}:12" in asked(*words).out


def test_show_has_card_timeline_and_evidence(story: int, store: Store, asked: Asked) -> None:
    folder = store.evidence_folder(story)

    out = asked("incidents", "show", str(story)).out

    assert "EAGLE needs --speculative-num-steps" in out
    assert re.search(r"resolved +ready for 30 s", out)
    assert out.endswith(f"Evidence: {folder}\n")


def test_show_json_is_the_incident_object(story: int, asked: Asked) -> None:
    incident = asked("incidents", "show", str(story), "--json").json

    assert set(incident) >= {
        "id", "server", "status", "category", "title", "fingerprint", "opened_at", "updated_at", "resolved_at",
        "regressed", "launches", "proposal", "timeline",
    }  # fmt: skip
    assert set(incident["launches"][0]) >= {"id", "command", "started_at", "phase", "exit", "diagnosis"}
    assert [launch["exit"] for launch in incident["launches"]] == [
        {"code": 1, "signal": None},
        {"code": 1, "signal": None},
        None,
    ]
    assert set(incident["timeline"][0]) == {"at", "kind", "text"}


def test_show_json_holds_the_proposal(proposed: tuple[int, int], asked: Asked) -> None:
    incident, fix_id = proposed

    proposal = asked("incidents", "show", str(incident), "--json").json["proposal"]

    assert (proposal["fix_id"], proposal["safety"], proposal["guards"]) == (fix_id, "safe", ["port: 30000 is free"])
    assert proposal["fix"]["rename"] == {"--num-tokens": "--tokens"}
    assert proposal["command"] == ["serve", "--tokens", "16"]


def test_approving_is_written_down_and_without_a_run_says_how_to_start(
    proposed: tuple[int, int], store: Store, asked: Asked
) -> None:
    said = asked("incidents", "approve", str(proposed[0]))

    decision = store.claim_decision("kimi")
    assert said.code == 0
    assert "crashcart run --name kimi -- serve --tokens 16" in said.out
    assert decision is not None
    assert (decision.wish, decision.proposal.id) == ("approve", proposed[1])


def test_approving_beside_a_run_says_who_carries_it_out(proposed: tuple[int, int], store: Store, asked: Asked) -> None:
    with store.lock_server("kimi"):
        said = asked("incidents", "approve", str(proposed[0]), "--fix", str(proposed[1]))

    assert f"Crashcart (pid {os.getpid()}), which acts for kimi, carries it out." in said.out


def test_rejecting_is_written_down(proposed: tuple[int, int], store: Store, asked: Asked) -> None:
    said = asked("incidents", "reject", str(proposed[0]), "--json")

    decision = store.claim_decision("kimi")
    assert said.json["decision"] == "reject"
    assert decision is not None
    assert decision.wish == "reject"


def test_a_stale_decision_is_1_and_says_what_is_proposed(proposed: tuple[int, int], asked: Asked) -> None:
    said = asked("incidents", "approve", str(proposed[0]), "--fix", "99")

    assert (said.code, said.out) == (1, "")
    assert f"that is fix {proposed[1]}" in said.err


def test_deciding_where_nothing_is_proposed_is_1(story: int, asked: Asked) -> None:
    said = asked("incidents", "approve", str(story))

    assert said.code == 1
    assert "proposes nothing to decide on" in said.err


@pytest.mark.parametrize("words", [("show", "7"), ("approve", "7"), ("reject", "7"), ("show", "x"), ("show",)])
def test_a_wrong_incident_is_2(asked: Asked, words: tuple[str, ...]) -> None:
    said = asked("incidents", *words)

    assert (said.code, said.out) == (2, "")
    assert said.err


# -- all of them


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("wait",),
        ("report",),
        ("incidents",),
        ("incidents", "list"),
        ("incidents", "show"),
        ("incidents", "approve"),
        ("incidents", "reject"),
    ],
)
def test_help_has_an_example(asked: Asked, words: tuple[str, ...]) -> None:
    said = asked(*words, "--help")

    assert said.code == 0
    assert f"crashcart {words[0]}" in said.out.split("Example:")[1]


@pytest.mark.parametrize("words", [("status",), ("wait", "kimi"), ("report", "down"), ("incidents", "show", "1")])
def test_texts_of_a_log_can_not_steer_the_terminal(store: Store, dies: Dying, asked: Asked, words: tuple[str]) -> None:
    _, incident = dies()
    store.add_transition("kimi", "note", EVIL, incident_id=incident)
    store.needs_human(incident, EVIL)

    out = asked(*words).out

    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "\nsecond line" not in out


def test_a_database_that_is_damaged_is_2_without_a_traceback(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "crashcart.db").write_bytes(b"no database at all, sorry " * 50)

    said = asked("status", folder=tmp_path)

    assert (said.code, said.out) == (2, "")
    assert "is damaged" in said.err
    assert "Traceback" not in said.err


def on_terminal(*words: str) -> str:
    """What a command prints on a terminal of 100 columns."""
    main, other = pty.openpty()
    env = {**os.environ, "COLUMNS": "100", "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen([*CRASHCART, *words], stdout=other, env=env) as process:
        os.close(other)
        printed = b""
        while select.select([main], [], [], 30)[0]:
            try:
                block = os.read(main, 4096)
            except OSError:
                break
            if not block:
                break
            printed += block
    os.close(main)
    assert process.returncode == 0
    return strip_ansi(printed.decode())


def test_a_terminal_gets_an_aligned_table(dies: Dying, store: Store) -> None:
    dies(server="a")
    dies(server="long-name")

    lines = on_terminal("--state", str(store.state), "incidents").splitlines()

    places = {line.index("open") for line in lines[1:3]}
    assert lines[0].split() == ["id", "server", "status", "category", "updated", "title"]
    assert places == {lines[0].index("status")}


@pytest.mark.parametrize(
    ("age", "text"), [(0.4, "0 s ago"), (59, "59 s ago"), (61, "1 min ago"), (7300, "2 h ago"), (200_000, "2 d ago")]
)
def test_ages_are_told_as_people_say_them(age: float, text: str) -> None:
    now = datetime(2026, 1, 12, tzinfo=UTC)

    assert ago(now - timedelta(seconds=age), now) == text


def test_a_time_from_a_clock_that_runs_ahead_is_now() -> None:
    now = datetime(2026, 1, 12, tzinfo=UTC)

    assert ago(now + timedelta(seconds=5), now) == "0 s ago"


def test_a_command_is_shown_ready_to_paste() -> None:
    assert shell(["A=x y", "python3", "--json", '{"a": 1}', "--x=a b"]) == (
        "A='x y' python3 --json '{\"a\": 1}' '--x=a b'"
    )


def test_changes_name_what_went_and_what_came() -> None:
    assert list(changes(["serve", "--a", "1"], ["serve", "--b", "1", "--c"])) == ["- --a 1", "+ --b 1 --c"]


def test_json_of_a_hostile_text_is_valid_json(store: Store, dies: Dying, asked: Asked) -> None:
    _, incident = dies()
    store.needs_human(incident, EVIL)

    (line,) = asked("incidents", "show", str(incident), "--json").out.splitlines()

    assert json.loads(line)["timeline"][-1]["text"] == EVIL
