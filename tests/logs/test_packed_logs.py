from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from app.core.errors import UsageError
from app.logs.digest import digest_file
from app.logs.patterns import PatternSet

PATTERNS = PatternSet([r"line \d+"])
TEXT = b"".join(b"line %d\n" % number for number in range(50_000))


def test_a_gzip_file_is_read_as_the_log_in_it(tmp_path: Path) -> None:
    path = tmp_path / "server.log.1.gz"
    path.write_bytes(gzip.compress(TEXT[:100_000]) + gzip.compress(TEXT[100_000:]))
    plain = tmp_path / "server.log"
    plain.write_bytes(TEXT)
    assert digest_file(path, PATTERNS) == digest_file(plain, PATTERNS)


def test_a_gzip_file_that_is_cut_off_is_told_with_a_way_to_save_it(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(TEXT)[:-100])
    with pytest.raises(UsageError, match=r"cut\.gz is a damaged gzip file") as caught:
        digest_file(path, PATTERNS)
    assert caught.value.mend == f"Read what can be saved of it: gzip -dc {path} | crashcart diagnose -"


def test_a_gzip_file_with_wrong_bytes_is_told(tmp_path: Path) -> None:
    path = tmp_path / "bad.gz"
    packed = bytearray(gzip.compress(TEXT))
    packed[len(packed) // 2] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(UsageError, match=r"bad\.gz"):
        digest_file(path, PATTERNS)
