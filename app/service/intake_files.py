"""Taking in what servers log that others start: from followed files to incidents, each failure exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from app.core.errors import StoreError
from app.core.vocabulary import Phase
from app.diagnosis.findings import Context, FailureSeen, Finding
from app.diagnosis.live import LiveLog
from app.diagnosis.pipeline import Pipeline
from app.service.followed import FollowedFile, TakenIn, Watched, age, lines_before, seen_of
from app.service.followed_evidence import Keeper
from app.store.positions import Position, Reached
from app.store.store import Store
from app.supervise.follow import FileFollower, Place, is_rotated_name
from app.supervise.watching import Expander, watch

# A file that was last written longer ago than this when it is first seen is history: it is read from its end.
HISTORY = 600.0
_SAFETY_NET = 1.0  # seconds between looks at every file, whatever inotify says
_LOOK_UP = 5.0  # seconds between looks for files that globs gained without inotify telling
_LOOK_UP_AGAIN = 0.25  # seconds between them at least: a stranger's file in the folder may change all the time
_AT_ONCE = 0.004  # seconds of reading before the news is looked at again: a failure elsewhere comes first
_QUIET = 1.0  # a half traceback that waits longer is looked at as it is
_HALF = 5.0  # a half line, too: what is cut says something else than the whole, so it gets more time
_STORE_AGAIN = 1.0  # seconds between attempts to store what could not be stored
_LAZY = 1.0  # a position that led to nothing is written this much later at most


T = TypeVar("T")
Tell = Callable[[TakenIn], None]


class FileIntake:
    """Follows the logs of all watched servers. One worker thread does the reading, so nothing else waits for it."""

    def __init__(
        self,
        store: Store,
        pipeline: Pipeline,
        servers: tuple[Watched, ...] = (),
        *,
        roots: tuple[Path, ...] = (),
        tell: Tell | None = None,
        following: Callable[[], None] | None = None,
        trouble: Callable[[str], None] | None = None,
    ) -> None:
        """`following` is called once every log that is there was taken up: from then on nothing is missed.

        `tell` is called from the worker thread after each transaction that stored something.
        """
        self.store = store
        self.pipeline = pipeline
        self.roots = roots
        self.tell = tell or (lambda _: None)
        self.trouble = trouble or (lambda _: None)
        self._servers = {server.name: server for server in servers}
        self._files: dict[tuple[str, Path], FollowedFile] = {}
        self._turns: deque[FollowedFile] = deque()
        self._news: deque[set[Path]] = deque()
        self._wake = asyncio.Event()
        self._lookup = True
        self._changed_servers = asyncio.Event()
        self.following = following or (lambda: None)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="intake")
        self._unstored = False
        self._keeper = Keeper(store)
        self._next_rounds = self._next_net = self._next_look_up = self._last_look_up = 0.0

    @property
    def files(self) -> dict[str, tuple[Path, ...]]:
        """The logs followed now, by server."""
        found: dict[str, list[Path]] = {name: [] for name in self._servers}
        for name, path in self._files:
            found.setdefault(name, []).append(path)
        return {name: tuple(sorted(paths)) for name, paths in found.items()}

    @property
    def unstored(self) -> bool:
        """Whether findings wait because the store can't be written."""
        return self._unstored

    def change(
        self, servers: tuple[Watched, ...], *, pipeline: Pipeline | None = None, roots: tuple[Path, ...] | None = None
    ) -> None:
        """Other servers or rules from now on; no line is lost, and files that stay are read on where they are."""
        self._servers = {server.name: server for server in servers}
        self.pipeline = pipeline or self.pipeline
        self.roots = self.roots if roots is None else roots
        self._changed_servers.set()
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Follows until `stop`; then all that was read is stored."""
        stopper = asyncio.create_task(self._wake_at(stop))
        try:
            while not stop.is_set():
                self._changed_servers.clear()
                await self._inside(self._take_up)
                self.following()
                await self._run_servers(stop)
        finally:
            stopper.cancel()
            await self._inside(self._close)
            self._worker.shutdown()
            self._keeper.close()

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._changed_servers.set()
        self._wake.set()

    async def _run_servers(self, stop: asyncio.Event) -> None:
        """Until the servers change."""
        patterns = tuple(dict.fromkeys(pattern for server in self._servers.values() for pattern in server.patterns))
        watcher = asyncio.create_task(watch(patterns, self._on_change, self._changed_servers))
        try:
            while not (stop.is_set() or self._changed_servers.is_set()):
                if watcher.done():
                    watcher.result()  # it ended by a fault: tell that, and begin again
                more = await self._inside(self._turn)
                if not more:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), _SAFETY_NET / 4)
                self._wake.clear()
        finally:
            self._changed_servers.set()
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher

    async def _inside(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, call)

    async def _on_change(self, paths: set[Path]) -> None:
        self._news.append(paths)  # the worker alone touches the files and their turns
        self._wake.set()

    # -- in the worker thread

    def _take_up(self) -> None:
        """Opens what the present servers have, and lets go of what others had."""
        for server in self._servers.values():
            self.store.watch_server(server.name, server.engine, server.mode)
        for key, file in list(self._files.items()):
            if key[0] not in self._servers:
                self._forget(key)
            else:
                self._commit(file, [])
                self._forget(key)
        self._look_up()

    def _look_up(self) -> None:
        """Files that the globs gained, and files that are gone for good."""
        self._lookup = False
        self._last_look_up = time.monotonic()
        self._next_look_up = self._last_look_up + _LOOK_UP
        look = Expander(self.roots)
        seen = {server.name: look.files(server.patterns) for server in self._servers.values()}
        for path in look.outside:
            self.trouble(f"{path} is not followed: it leads out of log_roots. Add the folder that it leads to.")
        for file in self._files.values():
            if file.follower.refused:
                self.trouble(f"{file.path} can't be read: give the user that runs crashcart the right to.")
        new = any((name, path) not in self._files for name, paths in seen.items() for path in paths)
        kept = self.store.all_positions() if new or not self._files else {}
        for server in self._servers.values():
            known = {position.path: position for position in kept.get(server.name, ())}
            found = seen[server.name]
            names = set(found) | set(known)
            for path in found:
                if (server.name, path) not in self._files and not is_rotated_name(path, names - {path}):
                    self._open(server, path, known.get(path))
            for path, position in known.items():
                if (server.name, path) not in self._files:
                    self._open(server, path, position)

    def _open(self, server: Watched, path: Path, position: Position | None) -> None:
        if position is None:
            old = age(path) > HISTORY
            follower = FileFollower(path, at_end=old)
            start = follower.place.offset
            context = Context(engine=server.engine, mid=start > 0, lines=lines_before(path, start))
            file = FollowedFile(server, follower, LiveLog(self.pipeline, context, start))
        else:
            file = self._resume(server, path, position)
        file.last_data = time.monotonic()
        self._files[server.name, path] = file
        self._turns.append(file)
        if position is None:
            self._commit(file, [])  # from now on nothing that is written is missed, whenever we end

    def _resume(self, server: Watched, path: Path, position: Position) -> FollowedFile:
        """The state as it was when the position was written: by reading the open context again, silently."""
        known = frozenset((int(inode), str(head)) for inode, head in position.context.get("known", ()))
        place = Place(
            position.device, position.inode, position.offset, position.head_length, position.head, known=known
        )
        follower = FileFollower(path, place)
        context = Context.from_json(position.context)
        log = LiveLog(self.pipeline, context, position.anchor)
        if follower.place.inode and not follower.begins_anew:
            for data in follower.back(position.anchor):
                log.feed(data)
        else:
            log.turn_over()
        return FollowedFile(server, follower, log, position.launch_id)

    def _forget(self, key: tuple[str, Path]) -> None:
        file = self._files.pop(key)
        file.follower.close()
        with contextlib.suppress(ValueError):
            self._turns.remove(file)

    def _turn(self) -> bool:
        """Some files' turns; whether there may be more to do at once."""
        now = time.monotonic()
        self._hear()
        if now >= self._next_look_up or (self._lookup and now >= self._last_look_up + _LOOK_UP_AGAIN):
            self._look_up()
        if now >= self._next_rounds:
            self._next_rounds = now + _SAFETY_NET / 4
            self._rounds(now)
        while self._turns and time.monotonic() < now + _AT_ONCE:
            file = self._turns.popleft()
            if self._read(file):
                self._turns.append(file)
        return bool(self._turns)

    def _hear(self) -> None:
        """Files that changed come before those that always have more."""
        while self._news:
            changed = self._news.popleft()
            known = {file.path for file in self._files.values()}
            self._lookup = self._lookup or not changed <= known
            waiting = set(map(id, self._turns))
            for file in self._files.values():
                if file.path in changed and id(file) not in waiting:
                    self._turns.appendleft(file)

    def _read(self, file: FollowedFile) -> bool:
        try:
            piece = file.follower.read()
        except OSError as error:
            self.trouble(f"{file.path} can't be read: {error.strerror}")
            return False
        if piece is None:
            return False
        found: list[Finding] = []
        if piece.fresh:
            found += file.log.turn_over()
        found += file.log.feed(piece.data)
        file.last_data = time.monotonic()
        self._commit(file, found, lazily=True)
        return True

    def _rounds(self, now: float) -> None:
        """What is due without any change: the safety net, half lines, positions, proofs of being ready."""
        if now >= self._next_net:
            self._next_net = now + _SAFETY_NET
            waiting = set(map(id, self._turns))
            self._turns.extend(file for file in self._files.values() if id(file) not in waiting)
        for key, file in list(self._files.items()):
            patience = _HALF if file.log.pending else _QUIET
            if file.log.unfinished and now - file.last_data > patience and not self._read(file):
                self._commit(file, file.log.flush())
            elif file.due(now, _LAZY):
                self._commit(file, [])
            if file.ready_since is not None and now - file.ready_since >= file.server.settle:
                self._settle(file)
            if file.follower.gone and now - file.last_data > 60:
                self.store.drop_position(file.server.name, self._position(file))
                self._forget(key)

    def _settle(self, file: FollowedFile) -> None:
        seconds, file.ready_since = file.server.settle, None
        if file.launch_id is None:
            return
        text = f"its log says ready, and no failure in {seconds:g} s since ({file.path.name})"
        incident = self.store.launch_settled(file.launch_id, text)
        if incident is not None:
            self.tell(TakenIn(file.server.name, file.path, (incident,), file.launch_id))

    def _commit(self, file: FollowedFile, found: list[Finding], *, lazily: bool = False) -> None:
        """What was found and how far was read, in one transaction; both stay in memory while it can't be written."""
        file.waiting += [seen_of(one, file.path) for one in found]
        if lazily and not file.waiting:
            file.unwritten = file.unwritten or time.monotonic()
            return
        try:
            launch_id, incidents = self.store.take_in(file.server.name, file.waiting, self._position(file))
        except StoreError as error:
            self._unstored, file.store_again = True, time.monotonic() + _STORE_AGAIN
            self.trouble(f"what the logs say can't be stored now: {error} {error.mend or ''}".rstrip())
            return
        self._unstored = False
        self._note_ready(file)
        stored, file.waiting, file.unwritten = bool(file.waiting), [], None
        file.launch_id = launch_id
        if stored:
            self._keep(file, found, incidents)
            self.tell(TakenIn(file.server.name, file.path, incidents, launch_id))

    def _keep(self, file: FollowedFile, found: list[Finding], incidents: tuple[int, ...]) -> None:
        failures = [one.diagnosis for one in found if isinstance(one, FailureSeen)]
        if (
            failures
            and incidents
            and file.launch_id is not None
            and (open_file := file.follower.descriptor) is not None
        ):
            self._keeper.keep(incidents[-1], file.launch_id, open_file, file.log.offset, failures[-1])

    def _note_ready(self, file: FollowedFile) -> None:
        for one in file.waiting:
            if isinstance(one, Reached):
                file.ready_since = time.monotonic() if one.progress.phase is Phase.READY else None
            else:
                file.ready_since = None

    def _position(self, file: FollowedFile) -> Position:
        place, log = file.follower.place, file.log
        context = log.context.to_json() | {"known": sorted(place.known)}
        return Position(
            file.path,
            place.device,
            place.inode,
            log.offset,
            log.anchor,
            place.head_length,
            place.head,
            file.launch_id,
            context,
        )

    def _close(self) -> None:
        for key, file in list(self._files.items()):
            if file.unwritten is not None or file.waiting:
                self._commit(file, [])
            self._forget(key)
