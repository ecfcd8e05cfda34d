"""One file followed by its name, through all that happens to logs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from app.supervise.follow import FileFollower, Place, is_rotated_name
from app.supervise.watching import Expander, folders


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text("one\n")
    return path


def write(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def all_of(follower: FileFollower, limit: int = 64 * 1024) -> str:
    text = b""
    while (piece := follower.read(limit)) is not None:
        text += piece.data
    return text.decode()


def renamed(log: Path) -> None:
    log.rename(log.with_name("server.log.1"))
    log.write_text("")


def copied_and_truncated(log: Path) -> None:
    shutil.copy(log, log.with_name("server.log.1"))
    os.truncate(log, 0)


ROTATIONS = pytest.mark.parametrize("rotate", [renamed, copied_and_truncated])


def test_what_is_appended_is_read_once(log: Path) -> None:
    follower = FileFollower(log)
    first = all_of(follower)
    write(log, "two\n")
    assert (first, all_of(follower), all_of(follower)) == ("one\n", "two\n", "")


def test_a_flooding_file_is_read_in_bounded_pieces(log: Path) -> None:
    write(log, "x" * 1000)
    piece = FileFollower(log).read(100)
    assert piece is not None
    assert len(piece.data) == 100


@ROTATIONS
def test_what_was_written_before_a_rotation_comes_first(log: Path, rotate: Callable[[Path], None]) -> None:
    follower = FileFollower(log)
    all_of(follower)
    write(log, "last before\n")
    rotate(log)
    write(log, "first behind\n")
    assert all_of(follower) == "last before\nfirst behind\n"


@ROTATIONS
def test_a_rotation_while_nobody_looked_loses_nothing(log: Path, rotate: Callable[[Path], None]) -> None:
    follower = FileFollower(log)
    all_of(follower)
    place = follower.place
    follower.close()
    write(log, "last before\n")
    rotate(log)
    write(log, "first behind\n")
    assert all_of(FileFollower(log, place)) == "last before\nfirst behind\n"


def test_several_rotations_while_nobody_looked_are_read_oldest_first(log: Path) -> None:
    follower = FileFollower(log)
    all_of(follower)
    place = follower.place
    for number in (1, 2, 3):
        write(log, f"round {number}\n")
        for at in (3, 2, 1):
            if (old := log.with_name(f"server.log.{at}")).exists():
                old.rename(log.with_name(f"server.log.{at + 1}"))
        log.rename(log.with_name("server.log.1"))
        log.write_text("")
        os.utime(log.with_name("server.log.1"), ns=(number * 10**9, number * 10**9))
    write(log, "now\n")
    assert all_of(FileFollower(log, place)) == "round 1\nround 2\nround 3\nnow\n"


def test_rotated_files_that_were_there_before_are_history(log: Path) -> None:
    log.with_name("server.log.1").write_text("long ago\n")
    follower = FileFollower(log)
    renamed(log)
    write(log, "new\n")
    assert all_of(follower) == "one\nnew\n"


def test_a_file_written_anew_under_its_inode_is_read_from_its_beginning(log: Path) -> None:
    follower = FileFollower(log)
    all_of(follower)
    with log.open("r+") as file:
        file.truncate(0)
        file.write("another and longer content\n")
    assert all_of(follower) == "another and longer content\n"


def test_a_file_that_was_removed_and_returns_is_read(log: Path) -> None:
    follower = FileFollower(log)
    all_of(follower)
    log.unlink()
    assert follower.gone
    log.write_text("back\n")
    assert all_of(follower) == "back\n"


def test_what_a_removed_file_still_gets_is_read(log: Path) -> None:
    follower = FileFollower(log)
    all_of(follower)
    with log.open("a") as writer:
        log.unlink()
        writer.write("after removal\n")
    assert all_of(follower) == "after removal\n"


def test_half_a_character_is_handed_on_as_it_is(log: Path) -> None:
    follower = FileFollower(log)
    all_of(follower)
    with log.open("ab") as file:
        file.write("ü".encode()[:1])
    piece = follower.read()
    assert piece is not None
    assert piece.data == b"\xc3"


def test_a_fifo_of_that_name_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "server.log")
    assert FileFollower(tmp_path / "server.log").read() is None


def test_a_file_that_is_not_there_yet_is_read_when_it_comes(tmp_path: Path) -> None:
    follower = FileFollower(tmp_path / "later.log", Place())
    before = follower.read()
    (tmp_path / "later.log").write_text("here\n")
    assert (before, all_of(follower)) == (None, "here\n")


def test_reading_at_the_end_begins_behind_the_last_whole_line(log: Path) -> None:
    write(log, "half")
    follower = FileFollower(log, at_end=True)
    write(log, " and half\n")
    assert all_of(follower) == "half and half\n"


@pytest.mark.parametrize("name", ["server.log.1", "server.log-20260112", "server.log.old", "server.log~"])
def test_names_of_rotated_files_are_known(name: str) -> None:
    assert is_rotated_name(Path("/logs") / name, {Path("/logs/server.log")})


@pytest.mark.parametrize("name", ["server.log", "other.log.1", "server.logger"])
def test_other_names_are_logs_of_their_own(name: str) -> None:
    assert not is_rotated_name(Path("/logs") / name, {Path("/logs/server.log")} - {Path("/logs") / name})


def test_a_glob_finds_files_inside_the_roots_only(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.log").touch()
    (tmp_path / "in" / "a.log").touch()
    (tmp_path / "in" / "link.log").symlink_to(tmp_path / "out.log")
    assert Expander([tmp_path / "in"]).files([f"{tmp_path}/**/*.log"]) == [tmp_path / "in" / "a.log"]


def test_the_folder_is_watched_and_not_the_file() -> None:
    assert folders(["/logs/server.log"]) == {Path("/logs"): False}


def test_a_glob_over_folders_is_watched_with_all_below() -> None:
    assert folders(["/logs/*/server.log"]) == {Path("/logs"): True}
