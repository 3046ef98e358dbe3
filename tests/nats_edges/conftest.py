"""A NATS server, and flows whose `nats` edges it carries."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nats_server import NatsServer


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NatsServer]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = NatsServer(port, tmp_path / "nats")
    server.start()
    monkeypatch.setenv("TORVYN_CLUSTER__NATS", server.url)
    monkeypatch.setenv("TORVYN_CLUSTER__NAMESPACE", "t")
    monkeypatch.setenv("TORVYN_RUNTIME__STATE_DIR", str(tmp_path / "state"))
    yield server
    server.stop()
