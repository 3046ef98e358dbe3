"""The store: sessions on disk, in SQLite, so that they outlive the process.

One thread writes. What came while it wrote is the next transaction: many sessions share a commit,
and a frame is shown to its reader only when it lies in the file. A killed process loses nothing
that a client has seen; that a power cut loses the last moments is the price of not waiting for the
disk (`synchronous = NORMAL`).
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
from typing import Any

from torvyn.errors import Unavailable
from torvyn.transport.sessions.store_file import StoredSession, StoreFile

logger = logging.getLogger("torvyn.transport")

Work = Callable[[StoreFile], Any]


@dataclass(slots=True)
class Rows:
    """Frames to be added, and the sessions that end with them."""

    frames: list[tuple[str, int, bytes, int]]
    over: list[str]

    def __call__(self, file: StoreFile) -> None:
        file.add(self.frames)
        for id in self.over:
            file.db.execute("UPDATE sessions SET is_over = 1 WHERE id = ?", (id,))


class SessionStore:
    """Opened with its first use. Its methods are coroutines of one loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._works: SimpleQueue[tuple[Work, asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def begin(self, stored: StoredSession) -> None:
        await self._do(lambda file: file.begin(stored))

    async def append(self, id: str, seq: int, frames: list[bytes], is_over: bool) -> None:
        """Frames in a row, the first of them numbered `seq`."""
        data = b"\n".join(frames)
        await self._do(Rows([(id, seq, data, zlib.crc32(data))], [id] if is_over else []))

    async def forget_before(self, id: str, seq: int, gone: str) -> None:
        """Frames before that one are no longer needed, but for the start."""
        await self._do(lambda file: file.forget_before(id, seq, gone))

    async def load(self, id: str) -> StoredSession | None:
        found: StoredSession | None = await self._do(lambda file: file.load(id))
        return found

    async def drop(self, *ids: str) -> None:
        await self._do(lambda file: file.drop(*ids))

    async def ids(self) -> list[str]:
        found: list[str] = await self._do(lambda file: file.ids())
        return found

    def close(self) -> None:
        """What was asked for before is still done. May block shortly."""
        if self._thread is not None:
            self._works.put(None)
            self._thread.join()
            self._thread = None

    def open(self) -> None:
        """Now, and not with the first use: raises when it cannot be opened."""
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
        self._works.put((work, done))
        return await done

    def _write(self, file: StoreFile) -> None:
        works, is_open = self._works, True
        while is_open:
            group = [works.get()]
            while not works.empty():
                group.append(works.get())
            is_open = None not in group
            self._commit(file, [one for one in group if one is not None])
        file.db.close()

    def _commit(self, file: StoreFile, group: list[tuple[Work, asyncio.Future[Any]]]) -> None:
        answers: list[tuple[asyncio.Future[Any], Any]] = []
        try:
            with file.db:
                file.db.execute("BEGIN IMMEDIATE")
                answers = _done(file, group)
        except Exception as error:
            logger.error("the session store %s failed: %s", self.path.name, error)
            answers = [(done, store_failed(str(error))) for _, done in group]
        if answers and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
                self._loop.call_soon_threadsafe(_answer, answers)


def _done(
    file: StoreFile, group: list[tuple[Work, asyncio.Future[Any]]]
) -> list[tuple[asyncio.Future[Any], Any]]:
    """Does all of it, in its order; neighbouring rows at once."""
    answers: list[tuple[asyncio.Future[Any], Any]] = []
    rows = Rows([], [])
    for work, done in group:
        if isinstance(work, Rows):
            rows.frames += work.frames
            rows.over += work.over
            answers.append((done, None))
        else:
            rows(file)
            rows = Rows([], [])
            answers.append((done, work(file)))
    rows(file)
    return answers


def _answer(answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for done, answer in answers:
        if done.done():
            continue
        if isinstance(answer, Exception):
            done.set_exception(answer)
        else:
            done.set_result(answer)


def store_failed(why: str) -> Unavailable:
    return Unavailable(
        f"the answer cannot be kept any longer, so it ends here: {why}",
        code="session.store-failed",
        hint="look at the disk of the server; without `stateful` an answer needs none",
    )
