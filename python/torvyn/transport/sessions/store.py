"""The session store: sessions on disk, in SQLite, so that they outlive the process.

One thread writes. All work that arrives while it writes goes into the next transaction, so many
sessions share a commit. A frame is sent only after it is in the file: a killed process loses
nothing that a client has seen. A power failure may lose the last moments, because the store does
not wait for the disk (`synchronous = NORMAL`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from torvyn.errors import Unavailable
from torvyn.transport.sessions.store_file import StoredSession, StoreFile

logger = logging.getLogger("torvyn.transport")

Work = Callable[[StoreFile], Any]


@dataclass(slots=True)
class FrameRows:
    """Frames to add, and the sessions that end with them."""

    frames: list[tuple[str, int, bytes, int]]
    over: list[str]

    def __call__(self, file: StoreFile) -> None:
        file.add(self.frames)
        for id in self.over:
            file.db.execute("UPDATE sessions SET is_over = 1 WHERE id = ?", (id,))


class FrameStore(Protocol):
    """What sessions need of a store."""

    async def begin(self, stored: StoredSession) -> None: ...

    async def append(self, id: str, seq: int, frames: list[bytes], is_over: bool) -> None: ...

    async def forget_before(self, id: str, seq: int, dropped: str) -> None: ...

    async def stop(self, id: str, kind: str) -> None: ...

    async def drop(self, *ids: str) -> None: ...


class SessionStore:
    """Opened at first use. Its coroutines run in one loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._queue: SimpleQueue[tuple[Work, asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def begin(self, stored: StoredSession) -> None:
        await self._do(lambda file: file.begin(stored))

    async def append(self, id: str, seq: int, frames: list[bytes], is_over: bool) -> None:
        """Adds consecutive frames; the first has the number `seq`."""
        data = b"\n".join(frames)
        await self._do(FrameRows([(id, seq, data, zlib.crc32(data))], [id] if is_over else []))

    async def forget_before(self, id: str, seq: int, dropped: str) -> None:
        """Deletes the frames before that one, except the start."""
        await self._do(lambda file: file.forget_before(id, seq, dropped))

    async def stop(self, id: str, kind: str) -> None:
        """Whichever process continues the session ends it: `kind` is `stop` or `cancel`."""
        await self._do(lambda file: file.stop(id, kind))

    async def load(self, id: str) -> StoredSession | None:
        stored: StoredSession | None = await self._do(lambda file: file.load(id))
        return stored

    async def drop(self, *ids: str) -> None:
        await self._do(lambda file: file.drop(*ids))

    async def ids(self) -> list[str]:
        ids: list[str] = await self._do(lambda file: file.ids())
        return ids

    def close(self) -> None:
        """Finishes all queued work first, so it may block for a short time."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def open(self) -> None:
        """Opens it before its first use; raises if that fails."""
        if self._thread is None:
            file = StoreFile.open(self.path)
            self._thread = threading.Thread(
                target=self._write, args=(file,), name="torvyn-sessions", daemon=True
            )
            self._thread.start()

    async def _do(self, work: Work) -> Any:
        self.open()
        self._loop = loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._queue.put((work, done))
        return await done

    def _write(self, file: StoreFile) -> None:
        queue, is_open = self._queue, True
        while is_open:
            group = [queue.get()]
            while not queue.empty():
                group.append(queue.get())
            is_open = None not in group
            self._commit(file, [one for one in group if one is not None])
        file.db.close()

    def _commit(self, file: StoreFile, group: list[tuple[Work, asyncio.Future[Any]]]) -> None:
        results: list[tuple[asyncio.Future[Any], Any]] = []
        try:
            with file.db:
                file.db.execute("BEGIN IMMEDIATE")
                results = _run_all(file, group)
        except Exception as error:
            logger.error("cannot write the session store %s: %s", self.path.name, error)
            results = [(done, store_failed(str(error))) for _, done in group]
        if results and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(_resolve, results)


def _run_all(
    file: StoreFile, group: list[tuple[Work, asyncio.Future[Any]]]
) -> list[tuple[asyncio.Future[Any], Any]]:
    """Does all work in order; adjacent frames in one statement."""
    results: list[tuple[asyncio.Future[Any], Any]] = []
    rows = FrameRows([], [])
    for work, done in group:
        if isinstance(work, FrameRows):
            rows.frames += work.frames
            rows.over += work.over
            results.append((done, None))
        else:
            rows(file)
            rows = FrameRows([], [])
            results.append((done, work(file)))
    rows(file)
    return results


def _resolve(results: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for done, result in results:
        if done.done():
            continue
        if isinstance(result, Exception):
            done.set_exception(result)
        else:
            done.set_result(result)


class SessionLost(Unavailable):
    """This server cannot continue a session, but another one may: its frames are not over."""


def taken_over() -> SessionLost:
    return SessionLost(
        "another server continues this stream",
        code="session.taken-over",
        hint="resume it",
    )


def store_failed(why: str, what_to_do: str = "check the disk of the server") -> Unavailable:
    return Unavailable(
        f"the answer ends because the server cannot store it: {why}",
        code="session.store-failed",
        hint=f"{what_to_do}; requests without `stateful` need no store",
    )
