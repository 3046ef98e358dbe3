"""NATS servers before 2.10, which cannot read several subjects of a stream in order.

`NATS_SERVER_2_9` names the program of one: on Debian 12, `apt-get download nats-server`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import missing
import pytest
from nats_parts import Collected, Sum, chain, part, run_parts, sums, texts

import torvyn
from nats_server import NatsServer
from torvyn.errors import FlowError

PROGRAM = os.environ.get("NATS_SERVER_2_9")
pytestmark = missing.needs("nats-server 2.9", is_there=PROGRAM is not None)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NatsServer]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = NatsServer(port, tmp_path / "nats", program=PROGRAM)
    server.start()
    monkeypatch.setenv("TORVYN_CLUSTER__NATS", server.url)
    yield server
    server.stop()


def test_edges_of_one_replica_work(server: NatsServer) -> None:
    sink = Collected()
    flow = chain(("a", texts(300)), ("sum", Sum()), ("b", sink))
    run_parts([part(flow, "b"), part(flow, "sum"), part(flow, "a")])
    assert sink.texts == sums(300)


def test_replicas_are_refused_with_the_version(server: NatsServer) -> None:
    flow = torvyn.Flow(name="main")
    place: Any = {"replicas": 2}
    flow.add("a", texts(3)).add("sum", Sum, key="key", place=place).add("b", Collected())
    flow.connect("a", "sum", carrier="nats").connect("sum", "b", carrier="nats")
    with pytest.raises(FlowError, match=r"has version 2\.9.*needs 2\.10") as caught:
        part(flow, "sum").run()
    assert caught.value.code == "broker.too-old"
