"""A fake upstream: a real server on loopback that answers the way it is told to, byte by byte."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Exchange:
    """One request, and the means to answer it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.head = ""
        self.body: Any = None

    async def read(self) -> bool:
        try:
            self.head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        size = int(self.header("content-length") or 0)
        data = await self.reader.readexactly(size)
        self.body = json.loads(data) if data else None
        return True

    def header(self, name: str) -> str | None:
        for line in self.head.splitlines():
            key, _, value = line.partition(":")
            if key.lower() == name:
                return value.strip()
        return None

    async def send(self, *pieces: bytes) -> None:
        """Raw bytes, each in a packet of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def begin(self) -> None:
        await self.send(HEAD)

    async def chunk(self, *pieces: bytes) -> None:
        await self.send(*(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces))

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def status(self, status: int, body: str, *headers: str) -> None:
        data = body.encode()
        lines = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(data)}", *headers, "", ""]
        await self.send("\r\n".join(lines).encode() + data)

    def reset(self) -> None:
        """Breaks the connection off, without a farewell."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def until_left(self) -> None:
        """Until the client has closed the connection."""
        with suppress(ConnectionError):
            await self.reader.read()


Reply = Callable[[Exchange], Awaitable[None]]


class Upstream:
    """Answers its requests with the replies, in order; the last one serves all the others."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self.open = 0
        self.left = threading.Event()
        """An answer was left before its end."""
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while await (exchange := Exchange(reader, writer)).read():
                self.exchanges.append(exchange)
                reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
                await reply(exchange)
                if writer.is_closing():
                    return
        except asyncio.CancelledError:
            pass  # The test is over; asyncio's server would report it as a failure.
        finally:
            self.open -= 1
            writer.close()


@contextmanager
def running(*replies: Reply, tls: ssl.SSLContext | None = None) -> Iterator[Upstream]:
    """The upstream on a thread and a loop of its own, gone when the block is left."""
    upstream = Upstream(*replies)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(upstream.serve, "127.0.0.1", 0, ssl=tls))
    place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    upstream.url = f"http{'' if tls is None else 's'}://{place}/v1"
    thread = threading.Thread(target=loop.run_forever, name="fake-upstream")
    thread.start()
    try:
        yield upstream
    finally:
        asyncio.run_coroutine_threadsafe(_stop(server), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


async def _stop(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def event(data: Any) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


def delta(content: Any = None, index: int = 0, finish: str | None = None, **more: Any) -> bytes:
    """One chunk of a chat."""
    said = {"content": content} if isinstance(content, str) else content or {}
    choice = {"index": index, "delta": said, "finish_reason": finish, **more}
    return event({"id": "c", "object": "chat.completion.chunk", "choices": [choice]})


DONE = event("[DONE]")
HELLO = (delta({"role": "assistant"}), delta("Hel"), delta("lo"), delta(finish="stop"), DONE)


def says(*chunks: bytes) -> Reply:
    """An ordinary answer of these chunks."""

    async def reply(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(*chunks)
        await exchange.end()

    return reply


def status(code: int, body: str = "", *headers: str) -> Reply:
    async def reply(exchange: Exchange) -> None:
        await exchange.status(code, body, *headers)

    return reply
