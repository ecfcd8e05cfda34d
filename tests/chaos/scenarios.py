"""The faults: what is injected, what must come of it, and within how many seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.core.vocabulary import IncidentStatus
from tests.chaos import steps as do
from tests.chaos.stage import PRACTICE, SERVER, Seen
from tests.chaos.steps import Step, at, pause, send, send_worker

KILLED = "killed-by-signal"
TYPO = ("--context-lenght", "4")
RIGHT = ("--context-length", "--context-lenght")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One fault. `expected.verdict` is the incident's category, or a word of what Crashcart says."""

    name: str
    injected: str
    expected: Seen
    seconds: float
    kind: str = "crash"  # crash, hang, half-dead and stall must be detected; "none" is no fault of the server
    steps: Sequence[Step] = ()
    chaos: str = ""  # what goes wrong inside the server: see server.py
    times: int = 1000  # for how many starts
    env: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()  # of the configured command
    changes: tuple[str, ...] = ()  # words that a relaunch may change
    mode: str = "auto"
    options: tuple[str, ...] = ("--no-preflight",)
    server: tuple[str, ...] = SERVER
    serve: bool = False  # the service instead of `run`
    short: bool = False  # part of every test run


def came(state: str, verdict: str, action: str, starts: int) -> Seen:
    return Seen(state, verdict, action, starts)


BACK = came("ready", KILLED, "restarted", 2)

_EXITS = (
    Scenario("exit-0-starting", "exit 0 unasked, before a word", came("ready", "unknown", "restarted", 2), 12,
             chaos="starting:exit 0", times=1),
    Scenario("exit-1-starting", "exit 1 without a word", came("gave-up", "unknown", "needs-human", 1), 10,
             chaos="starting:exit 1", times=1),
    Scenario("exit-2-usage", "misspelt flag, exit 2", came("ready", "unknown-argument", "relaunched", 2), 12,
             flags=TYPO, changes=RIGHT, short=True),
    Scenario("exit-0-loading", "exit 0 unasked at 67 %", came("ready", "unknown", "restarted", 2), 12,
             chaos="loading:exit 0", times=1),
    Scenario("exit-1-loading", "exit 1 at 67 %", came("gave-up", "unknown", "needs-human", 1), 10,
             chaos="loading:exit 1", times=1),
    Scenario("exit-1-warming", "exit 1 while warming", came("gave-up", "unknown", "needs-human", 1), 10,
             chaos="warming:exit 1", times=1),
    Scenario("exit-0-ready", "exit 0 unasked while serving", came("ready", "unknown", "restarted", 2), 14,
             chaos="ready:exit 0", times=1),
    Scenario("exit-2-ready", "exit 2 while serving", came("gave-up", "unknown", "needs-human", 1), 12,
             chaos="ready:exit 2", times=1),
    Scenario("exit-0-settling", "exit 0 unasked while settling", came("ready", "unknown", "restarted", 2), 14,
             chaos="settling:exit 0", times=1),
)  # fmt: skip

_SLOW_LOAD = {"CHAOS_SHARD": "0.4"}
_SIGNALS = (
    Scenario("kill-starting", "SIGKILL at its start", BACK, 12, chaos="starting:signal SIGKILL", times=1, short=True),
    Scenario("kill-loading", "SIGKILL at 67 %", BACK, 14, steps=(at("loading"), send("SIGKILL")), env=_SLOW_LOAD),
    Scenario("segv-loading", "SIGSEGV at 67 %", BACK, 14, steps=(at("loading"), send("SIGSEGV")), env=_SLOW_LOAD),
    Scenario("kill-warming", "SIGKILL while warming", BACK, 14, steps=(at("warming"), send("SIGKILL")),
             env={"CHAOS_WARM": "1"}),
    Scenario("kill-settling", "SIGKILL while settling", BACK, 14, chaos="settling:signal SIGKILL", times=1),
    Scenario("kill-ready", "SIGKILL while serving", BACK, 14, steps=(at("settled"), send("SIGKILL"))),
    Scenario("segv-ready", "SIGSEGV while serving", BACK, 14, steps=(at("settled"), send("SIGSEGV"))),
    Scenario("abrt-ready", "SIGABRT while serving", BACK, 14, steps=(at("settled"), send("SIGABRT"))),
    Scenario("term-ready", "SIGTERM by a stranger while serving", BACK, 14, steps=(at("settled"), send("SIGTERM"))),
    Scenario("int-starting", "SIGINT at its start", BACK, 14, chaos="starting:signal SIGINT", times=1),
    Scenario("practice-kill-67", "practice server, SIGKILL at 67 %", BACK, 20, server=PRACTICE,
             steps=(at("loading"), send("SIGKILL")), env={"PRACTICE_LOAD_SECONDS": "0.3,0.3,1.5"}),
    Scenario("practice-kill-ready", "practice server, SIGKILL while serving", BACK, 20, server=PRACTICE,
             steps=(at("settled"), send("SIGKILL")), env={"PRACTICE_LOAD_SECONDS": "0.3"}),
    Scenario("propose-kill", "SIGKILL in mode propose", came("exited", KILLED, "proposed", 1), 12, mode="propose",
             steps=(at("settled"), send("SIGKILL")), options=("--no-preflight", "--wait-decision", "30")),
    Scenario("propose-approved", "SIGKILL, a person approves the restart", BACK, 14, mode="propose",
             steps=(at("settled"), send("SIGKILL"), do.incident(IncidentStatus.PROPOSED), do.approve),
             options=("--no-preflight", "--wait-decision", "30")),
    Scenario("off-kill", "SIGKILL in mode off", came("exited", KILLED, "none", 1), 12, mode="off",
             steps=(at("settled"), send("SIGKILL")), short=True),
)  # fmt: skip

