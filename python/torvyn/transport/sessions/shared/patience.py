"""How long to wait for a broker that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from torvyn.jetstream import BrokerConnection, BrokerUnavailable
from torvyn.transport.sessions.store import SessionLost

T = TypeVar("T")

_AGAIN_S: Final = 0.01


async def patiently(broker: BrokerConnection, work: Callable[[], Awaitable[T]], wait_s: float) -> T:
    """Does the work, again whenever the connection was lost. It must notice what it has done
    before. Raises `session.broker-away` after that time."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + wait_s
    while True:
        try:
            async with asyncio.timeout_at(end_s):
                await broker.connected()
        except TimeoutError:
            raise broker_away() from None
        try:
            return await work()
        except BrokerUnavailable:
            if loop.time() >= end_s:
                raise broker_away() from None
        await asyncio.sleep(_AGAIN_S)


def broker_away() -> SessionLost:
    return SessionLost(
        "the broker that keeps this stream cannot be reached",
        code="session.broker-away",
        hint="resume it after a while; frames that were sent are not lost",
    )
