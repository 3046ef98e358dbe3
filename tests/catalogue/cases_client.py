"""One provocation for each code of clients; the server says one thing to everybody."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest import mock

from torvyn._io.background_loop import background_loop
from torvyn.client import AsyncClient, Client

Use = Callable[[AsyncClient], Coroutine[Any, Any, object]]

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
START = b'data: {"type":"start","version":1,"id":"a","flow":"b","created":1}\n\n'
END = b'data: {"type":"end","seq":1,"finish":[{"index":0,"reason":"stop"}]}\n\n'


def _told(answer: bytes, use: Use) -> Callable[[Path], None]:
    """The client is used with a server that says only this."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with AsyncClient(f"http://127.0.0.1:{port}") as client:
                await use(client)

    return lambda _folder: asyncio.run(run())


async def _whole(client: AsyncClient) -> None:
    await client.stream("Hi").complete()


async def _twice(client: AsyncClient) -> None:
    stream = client.stream("Hi")
    await stream.complete()
    await stream.complete()


async def _closed(client: AsyncClient) -> None:
    await client.aclose()
    client.stream("Hi")


async def _updated(client: AsyncClient) -> None:
    async with client.stream("Hi") as stream:
        await stream.update(max_tokens=1)


def _without_aiohttp(_folder: Path) -> None:
    with mock.patch.dict(sys.modules, {"aiohttp": None}):
        Client("http://127.0.0.1:1")


def _blocking(_folder: Path) -> None:
    async def ask() -> None:
        with Client("http://127.0.0.1:1") as client:
            client.health()

    asyncio.run_coroutine_threadsafe(ask(), background_loop()).result(10)


def _unreachable(_folder: Path) -> None:
    with Client("http://127.0.0.1:1") as client:
        client.health()


CASES: dict[str, Callable[[Path], object]] = {
    "client.already-read": _told(EVENTS + START + END, _twice),
    "client.bad-option": lambda _folder: Client("ftp://127.0.0.1"),
    "client.closed": _told(b"", _closed),
    "client.cut": _told(EVENTS + START, _whole),
    "client.garbage": _told(EVENTS + b"data: {]\n\n", _whole),
    "client.not-begun": _told(b"", lambda client: client.stream("Hi").stop()),
    "client.package-missing": _without_aiohttp,
    "client.refused": _told(b"HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\n\r\n", _whole),
    "client.unreachable": _unreachable,
    "client.unsupported": _told(EVENTS + START, _updated),
    "client.would-block": _blocking,
}