HUNG_ONLY = came("hung", "hang", "needs-human", 1)
REVIVED = came("ready", "hang", "restarted", 2)
_HANGS = (
    Scenario("stop-ready", "SIGSTOP of the server while serving", REVIVED, 20, "hang",
             (at("settled"), send("SIGSTOP")), short=True),
    Scenario("stop-off", "SIGSTOP in mode off", came("hung", "hang", "none", 1), 16, "hang",
             (at("settled"), send("SIGSTOP"), pause(4)), mode="off"),
    Scenario("stop-propose", "SIGSTOP in mode propose", HUNG_ONLY, 16, "hang",
             (at("settled"), send("SIGSTOP"), pause(4)), mode="propose"),
    Scenario("stop-resumed", "SIGSTOP, SIGCONT after the hang was told", came("ready", "hang", "none", 1), 16, "hang",
             (at("settled"), send("SIGSTOP"), do.until_hang, send("SIGCONT")),
             options=("--no-preflight", "--hang-restart", "30")),
    Scenario("deaf-health", "health accepts and never answers", REVIVED, 20, "hang", chaos="ready:deaf", times=1),
    Scenario("health-503", "health answers 503 for ever", REVIVED, 20, "hang", chaos="ready:status 503", times=1),
    Scenario("deaf-busy", "deaf health, but the log goes on", came("hung", "health", "none", 1), 16, "hang",
             (at("settled"), pause(7)), chaos="settling:decode;ready:deaf"),
    Scenario("deaf-spinning", "deaf health, silent log, processor in use", HUNG_ONLY, 18, "hang",
             (at("settled"), pause(7)), chaos="ready:deaf;ready:spin"),
    Scenario("slow-health", "health answers after 1 s, busy server", came("ready", "health answered 200", "none", 1),
             14, "none", (at("settled"), pause(4)), chaos="settling:decode;ready:slow 1.0"),
    Scenario("slow-health-timeout", "health answers after 1.3 s, busy server", came("ready", "health answered 200",
             "none", 1), 16, "none", (at("settled"), pause(6)), chaos="settling:decode;ready:slow 1.3"),
    Scenario("stop-worker", "SIGSTOP of one worker, health still 200", came("degraded", "is stopped", "none", 1), 14,
             "hang", (at("settled"), send_worker("SIGSTOP")), chaos="starting:worker"),
    Scenario("half-dead-200", "worker killed, health still 200", came("degraded", "has ended", "none", 1), 14,
             "half-dead", (at("settled"), send_worker("SIGKILL")), chaos="starting:worker", short=True),
    Scenario("half-dead-503", "worker killed, health 503", REVIVED, 18, "half-dead",
             (at("settled"), send_worker("SIGKILL")), chaos="starting:worker;ready:status 503", times=1),
    Scenario("half-dead-deaf", "worker killed, health deaf", REVIVED, 18, "half-dead",
             (at("settled"), send_worker("SIGKILL")), chaos="starting:worker;ready:deaf", times=1),
    Scenario("practice-half-dead", "practice server, its scheduler killed", came("degraded", "has ended", "none", 1),
             18, "half-dead", (at("settled"), send_worker("SIGKILL")), server=PRACTICE,
             env={"PRACTICE_LOAD_SECONDS": "0.3"}),
    Scenario("cause-then-hang", "the log tells the cause, then silence", came("ready", "unknown-argument",
             "relaunched", 2), 18, "hang", chaos="starting:say typo;starting:sleep", times=1, flags=TYPO,
             changes=RIGHT),
    Scenario("stall-loading", "no progress at 67 %", came("stalled", "67%", "none", 1), 12, "stall",
             chaos="loading:sleep", short=True),
    Scenario("stop-loading", "SIGSTOP at 67 %", came("stalled", "67%", "none", 1), 12, "stall",
             chaos="loading:signal SIGSTOP"),
)  # fmt: skip

