from __future__ import annotations

import pytest

from app.rules.version import Version, in_range, read_version, valid_range


@pytest.mark.parametrize(
    ("version", "spec", "inside"),
    [
        ("0.5.9", ">=0.4", True),
        ("0.3.6", ">=0.4", False),
        ("0.5.23", ">0.5.9", True),
        ("0.5.9", ">=0.5.3,<0.5.9", False),
        ("0.5.9.post1", "==0.5.9", True),
        ("0.5.9", "==0.5.*", True),
        ("0.6.0", "!=0.5.*", True),
        ("0.5", "==0.5.0", True),
        ("0.5.0rc1", ">=0.5.0", False),
        ("0.32.0+cpu", "<=0.32", True),
        ("v0.11.1", ">=0.11", True),
        ("1.2.3", "*", True),
    ],
)
def test_a_version_lies_in_a_range_by_its_numbers(version: str, spec: str, inside: bool) -> None:
    known = read_version(version)

    assert known is not None
    assert in_range(known, spec) is inside


def test_a_commit_is_no_version() -> None:
    assert read_version("dev-3f2a91") is None


def test_a_post_release_counts_as_its_release() -> None:
    assert read_version("0.5.9.post1") == Version((0, 5, 9))


@pytest.mark.parametrize("spec", [">=0.4", ">= 0.5.3 , < 0.6", "==0.5.*", "", "*"])
def test_ranges_that_can_be_read(spec: str) -> None:
    assert valid_range(spec)


@pytest.mark.parametrize("spec", ["0.4", "~0.4", ">=", ">=0.4,", "latest"])
def test_ranges_that_can_not_be_read(spec: str) -> None:
    assert not valid_range(spec)
