"""A NATS server, and a connection to it on the event loop of the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nats_server import NatsServer
from torvyn._io.jetstream import Entries, Streams, StreamSpec
from torvyn._io.nats import BrokerConnection, Publisher


class Client:
    """What a test uses of one connection."""

    def __init__(self, broker: BrokerConnection) -> None:
        self.broker = broker
        self.publisher = Publisher(broker)
        self.streams = Streams(broker)
        self.entries = Entries(broker, self.publisher, "b")

    async def stream(self, **options: Any) -> None:
        spec = StreamSpec("S", ("s.>",), **{"max_per_subject": 1000, **options})
        await self.streams.ensure(spec)


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def server(tmp_path: Path, free_port: int) -> Iterator[NatsServer]:
    server = NatsServer(free_port, tmp_path / "nats")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def connected(server: NatsServer) -> Callable[[Callable[[Client], Awaitable[Any]]], Any]:
    """Runs a coroutine function with a connection."""

    def run(work: Callable[[Client], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            broker = BrokerConnection(server.url, "test")
            client = Client(broker)
            await broker.open()
            try:
                return await asyncio.wait_for(work(client), 60)
            finally:
                await broker.close()

        return asyncio.run(main())

    return run
