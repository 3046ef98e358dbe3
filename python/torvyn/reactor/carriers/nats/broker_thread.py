"""The connections of a flow: one for requests, on the background loop, for a thread that waits; and
one for elements, which native code uses."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from torvyn._native import NatsClient
from torvyn.concurrency.background_loop import background_loop
from torvyn.jetstream import BrokerConnection, BrokerUnavailable, Publisher, Streams
from torvyn.jetstream.connection import OPEN_TIMEOUT_S
from torvyn.jetstream.start_wait import StartWait, check_addresses

Result = TypeVar("Result")

WAIT_S: Final = 30.0
"""No call takes longer: each of its requests has a limit of its own."""


class BrokerThread:
    def __init__(self, urls: str, flow: str, start: StartWait | None = None) -> None:
        check_addresses(urls)
        self._urls = urls
        self.loop = background_loop()
        self.broker, self.publisher, self.streams = self.call(self._make(urls, flow))
        try:
            (start or StartWait(flow, OPEN_TIMEOUT_S)).wait_for(self.broker.connection)
        except BaseException:
            self.close()
            raise

    async def _make(self, urls: str, flow: str) -> tuple[BrokerConnection, Publisher, Streams]:
        broker = BrokerConnection(urls, flow)
        publisher = Publisher(broker)
        broker.begin()
        return broker, publisher, Streams(broker)

    @cached_property
    def data(self) -> NatsClient:
        """The connection for elements."""
        client = _native_client(self._urls)
        if not client.wait(OPEN_TIMEOUT_S):
            client.close()
            raise BrokerUnavailable(f"no connection to {self.broker.address}")
        return client

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs a coroutine on the loop, and waits for it."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(WAIT_S)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise BrokerUnavailable("the broker does not answer") from None

    def soon(self, callback: Callable[[], Any]) -> None:
        self.loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        if (client := self.__dict__.pop("data", None)) is not None:
            client.close()
        self.call(self.broker.close())


def _native_client(urls: str) -> NatsClient:
    """Credentials are those of the first address that has some, as for the other connection."""
    stripped = [url.strip() for url in urls.split(",")]
    addresses = [urlsplit(url if "://" in url else f"nats://{url}") for url in stripped]
    bare = [each._replace(netloc=each.netloc.rpartition("@")[2]).geturl() for each in addresses]
    known = next((each for each in addresses if each.username), None)
    if known is None:
        return NatsClient(bare)
    name = unquote(known.username or "")
    if known.password is None:
        return NatsClient(bare, token=name)
    return NatsClient(bare, name, unquote(known.password))
