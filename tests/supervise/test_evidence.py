"""What is kept of a dead launch: its own part of the log, bounded, without secrets."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from app.core.model import Exit
from app.supervise.evidence import HEAD, TAIL, keep, log_slice


def test_only_the_launchs_own_part_of_the_log_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"launch before\nmine\nlaunch after\n")

    assert log_slice(log, 14, 19) == b"mine\n"


def test_a_long_log_loses_its_middle_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines = [f"line {number}\n".encode() for number in range(200_000)]
    log.write_bytes(b"".join(lines))
    kept = log_slice(log, 0, log.stat().st_size)

    assert len(kept) < HEAD + TAIL + 100
    assert (kept.startswith(lines[0]), kept.endswith(lines[-1])) == (True, True)
    assert b"bytes left out]\n" in kept


def test_a_log_that_was_rotated_meanwhile_gives_what_is_left(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"the end\n")

    assert log_slice(log, 5_000, 9_000) == b"the end\n"


def test_a_log_that_is_gone_is_told_instead(tmp_path: Path) -> None:
    assert log_slice(tmp_path / "none", 0, 10).startswith(b"[the log could not be kept: ")


def test_secrets_are_taken_out_of_log_and_command(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"Authorization: Bearer sk-abcdefghijklmnopqrstuvwx\n")
    folder = keep(
        tmp_path / "incidents" / "1",
        log=log,
        start=0,
        end=log.stat().st_size,
        words=["HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", "python3", "--api-key", "swordfish"],
        exit=Exit(signal="SIGKILL"),
        diagnosis={"outcome": "failed"},
    )
    written = "".join(path.read_text() for path in sorted(folder.iterdir()))

    assert [path.name for path in sorted(folder.iterdir())] == ["command.json", "diagnosis.json", "exit.json", "log"]
    assert [secret for secret in ("abcdefghijkl", "swordfish") if secret in written] == []
    assert json.loads((folder / "exit.json").read_text())["signal"] == "SIGKILL"


def test_evidence_is_private(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x\n")
    folder = keep(tmp_path / "1", log=log, start=0, end=2, words=["true"], exit=Exit(code=0), diagnosis={})

    modes = {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {0o700, 0o600}
