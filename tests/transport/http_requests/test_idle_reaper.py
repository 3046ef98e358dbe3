"""Connections that send no request are closed; those that sent one stay open, however quiet."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from asgi_client import within

from torvyn.engine import Scripted
from torvyn.transport import ServerSettings, app
from torvyn.transport.listener.idle_reaper import IdleReaper

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells it on Linux")
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@asynccontextmanager
async def watched() -> AsyncIterator[int]:
    """A port whose connections are held open, and looked at."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            pass
        writer.close()

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        watch = IdleReaper(port, timeout_ms=100)
        watch.start()
        try:
            yield port
        finally:
            watch.stop()


@pytest.mark.parametrize("said", [b"", b"P", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"])
async def test_connections_that_send_no_request_are_closed(said: bytes) -> None:
    async with watched() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)

        assert await within(reader.read()) == b""

        writer.close()


async def test_a_connection_that_sent_a_request_may_wait() -> None:
    async with watched() as port:
        asked, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        silent, other = await asyncio.open_connection("127.0.0.1", port)
        await within(silent.read())

        assert not asked.at_eof()

        for one in (writer, other):
            one.close()


async def test_a_server_watches_its_port() -> None:
    from torvyn.engine import Service
    from torvyn.transport.listener.server import Server

    application = app({"chat": Service("chat", Scripted("a"))}, ServerSettings(port=0))
    async with Server(application) as server:
        assert server.port in server._idle_reaper._ports
        assert server._idle_reaper._timer is not None
