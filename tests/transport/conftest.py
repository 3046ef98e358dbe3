"""Runs coroutines as tests, each on its own loop. A server with API keys. A broker for sessions."""

from __future__ import annotations

import contextlib
import itertools
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from keyed_server import Keyed

from coroutines import pytest_pyfunc_call  # noqa: F401
from nats_server import NatsServer, ask
from torvyn.transport.sessions.shared.address import StoreAddress, bucket_stream

_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One broker for all tests; each has a name of its own there."""
    yield from _started(tmp_path_factory.mktemp("broker"))


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[NatsServer]:
    """One that the test may stop and start."""
    yield from _started(tmp_path / "broker")


def _started(folder: Path) -> Iterator[NatsServer]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    server = NatsServer(port, folder)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def shared(broker: NatsServer) -> Iterator[str]:
    """The address of a store that nobody has used."""
    name = f"test{next(_numbers)}"
    yield f"{broker.url}/{name}"
    # Streams reserve room at the broker.
    ask(broker, partial(_delete, name))


async def _delete(name: str, client: Any, js: Any) -> None:
    address = StoreAddress((), name)
    buckets = (address.records_bucket, address.limits_bucket)
    for stream in (address.frames_stream, address.prompts_stream, *map(bucket_stream, buckets)):
        with contextlib.suppress(Exception):
            await js.delete_stream(stream)


@pytest.fixture
def keyed(tmp_path: Path) -> Keyed:
    return Keyed(tmp_path)
