"""How long to wait for a broker that is away, and for an answer that does not come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from torvyn._io.jetstream import Revisions
from torvyn._io.nats import BrokerConnection, BrokerUnavailable, Conflict
from torvyn.transport.sessions.store import SessionLost

T = TypeVar("T")

_AGAIN_S: Final = 0.01
_SILENT_S: Final = 0.3
"""After so long a cluster of brokers is asked again: what reaches a stream between two leaders gets
no answer."""


async def insistently(broker: BrokerConnection, work: Callable[[], Awaitable[T]]) -> T:
    """The first result of the work, which is begun again while there is none. It must notice what
    it has done before. With one broker nothing is gained by asking again."""
    if not broker.is_cluster:
        return await work()
    tries: set[asyncio.Future[T]] = set()
    try:
        while True:
            tries.add(asyncio.ensure_future(work()))
            when = asyncio.FIRST_COMPLETED
            done, tries = await asyncio.wait(tries, timeout=_SILENT_S, return_when=when)
            for one in done:
                return one.result()
    finally:
        for one in tries:
            one.cancel()


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


async def append_once(messages: Revisions, subject: str, data: bytes, last: int) -> int:
    """Adds a message behind the one with that number, and returns its own; also if it is there
    already, because a confirmation was lost. Raises `Conflict` if another one is there."""
    try:
        return await messages.append(subject, data, last)
    except Conflict:
        tail = await messages.last(subject)
        if tail is None or tail.value != data or tail.revision <= last:
            raise
        return tail.revision


def broker_away() -> SessionLost:
    return SessionLost(
        "the broker that keeps this stream cannot be reached",
        code="session.broker-away",
        hint="resume it after a while; frames that were sent are not lost",
    )
