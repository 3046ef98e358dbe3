"""Every `broker.*` code. What needs a server is in tests/nats_edges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from torvyn.errors import TorvynError
from torvyn.jetstream import BrokerConnection, BrokerUnavailable
from torvyn.reactor.carriers.nats.refusals import (
    entry_damaged,
    entry_gone,
    other_project,
    partitions_changed,
    refused,
    replicas_changed,
    run_over,
    run_unnamed,
    server_too_old,
    taken_over,
)


def connect_to_nobody(_: Path) -> None:
    async def main() -> None:
        await BrokerConnection("nats://127.0.0.1:1", "main").open(0.05)

    asyncio.run(main())


def raising(error: TorvynError) -> Callable[[Path], object]:
    def case(_: Path) -> None:
        raise error

    return case


CASES: dict[str, Callable[[Path], object]] = {
    "broker.away": connect_to_nobody,
    "broker.entry-damaged": raising(entry_damaged("a.0")),
    "broker.entry-gone": raising(entry_gone("a.0")),
    "broker.full": raising(BrokerUnavailable("`a->b` is full on the broker", is_full=True)),
    "broker.other-project": raising(other_project("main", "plant", "office")),
    "broker.partitions-changed": raising(partitions_changed("a->b", 3)),
    "broker.refused": raising(refused("a->b", "insufficient storage")),
    "broker.replicas-changed": raising(replicas_changed("a", 2, 3, ["saved states of `a`"])),
    "broker.run-over": raising(run_over("main.a.0", "r1")),
    "broker.run-unnamed": raising(run_unnamed("a:output->b", "a.0", "r1")),
    "broker.taken-over": raising(taken_over("main.a.0")),
    "broker.too-old": raising(server_too_old("a->b", (2, 9), (2, 10))),
}