_PROCESSES = (
    Scenario("stubborn-hang", "a hung server that ignores SIGTERM", REVIVED, 24, "hang",
             chaos="starting:stubborn;ready:deaf", times=1),
    Scenario("stubborn-stop", "a person stops a server that ignores SIGTERM", came("stopped", "stopped by a person",
             "none", 1), 14, "none", (at("settled"), do.stop_crashcart, do.ended), chaos="starting:stubborn",
             short=True),
    Scenario("daemonises", "it forks away, the parent says exit 0", came("gave-up", "unknown", "restarted needs-human",
             4), 20, chaos="starting:daemon"),
    Scenario("other-session", "grandchildren in other sessions, then SIGKILL", BACK, 16,
             steps=(at("settled"), send("SIGKILL")), chaos="starting:session;loading:session"),
    Scenario("fork-storm", "30 children in sessions of their own, then exit 0", came("ready", "unknown", "restarted",
             2), 20, chaos="loading:forks 30;loading:exit 0", times=1),
    Scenario("port-held", "a stranger takes the port while it is down", came("gave-up", KILLED,
             "refused by port-free", 1), 16, steps=(at("settled"), send("SIGKILL"), do.take_port)),
    Scenario("program-missing", "the program is not there", came("-", "was not found", "none", 0), 8,
             server=("/nowhere/sglang", "serve"), steps=(do.ended,), short=True),
    Scenario("program-missing-serve", "the program is not there (service)", came("gave-up", "missing-dependency",
             "needs-human", 0), 12, server=("/nowhere/sglang", "serve"), serve=True),
)  # fmt: skip

_GROUND = (
    Scenario("log-folder-removed", "the kept log's folder is removed, then SIGKILL", BACK, 16,
             steps=(at("settled"), do.remove_log_folder, send("SIGKILL"))),
    Scenario("log-unwritable", "the log can't be written any more, then SIGKILL", came("gave-up", "can't be written",
             "restarted needs-human", 1), 16, steps=(at("settled"), do.unwritable_log, send("SIGKILL"))),
    Scenario("database-locked-3s", "the database is locked for 3 s at the death", BACK, 20,
             steps=(at("settled"), do.lock_database(3), send("SIGKILL"))),
    Scenario("database-locked-14s", "the database is locked for 14 s at the death", BACK, 36,
             steps=(at("settled"), do.lock_database(14), send("SIGKILL"))),
    Scenario("two-faults", "misspelt flag, then SIGKILL while settling", came("ready", KILLED, "relaunched restarted",
             3), 18, flags=TYPO, changes=RIGHT, steps=(do.attempts(1), at("settling"), send("SIGKILL"))),
    Scenario("stop-in-backoff", "a person stops it while it waits for the restart", came("exited", KILLED, "none", 1),
             12, steps=(at("settled"), send("SIGKILL"), do.deaths(1), do.stop_crashcart, do.ended),
             env={"CHAOS_DELAY": "20"}),
)  # fmt: skip

_FIXES = (
    Scenario("practice-wrong-flag", "practice server, a misspelt flag", came("ready", "unknown-argument", "relaunched",
             2), 24, server=PRACTICE, flags=("--context-lenght", "2048"), changes=RIGHT,
             env={"PRACTICE_LOAD_SECONDS": "0.3"}),
    Scenario("fix-makes-worse", "the changed launch dies earlier", came("gave-up", "rolled back",
             "relaunched needs-human", 2), 16, flags=("--mem-fraction-static", "0.86"), changes=("0.86", "0.78"),
             options=("--no-preflight", "--allow", "degrading"), env={"CHAOS_WEIGH": "worse"}),
    Scenario("opposite-fixes", "too much memory, then too little", came("gave-up", "opposite moves",
             "relaunched needs-human", 2), 16, flags=("--mem-fraction-static", "0.86"), changes=("0.86", "0.78"),
             options=("--no-preflight", "--allow", "degrading"), env={"CHAOS_WEIGH": "both"}),
    Scenario("one-step-down", "too much memory, a smaller share helps", came("ready", "gpu-out-of-memory",
             "relaunched", 2), 16, flags=("--mem-fraction-static", "0.86"), changes=("0.86", "0.78"),
             options=("--no-preflight", "--allow", "degrading")),
    Scenario("degrading-not-allowed", "a smaller share would help, but only safe is allowed", came("exited",
             "gpu-out-of-memory", "proposed", 1), 14, flags=("--mem-fraction-static", "0.86")),
    Scenario("same-request-twice", "the same request crashes it again and again", came("gave-up",
             "request-triggered-crash", "needs-human", 1), 16, chaos="ready:crash request"),
    Scenario("restart-budget", "SIGKILL at each start", came("gave-up", KILLED, "restarted needs-human", 4), 20,
             chaos="loading:signal SIGKILL"),
    Scenario("relaunch-budget", "a misspelt flag, and no relaunch allowed", came("gave-up", "unknown-argument",
             "needs-human", 1), 12, flags=TYPO, options=("--no-preflight", "--max-relaunches", "0")),
    Scenario("trap-killed", "the log imitates failures, flags and shell, then SIGKILL", came("ready", KILLED,
             "restarted", 2), 16, chaos="settling:say trap;ready:signal SIGKILL", times=1),
    Scenario("trap-exit-1", "the log imitates failures, flags and shell, then exit 1", came("gave-up",
             "unknown", "needs-human", 1), 14, chaos="loading:say trap;loading:exit 1", short=True),
    Scenario("trap-propose", "the same in mode propose", came("gave-up", "unknown", "needs-human", 1), 14,
             mode="propose", chaos="loading:say trap;loading:exit 1"),
)  # fmt: skip

