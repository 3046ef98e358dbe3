"""Counts that all servers of a cluster share: of each, what every server has, and their limit.

A count has one entry at the broker. A server changes it only if nobody else has changed it
meanwhile, so two servers never take the same place. What waits is changed together. An entry has
the whole number of each server: a change that was interrupted is made good by the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from torvyn._io.nats import BrokerUnavailable, Conflict, Refused
from torvyn.transport.access.key_limits import RateLimiter
from torvyn.transport.rejection import Rejection
from torvyn.transport.sessions.servers.control import NoAnswer

if TYPE_CHECKING:
    from torvyn.transport.sessions.servers.control import Control
    from torvyn.transport.sessions.servers.peers import Peers
    from torvyn.transport.sessions.shared.bucket import Bucket

logger = logging.getLogger("torvyn.transport")

RENEW_S: Final = 20.0
"""The broker deletes entries that nobody has renewed for a minute or more."""
_AGAIN_S: Final = 1.0
"""How soon a number is written that could not be."""
_LOOK_AGAIN_S: Final = (0.01, 0.05, 0.25)
"""A client may ask one server before another one has counted the end of its last answer."""


class CountFull(Exception):
    """There is no place."""


class RateFull(Exception):
    """There is no place now, but after `wait_s`."""

    def __init__(self, wait_s: float) -> None:
        super().__init__()
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class CountLimit:
    key: str
    """Of the entry."""
    most: int | None = None
    """Places, over all servers."""
    per_minute: int | None = None
    renew_s: float = RENEW_S
    on_count: Callable[[int, int], None] | None = None
    """Gets the number of this server, and that of all."""


@dataclass(slots=True)
class CountEntry:
    """What the broker has of a count."""

    streams: dict[str, int] = field(default_factory=dict)
    """The number of each server."""
    full_s: float = 0.0
    """See `RateLimiter`, but by the wall clock."""

    @property
    def total(self) -> int:
        return sum(self.streams.values())

    def to_bytes(self) -> bytes:
        return json.dumps({"streams": self.streams, "full_s": self.full_s}).encode()


@dataclass(slots=True)
class _Add:
    limit: CountLimit
    places: int
    done: asyncio.Future[None]


@dataclass(slots=True)
class _Count:
    """A count as this server has it."""

    limit: CountLimit
    own: int = 0
    """What this server has, also while the broker does not know it."""
    is_known: bool = True
    """Whether the broker knows it."""
    waiting: list[_Add] = field(default_factory=list)
    is_writing: bool = False
    is_renewed: bool = False
    last: tuple[CountEntry, int] | None = None
    """The entry that this server wrote last, and its revision."""


class SharedCounts:
    """Used in one loop, by one server."""

    def __init__(
        self,
        bucket: Bucket,
        control: Control,
        peers: Peers,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._bucket = bucket
        self._control = control
        self._peers = peers
        self._clock = clock
        self._counts: dict[str, _Count] = {}
        self._is_closed = False

    def close(self) -> None:
        """Writes nothing more: the number of a server that has ended counts no longer."""
        self._is_closed = True

    async def add(self, limit: CountLimit, places: int = 1) -> None:
        """Takes places of a count. Raises `CountFull`, `RateFull`, or a rejection if the broker
        refuses to count. While the broker is away each server counts alone."""
        adding = asyncio.ensure_future(self._admit(limit, places))
        try:
            await asyncio.shield(adding)
        except asyncio.CancelledError:
            self._control.spawn(self._undo(adding, limit, places))
            raise

    def remove(self, limit: CountLimit, places: int = 1) -> None:
        """Gives places back."""
        count = self._of(limit)
        count.own = max(0, count.own - places)
        count.is_known = False
        self._begin_writing(count)

    async def _undo(self, adding: asyncio.Future[None], limit: CountLimit, places: int) -> None:
        """The client has left before it was counted."""
        with contextlib.suppress(Rejection, CountFull, RateFull):
            await adding
            self.remove(limit, places)

    async def _admit(self, limit: CountLimit, places: int) -> None:
        for delay_s in _LOOK_AGAIN_S:
            try:
                await self._add(limit, places)
            except CountFull:
                await asyncio.sleep(delay_s)
            else:
                return
        await self._add(limit, places)

    async def _add(self, limit: CountLimit, places: int) -> None:
        count = self._of(limit)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        count.waiting.append(_Add(limit, places, done))
        self._begin_writing(count)
        await done

    def _of(self, limit: CountLimit) -> _Count:
        count = self._counts.get(limit.key)
        if count is None:
            count = self._counts[limit.key] = _Count(limit)
        count.limit = limit
        return count

    # Writing

    def _begin_writing(self, count: _Count) -> None:
        if not count.is_writing and not self._is_closed:
            count.is_writing = True
            self._control.spawn(self._write_all(count))

    async def _write_all(self, count: _Count) -> None:
        try:
            while await self._write_waiting(count):
                pass
        finally:
            count.is_writing = False
        if not count.is_known:
            asyncio.get_running_loop().call_later(_AGAIN_S, self._begin_writing, count)
        elif count.own and not count.is_renewed:
            count.is_renewed = True
            self._control.spawn(self._renew(count))
        self._forget_unused(count)

    async def _write_waiting(self, count: _Count) -> bool:
        """Writes the number of this server with what waits; whether there is more to write."""
        adds, count.waiting = count.waiting, []
        results: list[Exception | None]
        try:
            results = await self._write(count, adds)
        except BrokerUnavailable:
            # Each server counts alone now.
            count.own += sum(add.places for add in adds)
            results = [None] * len(adds)
            count.is_known = False
        except Exception as error:
            if not isinstance(error, Refused):
                logger.exception("a limit cannot be counted at the broker")
            results = [limits_unavailable(str(error))] * len(adds)
            count.is_known = False
            count.last = None
        else:
            _resolve(adds, results)
            return bool(count.waiting) or not count.is_known
        _resolve(adds, results)
        return bool(count.waiting)

    async def _write(self, count: _Count, adds: list[_Add]) -> list[Exception | None]:
        """Changes the entry; returns for each of them why it was refused."""
        server, key = self._control.server, count.limit.key
        while True:
            is_fresh = count.last is None
            entry, revision = count.last or await self._read(key)
            count.last = None
            await self._forget_dead(entry, count, adds)
            own = count.own
            changed = CountEntry({**entry.streams, server: own}, entry.full_s)
            results = [self._apply(changed, add) for add in adds]
            if any(results) and not is_fresh:
                continue  # another server may have given a place back
            number = changed.streams[server]
            if not number:
                del changed.streams[server]
            if adds and None not in results and changed.streams == entry.streams:
                return results
            try:
                revision = await self._bucket.write(key, changed.to_bytes(), revision)
            except Conflict:
                continue
            count.last = (changed, revision)
            count.own += number - own  # some may have been given back meanwhile
            count.is_known = count.own == number
            if count.limit.on_count is not None:
                count.limit.on_count(count.own, max(changed.total, count.own))
            return results

    async def _read(self, key: str) -> tuple[CountEntry, int]:
        found = await self._bucket.read(key)
        if found is None:
            return CountEntry(), 0
        return CountEntry(**json.loads(found.value)), found.revision

    def _apply(self, entry: CountEntry, add: _Add) -> Exception | None:
        limit = add.limit
        if limit.most is not None and entry.total + add.places > limit.most:
            return CountFull()
        if limit.per_minute is not None:
            limiter = RateLimiter(entry.full_s)
            wait_s = limiter.take(self._clock(), limit.per_minute)
            if wait_s > 0:
                return RateFull(wait_s)
            entry.full_s = limiter.full_s
        entry.streams[self._control.server] += add.places
        return None

    async def _forget_dead(self, entry: CountEntry, count: _Count, adds: list[_Add]) -> None:
        """Drops the numbers of servers that were killed: when it matters to the limit, and when the
        entry is renewed, so that it does not grow with every server that ends."""
        places = sum(add.places for add in adds)
        most = [add.limit.most for add in adds if add.limit.most is not None]
        has_room = not most or entry.total + places <= min(most)
        if has_room and count.limit.on_count is None and adds:
            return
        if not adds and not count.is_known:
            return  # a place is given back: nobody waits for it
        for server in set(entry.streams) - {self._control.server}:
            if not await self._is_here(server):
                del entry.streams[server]

    async def _is_here(self, server: str) -> bool:
        if self._peers.is_gone(server):
            return False
        try:
            await self._control.ask_until_sure(server, "here")
        except NoAnswer:
            return False
        return True

    # Renewing

    async def _renew(self, count: _Count) -> None:
        while count.own:
            await asyncio.sleep(count.limit.renew_s)
            if count.own:
                self._begin_writing(count)
        count.is_renewed = False
        self._forget_unused(count)

    def _forget_unused(self, count: _Count) -> None:
        is_used = count.own or count.waiting or count.is_writing or count.is_renewed
        if not is_used and count.is_known and self._counts.get(count.limit.key) is count:
            del self._counts[count.limit.key]


def _resolve(adds: list[_Add], results: list[Exception | None]) -> None:
    for add, result in zip(adds, results, strict=True):
        if add.done.done():
            continue
        if result is None:
            add.done.set_result(None)
        else:
            add.done.set_exception(result)


def limits_unavailable(why: str) -> Rejection:
    return Rejection(
        503,
        "transport.limits-unavailable",
        f"the limits of this API key cannot be checked: the broker refuses to count ({why})",
        hint="try again later; the broker that `session_store` names has to accept messages",
        headers={"retry-after": "1"},
    )
