"""The limits of API keys, counted over all servers of a cluster.

Each limited key has one entry at the broker: the streams of every server, and the time at which its
requests per minute are available again. A server changes it only if nobody else has changed it
meanwhile, so two servers never admit the same stream. What waits is changed together. While the
broker is away each server counts alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from torvyn.jetstream import BrokerUnavailable, Conflict, Refused
from torvyn.transport.access.key_limits import (
    KEY_BUSY,
    RateLimiter,
    rate_exceeded,
    too_many_streams,
)
from torvyn.transport.rejection import Rejection
from torvyn.transport.sessions.servers.control import NoAnswer

if TYPE_CHECKING:
    from torvyn.transport.access.caller import Caller
    from torvyn.transport.sessions.servers.control import Control
    from torvyn.transport.sessions.servers.peers import Peers
    from torvyn.transport.sessions.shared.records import SessionRecords

logger = logging.getLogger("torvyn.transport")

_RENEW_S: Final = 20.0
"""The broker deletes entries that nobody has renewed for a minute or more."""
_PACE_S: Final = 1.0
"""How soon servers share the tokens per second of a key anew."""
_LOOK_AGAIN_S: Final = (0.01, 0.05, 0.25)
"""A client may ask one server before another one has counted the end of its last answer."""


@dataclass(slots=True)
class KeyUse:
    """The entry of a key."""

    streams: dict[str, int] = field(default_factory=dict)
    full_s: float = 0.0
    """See `RateLimiter`, but by the wall clock."""

    @property
    def total(self) -> int:
        return sum(self.streams.values())

    def to_bytes(self) -> bytes:
        return json.dumps({"streams": self.streams, "full_s": self.full_s}).encode()


@dataclass(slots=True)
class _Change:
    """One stream more or less."""

    caller: Caller
    streams: int
    done: asyncio.Future[None]


class SharedKeyLimits:
    def __init__(
        self,
        records: SessionRecords,
        control: Control,
        peers: Peers,
        on_share: Callable[[str, float], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`on_share` gets a key, and this server's part of its tokens per second."""
        self._records = records
        self._control = control
        self._peers = peers
        self._on_share = on_share
        self._clock = clock
        self._waiting: dict[str, list[_Change]] = {}
        self._own: dict[str, int] = {}
        """The streams of this server."""
        self._renewed: set[str] = set()

    @asynccontextmanager
    async def enter(self, caller: Caller) -> AsyncIterator[None]:
        """One stream of the key. Raises a rejection at a limit."""
        entering = asyncio.ensure_future(self._admit(caller))
        try:
            await asyncio.shield(entering)
        except asyncio.CancelledError:
            self._control.spawn(self._undo(entering, caller))
            raise
        try:
            yield
        finally:
            self._control.spawn(self._change(caller, -1))

    async def _undo(self, entering: asyncio.Future[None], caller: Caller) -> None:
        """The client has left before it was counted."""
        with contextlib.suppress(Rejection):
            await entering
            await self._change(caller, -1)

    async def _admit(self, caller: Caller) -> None:
        for delay_s in _LOOK_AGAIN_S:
            try:
                await self._change(caller, 1)
            except Rejection as rejection:
                if rejection.code != KEY_BUSY:
                    raise
                await asyncio.sleep(delay_s)
            else:
                return
        await self._change(caller, 1)

    async def _change(self, caller: Caller, streams: int) -> None:
        key = _name(caller)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        change = _Change(caller, streams, done)
        if key in self._waiting:
            self._waiting[key].append(change)
        else:
            self._waiting[key] = [change]
            self._control.spawn(self._write_all(key))
        await done

    async def _write_all(self, key: str) -> None:
        while changes := self._waiting[key]:
            self._waiting[key] = []
            try:
                results = await self._write(key, changes)
            except (BrokerUnavailable, Refused):
                results = [None] * len(changes)  # each server counts alone now
            except Exception:
                # Requests of this key must not wait for ever.
                logger.exception("the limits of a key cannot be counted at the broker")
                results = [None] * len(changes)
            for change, result in zip(changes, results, strict=True):
                if change.done.done():
                    continue
                if result is None:
                    change.done.set_result(None)
                else:
                    change.done.set_exception(result)
        del self._waiting[key]

    async def _write(self, key: str, changes: list[_Change]) -> list[Rejection | None]:
        """Changes the entry; returns for each change why it was refused."""
        while True:
            use, revision = await self._read(key)
            await self._forget_dead(use, changes)
            results = [self._apply(use, change) for change in changes]
            if None not in results:
                return results
            try:
                await self._records.write(key, use.to_bytes(), revision)
            except Conflict:
                continue
            self._count(key, use, changes[0].caller)
            return results

    async def _read(self, key: str) -> tuple[KeyUse, int]:
        found = await self._records.read(key)
        return (KeyUse(), 0) if found is None else (KeyUse(**json.loads(found[0])), found[1])

    def _apply(self, use: KeyUse, change: _Change) -> Rejection | None:
        caller, server = change.caller, self._control.server
        if change.streams > 0:
            if caller.max_streams is not None and use.total >= caller.max_streams:
                return too_many_streams(caller.max_streams)
            if caller.requests_per_minute is not None:
                limiter = RateLimiter(use.full_s)
                wait_s = limiter.take(self._clock(), caller.requests_per_minute)
                if wait_s > 0:
                    return rate_exceeded(caller.requests_per_minute, wait_s)
                use.full_s = limiter.full_s
        use.streams[server] = max(0, use.streams.get(server, 0) + change.streams)
        if not use.streams[server]:
            del use.streams[server]
        return None

    async def _forget_dead(self, use: KeyUse, changes: list[_Change]) -> None:
        """Drops the streams of servers that were killed: when it matters to the limits of the key,
        and when the entry is renewed, so that it does not grow with every server that ends."""
        caller = changes[0].caller
        limit = caller.max_streams
        has_room = limit is None or use.total + len(changes) <= limit
        is_renewed = not all(change.streams for change in changes)
        if has_room and caller.tokens_per_second is None and not is_renewed:
            return
        for server in set(use.streams) - {self._control.server}:
            if not await self._is_here(server):
                del use.streams[server]

    async def _is_here(self, server: str) -> bool:
        if self._peers.is_gone(server):
            return False
        try:
            await self._control.ask_until_sure(server, "here")
        except NoAnswer:
            return False
        return True

    def _count(self, key: str, use: KeyUse, caller: Caller) -> None:
        own = use.streams.get(self._control.server, 0)
        if caller.tokens_per_second is not None:
            self._on_share(caller.key, own / use.total if own else 1.0)
        if not own:
            self._own.pop(key, None)
            return
        self._own[key] = own
        if key not in self._renewed:
            self._renewed.add(key)
            self._control.spawn(self._renew(key, caller))

    async def _renew(self, key: str, caller: Caller) -> None:
        every_s = _RENEW_S if caller.tokens_per_second is None else _PACE_S
        while key in self._own:
            await asyncio.sleep(every_s)
            if key in self._own:
                await self._change(caller, 0)
        self._renewed.discard(key)


def _name(caller: Caller) -> str:
    return "limit-" + hashlib.sha256(caller.key.encode()).hexdigest()[:32]
