"""A proxy between a client and a server that the test can cut."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from live_server import PATIENCE_S, Served


class Cable:
    """Runs on the server's loop; the methods are for the test's thread."""

    def __init__(self, server: Served) -> None:
        self._server = server
        self._ends: set[asyncio.StreamWriter] = set()
        self._is_cut = False

    @property
    def url(self) -> str:
        port = self._listener.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def lay(self) -> None:
        self._run(self._lay())

    def cut(self) -> None:
        """Drops every connection, and every later one until it is mended."""
        self._run(self._cut())

    def mend(self) -> None:
        self._is_cut = False

    def take_away(self) -> None:
        self._run(self._cut())
        self._server.loop.call_soon_threadsafe(self._listener.close)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._server.loop).result(PATIENCE_S)

    async def _lay(self) -> None:
        self._listener = await asyncio.start_server(self._carry, "127.0.0.1", 0)

    async def _cut(self) -> None:
        self._is_cut = True
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        self._ends |= {writer, far_writer}
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()


@contextmanager
def cable_to(server: Served) -> Iterator[Cable]:
    cable = Cable(server)
    cable.lay()
    try:
        yield cable
    finally:
        cable.take_away()
