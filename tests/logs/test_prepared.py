from __future__ import annotations

from pathlib import Path

import pytest

from app.logs.digest import LogDigester
from app.logs.patterns import PatternSet
from app.logs.scanner import can_be_kept

pytestmark = pytest.mark.skipif(not can_be_kept(), reason="Hyperscan has no wheel for this machine")

PATTERNS = (r"^error: (?P<what>\w+)", r"(?i)\bfoo(?=bar)", r"^(?P<twice>\w)(?P=twice)")


def found(patterns: PatternSet) -> dict[str, int]:
    digester = LogDigester(patterns)
    digester.feed(b"error: boom\nFOOBAR\naab\n")
    digester.close()
    return {pattern: hits.total for pattern, hits in digester.digest().hits.items()}


def test_a_kept_scanner_finds_what_a_new_one_finds(tmp_path: Path) -> None:
    first = found(PatternSet(PATTERNS, cache=tmp_path))
    kept = PatternSet(PATTERNS, cache=tmp_path)
    assert found(kept) == first == dict.fromkeys(PATTERNS, 1)
    assert "_forms" not in vars(kept)  # nothing was compiled anew


def test_other_patterns_have_another_file(tmp_path: Path) -> None:
    found(PatternSet(PATTERNS, cache=tmp_path))
    assert found(PatternSet(PATTERNS[:1], cache=tmp_path)) == {PATTERNS[0]: 1}
    assert len(list(tmp_path.glob("*.db"))) == 2


@pytest.mark.parametrize(
    "damage", [b"", b"\n", b'{"everywhere": []}\n', b"[1]\nx", b'{"everywhere": [0]}\nnot a database']
)
def test_a_damaged_file_is_compiled_anew(tmp_path: Path, damage: bytes) -> None:
    found(PatternSet(PATTERNS, cache=tmp_path))
    [path] = tmp_path.glob("*.db")
    path.write_bytes(damage)
    assert found(PatternSet(PATTERNS, cache=tmp_path)) == dict.fromkeys(PATTERNS, 1)


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert found(PatternSet(PATTERNS, cache=tmp_path / "file" / "cache")) == dict.fromkeys(PATTERNS, 1)


def test_no_more_than_a_few_files_are_kept(tmp_path: Path) -> None:
    for number in range(12):
        found(PatternSet([f"x{number}"], cache=tmp_path))
    assert len(list(tmp_path.iterdir())) == 8


def test_nothing_is_read_from_or_written_to_a_folder_that_others_may_write(tmp_path: Path) -> None:
    found(PatternSet(PATTERNS, cache=tmp_path))
    tmp_path.chmod(0o777)
    again = PatternSet(PATTERNS, cache=tmp_path)
    assert found(again) == dict.fromkeys(PATTERNS, 1)
    assert "_forms" in vars(again)  # all was compiled anew
    assert found(PatternSet(PATTERNS[:1], cache=tmp_path)) == {PATTERNS[0]: 1}
    assert len(list(tmp_path.iterdir())) == 1
