"""Sends every WebSocket message back, over the native wire with the options of the real server."""

from __future__ import annotations

import argparse
import asyncio
from types import SimpleNamespace
from typing import Any

from torvyn.serve import ServerSettings
from torvyn.transport.listener.native_listener import NativeListener
from torvyn.transport.listener.sockets import listen
from torvyn.transport.websocket.message_reader import CLOSES
from torvyn.transport.websocket.native_socket import NativeSocket

LARGEST_BYTES = 16 * 2**20
"""Autobahn sends messages of that size."""


async def echo(socket: NativeSocket) -> None:
    await socket.check()
    await socket.accept(None)
    exchange = socket.exchange
    while (message := await socket.receive()) is not None:
        data = isinstance(message, bytes)
        rest = exchange.post_data(message) if data else socket.post(message.encode())
        if rest is not None:
            await rest
    if (how := CLOSES.get(socket.end or "")) is not None:
        await socket.close(*how)


async def answer(exchange: Any) -> None:
    """What waits for the port sends an ordinary request."""
    await exchange.answer({}, 404)


async def main(port: int) -> None:
    settings = ServerSettings(port=port, max_body_bytes=LARGEST_BYTES)
    application: Any = SimpleNamespace(
        settings=settings,
        sample_rate=0.0,
        http=SimpleNamespace(handle=answer),
        websocket=SimpleNamespace(handle=echo),
    )
    listener = NativeListener(application, listen(settings), None)
    listener.start()
    await listener.wait_failed()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(main(parser.parse_args().port))
