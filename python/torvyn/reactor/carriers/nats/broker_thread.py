"""The connections of a flow: one for requests, on the background loop, for a thread that waits; and
one for elements, which native code uses."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any, Final, TypeVar

from torvyn._io.background_loop import background_loop, wait_for
from torvyn._io.broker_login import NO_LOGIN, BrokerLogin
from torvyn._native import NatsClient
from torvyn.jetstream import BrokerConnection, BrokerUnavailable, Publisher, Streams
from torvyn.jetstream.addresses import BrokerAddresses
from torvyn.jetstream.connection import OPEN_TIMEOUT_S
from torvyn.jetstream.failures import BrokerDenied, Denial
from torvyn.jetstream.start_wait import BrokerWait, check_addresses

Result = TypeVar("Result")

WAIT_S: Final = 30.0
"""No call takes longer: each of its requests has a limit of its own."""


class BrokerThread:
    def __init__(
        self,
        urls: str,
        flow: str,
        start: BrokerWait | None = None,
        login: BrokerLogin = NO_LOGIN,
    ) -> None:
        check_addresses(urls)
        self._addresses = BrokerAddresses.parse(urls, login)
        # A file that cannot be read ends the start at once.
        self._addresses.check()
        self.loop = background_loop()
        self.broker, self.publisher, self.streams = self.call(self._make(urls, flow, login))
        try:
            (start or BrokerWait(flow, OPEN_TIMEOUT_S)).wait_for(self.broker.connection)
        except BaseException:
            self.close()
            raise

    async def _make(
        self, urls: str, flow: str, login: BrokerLogin
    ) -> tuple[BrokerConnection, Publisher, Streams]:
        broker = BrokerConnection(urls, flow, login)
        publisher = Publisher(broker)
        broker.begin()
        return broker, publisher, Streams(broker)

    @cached_property
    def data(self) -> NatsClient:
        """The connection for elements."""
        found = self._addresses
        login = found.login
        client = NatsClient(
            list(found.urls),
            **found.read_secrets()._asdict(),
            ca_file=login.ca_file or None,
            client_certificate=login.client_certificate,
        )
        if not client.wait(OPEN_TIMEOUT_S):
            client.close()
            raise BrokerUnavailable(f"no connection to {self.broker.address}")
        return client

    @property
    def denial(self) -> BrokerDenied | None:
        """A right that is missing, on either connection."""
        if self.broker.denial is not None or "data" not in self.__dict__:
            return self.broker.denial
        denial = Denial.parse(self.data.denial or "")
        return None if denial is None else BrokerDenied(self.broker.address, denial)

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs a coroutine on the loop, and waits for it."""
        try:
            return wait_for(work, self.loop, WAIT_S)
        except TimeoutError:
            raise BrokerUnavailable("the broker does not answer") from None

    def soon(self, callback: Callable[[], Any]) -> None:
        self.loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        if (client := self.__dict__.pop("data", None)) is not None:
            client.close()
        self.call(self.broker.close())
