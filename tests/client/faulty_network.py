"""A TCP proxy that cuts connections where a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self


class FaultyNetwork:
    """`cuts` lists after how many bytes from the server the next connections end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.cuts: list[int] = []
        self.connections = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def up(self) -> AsyncIterator[Self]:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            self.cut()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=5)

    def cut(self) -> None:
        """Cuts every open connection now."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        left = self.cuts.pop(0) if self.cuts else None
        try:
            there, away = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, away}
        back = asyncio.create_task(_carry(there, writer, left))
        forth = asyncio.create_task(_carry(reader, away, None))
        await asyncio.wait({back, forth}, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, away):
            end.transport.abort()
            self._open.discard(end)
        await asyncio.wait({back, forth})


async def _carry(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, left: int | None
) -> None:
    with contextlib.suppress(OSError):
        while (left is None or left > 0) and (data := await source.read(65536)):
            target.write(data[:left])
            await target.drain()
            left = None if left is None else left - len(data)
