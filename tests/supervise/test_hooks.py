"""The operator's commands around a server's end and beginning."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from app.supervise.hooks import run_hook

hook = partial(run_hook, server="kimi", port=30000, pid=4711)


def test_a_hook_is_told_of_the_server(tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = "CRASHCART_SERVER", "CRASHCART_PORT", "CRASHCART_PID"
    script = f"import os; open({str(out)!r}, 'w').write(' '.join(os.environ[name] for name in {names}))"

    assert hook([sys.executable, "-c", script], 10) == "done"
    assert out.read_text() == "kimi 30000 4711"


def test_no_shell_sees_a_hook(tmp_path: Path) -> None:
    assert hook(["echo", f"$(touch {tmp_path}/owned)"], 10) == "done"
    assert not (tmp_path / "owned").exists()


def test_a_hook_that_fails_says_its_last_line() -> None:
    script = "import sys; sys.stderr.write('one\\ntoken=hf_abcdefghijklmnopqrstuvwxyz0123456789\\n'); sys.exit(3)"

    assert hook([sys.executable, "-c", script], 10) == "failed with exit code 3: token=[redacted]"


def test_a_hook_that_hangs_is_ended() -> None:
    assert hook(["sleep", "60"], 0.2) == "did not end within 0.2 s and was ended"


def test_a_hook_that_is_not_there_is_told() -> None:
    assert hook(["/nowhere/drain"], 10).startswith("could not be started: ")
