"""A relay that copies bytes: the least that anything between a client and an upstream can add.

    python -m benches.peers.relay --port N --upstream-port N

It connects to the upstream for every client and understands nothing of what it copies.
"""

from __future__ import annotations

import argparse
import asyncio

from benches.event_loop import run


class Copy(asyncio.Protocol):
    """Writes what arrives on one connection to the other."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._other: Copy | None = None
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def join(self, other: Copy) -> None:
        self._other = other
        if self._early:
            self.data_received(self._early)

    def data_received(self, data: bytes) -> None:
        if self._other is None or self._other._transport is None:
            self._early += data
        else:
            self._other._transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.close()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--upstream-port", type=int)
    options = parser.parse_args()
    loop, connecting = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    async def connect(client: Copy) -> None:
        _, server = await loop.create_connection(Copy, "127.0.0.1", options.upstream_port)
        server.join(client)
        client.join(server)

    def accepted() -> Copy:
        client = Copy()
        task = loop.create_task(connect(client))
        connecting.add(task)
        task.add_done_callback(connecting.discard)
        return client

    server = await loop.create_server(accepted, "127.0.0.1", options.port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    run(main())