_CRASHCART = (
    Scenario("crashcart-killed-ready", "SIGKILL of Crashcart, started again beside the living server", came("ready",
             "still runs from before", "none", 1), 16, "none",
             (at("settled"), do.kill_crashcart, do.not_beside, do.end_it_as_told)),
    Scenario("crashcart-killed-adopts", "SIGKILL of the service, started again", came("ready", "health answered",
             "none", 1), 20, "none", (at("settled"), do.kill_crashcart, do.again), serve=True),
    Scenario("crashcart-killed-both", "SIGKILL of the service and of the server, started again", came("ready", "-",
             "none", 2), 22, "none", (at("settled"), do.kill_everything, do.again), serve=True),
    Scenario("crashcart-killed-before-decision", "the service gets SIGKILL after a death, before its decision",
             came("ready", KILLED, "none", 2), 22, env={"CHAOS_DIE": "before-decision"}, serve=True,
             steps=(at("settled"), send("SIGKILL"), do.ended, do.again)),
    Scenario("crashcart-killed-before-relaunch", "the service gets SIGKILL between decision and relaunch",
             came("exited", "unknown-argument", "relaunched proposed", 2), 22, env={"CHAOS_DIE": "before-launch"},
             flags=TYPO, serve=True, steps=(do.ended, do.again)),
    Scenario("crashcart-killed-in-launch", "the service gets SIGKILL before it noted the new process",
             came("ready", "health answered", "none", 1), 22, "none", env={"CHAOS_DIE": "after-spawn"}, serve=True,
             steps=(do.ended, do.again)),
    Scenario("crashcart-killed-in-launch-run", "the same with run: it refuses to start beside it",
             came("starting", "still runs from before", "none", 1), 22, "none", env={"CHAOS_DIE": "after-spawn"},
             steps=(do.ended, do.not_beside, do.end_it_as_told)),
    Scenario("crashcart-killed-after-relaunch", "SIGKILL of the service right after the relaunch", came("ready",
             "unknown-argument", "relaunched", 2), 22, flags=TYPO, changes=RIGHT, serve=True,
             steps=(do.starts(2), do.kill_crashcart, do.again)),
    Scenario("crashcart-killed-settling", "SIGKILL of the service while the fix settles", came("ready",
             "unknown-argument", "relaunched", 2), 22, flags=TYPO, changes=RIGHT, serve=True,
             steps=(do.attempts(1), at("settling"), do.kill_crashcart, do.again)),
    Scenario("two-crashcarts", "a second Crashcart on one state folder", came("ready", "already acts for", "none", 1),
             16, "none", (at("settled"), do.second_is_refused), short=True),
    Scenario("number-given-anew", "the dead server's number is a stranger's now", came("ready", "-", "none", 2), 20,
             "none", (at("settled"), do.kill_everything, do.number_given_anew, do.again, do.starts(2),
             do.stranger_lives), serve=True),
    Scenario("person-stops-serve", "a person's stop while the service waits for the restart", came("exited", KILLED,
             "none", 1), 16, steps=(at("settled"), send("SIGKILL"), do.deaths(1), do.wish_stop), serve=True,
             env={"CHAOS_DELAY": "20"}),
)  # fmt: skip

SCENARIOS = (*_EXITS, *_SIGNALS, *_HANGS, *_PROCESSES, *_GROUND, *_FIXES, *_CRASHCART)
