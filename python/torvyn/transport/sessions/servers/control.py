"""Requests between the servers of a cluster, over the broker.

Every server has a subject of its own, and one that all of them read. A request that nobody listens
to comes back at once, so a server that was killed is noticed without waiting.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from torvyn._io.nats import BrokerConnection, BrokerUnavailable
from torvyn.transport.sessions.shared.address import StoreAddress

logger = logging.getLogger("torvyn.transport")

ALL: Final = "all"
ANSWER_S: Final = 2.0
"""How long a request that does something may take."""
ALIVE_S: Final = 0.6
"""A server that does not say for so long, twice, that it is there is taken for dead."""

_SETTLE_S: Final = 0.5
_LONGEST_SETTLE_S: Final = 5.5
"""After a broker was away, its servers connect again one after the other: each tries again after as
long as it was away at most, and after 5 s."""
_TRIES_S: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.3)

Fields = Mapping[str, Any]
Handler = Callable[[Fields], Awaitable[dict[str, Any] | None]]


class NoAnswer(Exception):
    """A server does not answer; `is_certain`: nobody listens there."""

    def __init__(self, is_certain: bool) -> None:
        super().__init__()
        self.is_certain = is_certain


class Control:
    """`handlers` has a coroutine function per kind of request; what it returns is the answer."""

    def __init__(self, broker: BrokerConnection, address: StoreAddress, server: str) -> None:
        self._broker = broker
        self._address = address
        self.server = server
        self.handlers: dict[str, Handler] = {"here": _here}
        self.on_heard: Callable[[str], None] = lambda server: None
        """Called with the server that a request comes from."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost_s: float | None = None
        """When the connection was lost."""
        self._settled_s = 0.0
        """When the others have probably connected again as well."""
        broker.setups.append(self._subscribe)
        broker.teardowns.append(self._on_lost)

    async def _subscribe(self, client: Any) -> None:
        for name in (self.server, ALL):
            await client.subscribe(self._address.control_subject(name), cb=self._on_request)
        # Whoever learns of this server later can ask it.
        await client.flush()
        if self._lost_s is not None:
            now_s = asyncio.get_running_loop().time()
            away_s, self._lost_s = now_s - self._lost_s, None
            self._settled_s = now_s + min(away_s + _SETTLE_S, _LONGEST_SETTLE_S)

    def _on_lost(self) -> None:
        if self._lost_s is None:
            self._lost_s = asyncio.get_running_loop().time()

    @property
    def is_settling(self) -> bool:
        """Whether the connection was lost a moment ago: then other servers may seem to be gone
        that connect again soon."""
        return asyncio.get_running_loop().time() < self._settled_s

    async def ask(
        self, server: str, kind: str, timeout_s: float = ANSWER_S, **fields: Any
    ) -> dict[str, Any]:
        """The answer of a server. Raises `NoAnswer` or `BrokerUnavailable`."""
        from nats import errors

        subject = self._address.control_subject(server)
        data = json.dumps({"kind": kind, "from": self.server, **fields}).encode()
        client = self._broker.require()
        try:
            message = await client.request(subject, data, timeout=timeout_s)
        except errors.NoRespondersError:
            raise NoAnswer(True) from None
        except TimeoutError:
            self._broker.require()
            raise NoAnswer(False) from None
        except (OSError, errors.Error) as error:
            raise BrokerUnavailable(f"{self._broker.address}: {error}") from error
        answer: dict[str, Any] = json.loads(message.data)
        return answer

    async def ask_until_sure(self, server: str, kind: str, **fields: Any) -> dict[str, Any]:
        """As `ask`, but asks again soon: the broker may not have noticed yet that the server was
        killed a moment ago."""
        for timeout_s in _TRIES_S:
            try:
                return await self.ask(server, kind, timeout_s, **fields)
            except NoAnswer as error:
                if error.is_certain and not self.is_settling:
                    raise
                if error.is_certain:
                    await asyncio.sleep(timeout_s)
        return await self.ask(server, kind, 2 * ALIVE_S, **fields)

    def tell(self, server: str, kind: str, **fields: Any) -> None:
        """Sends a message that needs no answer; it may be lost with the connection."""
        subject = self._address.control_subject(server)
        data = json.dumps({"kind": kind, "from": self.server, **fields}).encode()
        self.spawn(self._send(subject, data))

    async def _send(self, subject: str, data: bytes) -> None:
        try:
            await self._broker.require().publish(subject, data)
        except Exception as error:
            # What the library raises when the connection ends has no common class.
            logger.debug("sessions: a message was lost with the connection: %r", error)

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("sessions: %s", error, exc_info=error)

    async def _on_request(self, message: Any) -> None:
        fields = json.loads(message.data)
        self.on_heard(fields["from"])
        handler = self.handlers.get(fields["kind"])
        if handler is not None:
            self.spawn(self._answer(handler, fields, message.reply))

    async def _answer(self, handler: Handler, fields: Fields, reply: str) -> None:
        answer = await handler(fields)
        if reply and answer is not None:
            await self._send(reply, json.dumps(answer).encode())


async def _here(fields: Fields) -> dict[str, Any]:
    return {}
