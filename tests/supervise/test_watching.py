"""Waking up when folders change, whatever becomes of the folders."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from app.supervise.watching import watch

pytestmark = pytest.mark.anyio


async def test_a_folder_that_comes_and_goes_all_the_time_ends_no_watch(tmp_path: Path) -> None:
    folder, told, stop = tmp_path / "logs", set[Path](), asyncio.Event()

    async def changed(paths: set[Path]) -> None:
        told.update(paths)

    watching = asyncio.create_task(watch([f"{folder}/*.log"], changed, stop))
    for _ in range(150):
        folder.mkdir(exist_ok=True)
        await asyncio.sleep(0.005)
        shutil.rmtree(folder)
        await asyncio.sleep(0.002)
    folder.mkdir()
    for _ in range(200):
        (folder / "a.log").write_text("line\n")
        await asyncio.sleep(0.05)
        if folder / "a.log" in told or watching.done():
            break
    ended = watching.done()
    stop.set()
    await asyncio.wait_for(watching, 15)
    assert not ended
    assert folder / "a.log" in told


async def test_a_change_is_told_by_its_path(tmp_path: Path) -> None:
    told, stop = asyncio.Event(), asyncio.Event()

    async def changed(paths: set[Path]) -> None:
        if tmp_path / "a.log" in paths:
            told.set()

    watching = asyncio.create_task(watch([f"{tmp_path}/*.log"], changed, stop))
    await asyncio.sleep(0.3)
    (tmp_path / "a.log").write_text("line\n")
    await asyncio.wait_for(told.wait(), 10)
    stop.set()
    await asyncio.wait_for(watching, 15)
    assert told.is_set()
