"""`stream_replicas`: how many servers store an edge, also one that has carried elements before."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from nats_parts import Collected, Sum, chain, part, sums, texts

from nats_server import NatsCluster, NatsServer, ask
from torvyn.errors import FlowError

STREAMS = ("TV_t_main_a-output-sum", "TV_t_main_sum-output-b", "KV_tv_t_main")


def replicas(server: NatsServer) -> list[int]:
    async def call(client: Any, js: Any) -> list[int]:
        return [(await js.stream_info(name)).config.num_replicas for name in STREAMS]

    found: list[int] = ask(server, call)
    return found


def test_a_broker_with_too_few_servers_says_so(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(("a", texts(5)), ("sum", Sum()), ("b", Collected())).run()
    monkeypatch.setenv("TORVYN_CLUSTER__STREAM_REPLICAS", "3")
    with pytest.raises(FlowError, match="on 3 servers") as caught:
        chain(("a", texts(5)), ("sum", Sum()), ("b", Collected())).run()
    assert caught.value.code == "broker.too-few-servers"
    assert replicas(server) == [1, 1, 1]


@pytest.mark.full
def test_it_counts_for_a_flow_that_has_run_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    with NatsCluster(ports, tmp_path) as cluster:
        monkeypatch.setenv("TORVYN_CLUSTER__NATS", cluster.url)
        monkeypatch.setenv("TORVYN_CLUSTER__NAMESPACE", "t")
        sink = Collected()
        flow = chain(("a", texts(50)), ("sum", Sum()), ("b", sink))
        part(flow, "a").run()
        part(flow, "sum").run()
        assert replicas(cluster.servers[0]) == [1, 1, 1]
        for count in (3, 1, 3):
            monkeypatch.setenv("TORVYN_CLUSTER__STREAM_REPLICAS", str(count))
            again = chain(("a", texts(0)), ("sum", Sum()), ("b", Collected()))
            for segment in ("a", "sum"):
                part(again, segment).run()
            assert replicas(cluster.servers[0]) == [count] * 3
        monkeypatch.setenv("TORVYN_CLUSTER__STREAM_REPLICAS", "3")
        part(chain(("a", texts(0)), ("sum", Sum()), ("b", sink)), "b").run()
        assert sink.texts == sums(50)
