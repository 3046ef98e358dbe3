"""Every `broker.*` code. What needs a server is in tests/nats_edges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from torvyn._durable.nats.failures import (
    before_namespaces,
    entry_damaged,
    entry_gone,
    flow_runs,
    other_project,
    partitions_changed,
    refused,
    replicas_changed,
    run_over,
    run_unnamed,
    server_too_old,
    stream_gone,
    taken_over,
)
from torvyn._durable.nats.names import FlowNames
from torvyn._io.broker_login import unusable
from torvyn._io.nats import BrokerConnection, BrokerDenied, BrokerUnavailable, Denial, Refused
from torvyn.errors import TorvynError


def connect_to_nobody(_: Path) -> None:
    async def main() -> None:
        await BrokerConnection("nats://127.0.0.1:1", "main").open(0.05)

    asyncio.run(main())


def raising(error: TorvynError) -> Callable[[Path], object]:
    def case(_: Path) -> None:
        raise error

    return case


NAMES = FlowNames("shop", "main")
CASES: dict[str, Callable[[Path], object]] = {
    "broker.away": connect_to_nobody,
    "broker.before-namespaces": raising(before_namespaces(NAMES)),
    "broker.credentials": raising(unusable("`nkey_file` of `[cluster]` cannot be read")),
    "broker.denied": raising(BrokerDenied("nats://a:4222", Denial(True, "tv.shop.main"))),
    "broker.entry-damaged": raising(entry_damaged("a.0")),
    "broker.entry-gone": raising(entry_gone("a.0")),
    "broker.flow-runs": raising(flow_runs(NAMES, "process 7 on a")),
    "broker.full": raising(BrokerUnavailable("`a->b` is full on the broker", is_full=True)),
    "broker.other-project": raising(other_project(NAMES, "plant", "office")),
    "broker.partitions-changed": raising(partitions_changed("a->b", 3)),
    "broker.refused": raising(refused("a->b", Refused(10047, "insufficient storage"), 1)),
    "broker.replicas-changed": raising(replicas_changed("a", 2, 3, ["saved states of `a`"])),
    "broker.run-over": raising(run_over("main.a.0", "r1")),
    "broker.run-unnamed": raising(run_unnamed("a:output->b", "a.0", "r1")),
    "broker.stream-gone": raising(stream_gone("a->b", "TV_shop_main_a-b", 3)),
    "broker.taken-over": raising(taken_over("main.a.0")),
    "broker.too-few-servers": raising(refused("a->b", Refused(10074, "no"), 3)),
    "broker.too-old": raising(server_too_old("a->b", (2, 9), (2, 10))),
}
