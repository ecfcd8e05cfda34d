"""A short program always comes back: with its output, a time-out, or the reason why it could not run."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from app.supervise.programs import run_program


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_and_exit_code_are_returned() -> None:
    result = run_program(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"))

    assert (result.outcome, result.code, result.ok) == ("ended", 3, False)
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


def test_a_missing_program_is_an_answer_not_an_error() -> None:
    result = run_program(["/nowhere/no-such-program"])

    assert (result.outcome, result.ok) == ("not-available", False)
    assert "no-such-program" in result.error


def test_a_file_that_is_no_program_is_not_available(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")

    assert run_program([str(tmp_path / "text")]).outcome == "not-available"


def test_a_missing_folder_is_not_available(tmp_path: Path) -> None:
    assert run_program(python(""), cwd=tmp_path / "gone").outcome == "not-available"


def test_words_are_never_read_by_a_shell() -> None:
    result = run_program([*python("import sys; print(sys.argv[1])"), "$HOME; echo `id`"])

    assert result.stdout == "$HOME; echo `id`\n"


def test_it_has_the_environment_and_folder_that_it_is_given(tmp_path: Path) -> None:
    result = run_program(python("import os; print(os.environ.get('A'), os.getcwd())"), env={"A": "b"}, cwd=tmp_path)

    assert result.stdout == f"b {tmp_path.resolve()}\n"


def test_nothing_is_to_be_read_from_standard_input() -> None:
    assert run_program(python("print(repr(input.__name__)); import sys; print(repr(sys.stdin.read()))")).stdout == (
        "'input'\n''\n"
    )


def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "child"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        "print('begun', flush=True)\n"
        "time.sleep(60)\n"
    )
    start = time.monotonic()

    result = run_program(python(code), timeout=3)

    assert (result.outcome, result.code, result.stdout) == ("timed-out", None, "begun\n")
    assert time.monotonic() - start < 20
    assert _gone(int(note.read_text()))


def test_a_child_that_keeps_the_output_open_does_not_hold_us() -> None:
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('done', flush=True)\n"
    )
    start = time.monotonic()

    result = run_program(python(code), timeout=30)

    assert (result.outcome, result.code, result.stdout) == ("ended", 0, "done\n")
    assert time.monotonic() - start < 20


def test_output_beyond_the_cap_is_cut_and_told() -> None:
    result = run_program(python("print('x' * 1_000_000)"), max_output=1000)

    assert (len(result.stdout), result.truncated, result.ok) == (1000, True, True)


def test_output_that_is_no_utf8_is_readable() -> None:
    result = run_program(python(r"import sys; sys.stdout.buffer.write(b'a\xffb')"))

    assert result.stdout == "a\ufffdb"


def _gone(pid: int) -> bool:
    """Gone, or dead and waiting for the init process to see it."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False
