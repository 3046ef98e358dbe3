"""A broker of several servers: when one falls silent, both clients go to another one."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nats_server import NatsServer
from torvyn._io.nats import BrokerConnection
from torvyn._native import NatsClient

PATIENCE_S = 15.0
"""Far below the minute in which a connection is given up that has no other server."""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[NatsServer]]:
    found = []
    for number in range(2):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        found.append(NatsServer(port, tmp_path / str(number)))
        found[-1].start()
    yield found
    for server in found:
        server.send(signal.SIGCONT)
        server.stop()


def test_a_frozen_server_is_left(servers: list[NatsServer]) -> None:
    async def main() -> str:
        broker = BrokerConnection(",".join(server.url for server in servers), "test")
        await broker.open()
        first = broker.client
        servers[0].send(signal.SIGSTOP)
        end_s = time.monotonic() + PATIENCE_S
        while broker.client in (first, None):
            assert time.monotonic() < end_s
            await asyncio.sleep(0.01)
        try:
            return f"nats://{broker.client.connected_url.netloc}"
        finally:
            await broker.close()

    assert asyncio.run(main()) == servers[1].url


def test_a_frozen_server_is_left_by_native_code(servers: list[NatsServer]) -> None:
    first, second = servers
    first.send(signal.SIGSTOP)
    client = NatsClient([server.url for server in servers])
    try:
        assert client.wait(PATIENCE_S)
        first.send(signal.SIGCONT)
        second.send(signal.SIGSTOP)
        end_s = time.monotonic() + PATIENCE_S
        while client.is_connected:
            assert time.monotonic() < end_s
            threading.Event().wait(0.01)
        assert client.wait(PATIENCE_S)
    finally:
        client.close()


@pytest.mark.parametrize("is_first", [True, False])
def test_a_start_passes_over_a_frozen_server(servers: list[NatsServer], is_first: bool) -> None:
    servers[0 if is_first else 1].send(signal.SIGSTOP)

    async def main() -> bool:
        broker = BrokerConnection(",".join(server.url for server in servers), "test")
        await broker.open(PATIENCE_S)
        try:
            return bool(broker.client.is_connected)
        finally:
            await broker.close()

    assert asyncio.run(main())
