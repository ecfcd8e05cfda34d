"""What is kept of a dead launch before the next one overwrites it: its part of the log, command, exit, diagnosis."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.core.model import Exit
from app.core.redact import redact_text, redact_words
from app.supervise.surroundings import Reading

HEAD = 256 * 1024  # bytes of a launch's beginning that are kept: banner, arguments, first errors
TAIL = 1024 * 1024  # and of its end
_LONGEST_LINE = 64 * 1024


def keep(
    folder: Path,
    *,
    log: Path,
    start: int,
    end: int,
    words: Sequence[str],
    exit: Exit,
    diagnosis: Mapping[str, object],
    name: str = "log",
    surroundings: Sequence[Reading] = (),
) -> Path:
    """Writes the evidence of one launch into `folder` and returns it.

    `name` is the file that the log's part goes to. Secrets and dumped prompts are taken out. Files are written whole
    under another name first: what stands there after a crash is complete.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(folder / name, log_slice(log, start, end))
    _write_json(folder / "command.json", {"command": list(redact_words(words))})
    _write_json(folder / "exit.json", {"code": exit.code, "signal": exit.signal, "text": str(exit)})
    _write_json(folder / "diagnosis.json", diagnosis)
    if surroundings:
        found = {one.probe: {"available": one.available, "text": one.text} for one in surroundings}
        _write_json(folder / "surroundings.json", found)
    return folder


def log_slice(log: Path, start: int, end: int) -> bytes:
    """A launch's part of the kept log, its middle left out where it is long, redacted line by line."""
    try:
        with log.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < end:  # it was rotated meanwhile: what is left is the end
                start, end = 0, size
            file.seek(start)
            if end - start <= HEAD + TAIL:
                parts = [file.read(end - start)]
            else:
                head = file.read(HEAD)
                file.seek(end - TAIL)
                parts = [head.rpartition(b"\n")[0] + b"\n", _after_first_line(file.read(TAIL))]
    except OSError as error:
        return f"[the log could not be kept: {error}]\n".encode()
    left_out = f"[{end - start - sum(map(len, parts))} bytes left out]\n".encode()
    return left_out.join(b"".join(map(_redacted, part.splitlines(keepends=True))) for part in parts)


def _after_first_line(data: bytes) -> bytes:
    return data.partition(b"\n")[2] or data


def _redacted(line: bytes) -> bytes:
    text = line.decode("utf-8", "replace")
    if len(text) > _LONGEST_LINE:
        text = text[:_LONGEST_LINE] + " [cut]\n"
    return redact_text(text).encode("utf-8", "replace")


def _write_json(path: Path, value: Mapping[str, object]) -> None:
    _write(path, json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n")


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
