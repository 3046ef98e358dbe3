"""The members of a pool: which one gets a request, and who waits for one.

A request with a session goes to the member that its session belongs to, as long as that one is well
and not much busier than the others; every other request goes to the member with the fewest requests
in flight. Sessions belong to members by rendezvous hashing: every process that serves the same pool
agrees without a table, and a member that leaves moves only its own sessions.

A member that answers nothing is done at once, and would always have the fewest requests in flight:
one whose answers are empty or refusals far more often than those of others gets only a few.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from torvyn.engine.pool.limits import Limits
from torvyn.engine.pool.member import Member, Outcome
from torvyn.errors import InvalidInput, Unavailable

_LOOK_S: Final = 0.1
"""How often a waiting request looks for a member whose pause is over."""
_LEAST_SLACK: Final = 2
_SUSPECT_ABOVE: Final = 0.5
"""A member is suspect if its share of useless answers is so far above that of another one."""
_TRY_EVERY: Final = 20
"""One of so many requests goes to a suspect member all the same, to find out whether it is well
again."""


class Lease:
    """A request's place at a member, until `Members.release`."""

    __slots__ = ("member",)

    def __init__(self, member: Member) -> None:
        self.member = member


class _Waiter:
    __slots__ = ("avoided", "future", "lease", "loop", "session", "since_s")

    def __init__(self, session: str | None, avoided: Collection[Member], since_s: float) -> None:
        self.since_s = since_s
        self.session = session
        self.avoided = avoided
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()
        self.lease: Lease | None = None

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class Members:
    """From any thread and any event loop."""

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        *,
        are_supplied: bool = False,
    ) -> None:
        """`are_supplied`: those that die are started again, and are worth waiting for."""
        self.limits = limits
        self._are_supplied = are_supplied
        self._clock = clock
        self._lock = threading.Lock()
        self._list: list[Member] = []
        self._waiters: deque[_Waiter] = deque()
        self._turn = 0
        self.retries = self.rejected = self.waited = 0
        self.wait_s = 0.0
        """How long the request that got a member last has waited for it."""
        self._is_closed = False

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._list))

    def __len__(self) -> int:
        return len(self._list)

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    @property
    def in_flight(self) -> int:
        return sum(member.in_flight for member in self._list)

    @property
    def longest_wait_s(self) -> float:
        """How long the first in the queue has waited; 0 if nobody waits."""
        since_s = min((waiter.since_s for waiter in tuple(self._waiters)), default=None)
        return 0.0 if since_s is None else self._clock() - since_s

    async def acquire(self, session: str | None, avoided: Collection[Member] = ()) -> Lease:
        """A place at a member; waits for one in turn. Raises if the queue is full, or nothing has
        become free in time."""
        with self._lock:
            lease = None if self._waiters else self._take(session, avoided)
            if lease is not None:
                self.wait_s = 0.0
                return lease
            waiter = self._enqueue(session, avoided)
        try:
            await self._wait(waiter)
        except BaseException:
            self._withdraw(waiter)
            raise
        self._withdraw(waiter, keeps_lease=True)
        if waiter.lease is None:
            raise self._nothing_free()
        self.wait_s = self._clock() - waiter.since_s
        return waiter.lease

    def release(self, lease: Lease, outcome: Outcome, first_text_s: float | None = None) -> None:
        with self._lock:
            lease.member.end(outcome, first_text_s)
            self._serve()

    def look(self) -> None:
        """Something has changed: those who wait may get a member now."""
        with self._lock:
            self._serve()

    def add(self, member: Member) -> None:
        with self._lock:
            if any(other.url == member.url for other in self._list):
                raise Unavailable(f"the pool has a member `{member.name}` already")
            self._list.append(member)
            self._serve()

    def remove(self, member: Member) -> None:
        with self._lock:
            self._list = [other for other in self._list if other is not member]

    def find(self, name: str) -> Member:
        """The member of this name or address."""
        for member in self._list:
            if name in (member.name, member.url):
                return member
        names = ", ".join(f"`{member.name}`" for member in self._list) or "none"
        message = f"the pool has no member `{name[:100]}`"
        raise InvalidInput(message, hint=f"its members are {names}", code="engine.member-unknown")

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for waiter in self._waiters:
                waiter.loop.call_soon_threadsafe(waiter.wake)

    def to_dict(self) -> dict[str, Any]:
        with self._lock:
            return {
                "members": [member.to_dict() for member in self._list],
                "in_flight": self.in_flight,
                "waiting": len(self._waiters),
                "longest_wait_s": round(self.longest_wait_s, 3),
                "max_waiting": self.limits.max_waiting,
                "retries": self.retries,
                "rejected": self.rejected,
            }

    # Under the lock

    def _take(self, session: str | None, avoided: Collection[Member]) -> Lease | None:
        member = self._choose(session, avoided)
        if member is None:
            return None
        member.begin()
        return Lease(member)

    def _choose(self, session: str | None, avoided: Collection[Member]) -> Member | None:
        free = [member for member in self._list if member.is_free]
        if avoided and any(member not in avoided for member in self._list):
            free = [member for member in free if member not in avoided]
        if not free:
            return None
        self._turn += 1
        free = self._useful(free)
        least = min(member.in_flight for member in free)
        if session is not None:
            own = self._owner(session, avoided)
            slack = max(_LEAST_SLACK, own.limit // 4) if own is not None else 0
            if own in free and own is not None and own.in_flight - least <= slack:
                return own
        # Equals take turns, so that idle members share what comes one at a time.
        order = free[self._turn % len(free) :] + free[: self._turn % len(free)]
        return min(order, key=lambda member: (member.in_flight, round(member.first_text_s, 2)))

    def _useful(self, free: list[Member]) -> list[Member]:
        """Those of them that are not suspect, or one that is, when it is its turn."""
        most = min(member.useless_share for member in free) + _SUSPECT_ABOVE
        suspect = [member for member in free if member.useless_share > most]
        if suspect and not self._turn % _TRY_EVERY:
            return [suspect[self._turn // _TRY_EVERY % len(suspect)]]
        return [member for member in free if member not in suspect]

    def _owner(self, session: str, avoided: Collection[Member]) -> Member | None:
        """The member that the session belongs to, of those that are well."""
        well = [
            member
            for member in self._list
            if member.state in ("up", "unknown", "busy") and member not in avoided
        ]
        return max(well, key=lambda member: _weight(session, member.url), default=None)

    def _is_down(self, avoided: Collection[Member]) -> bool:
        """Whether no member is well that a request could wait for."""
        if self._are_supplied:
            return False
        others = [member for member in self._list if member not in avoided] or self._list
        return all(member.state in ("down", "open") for member in others)

    def _enqueue(self, session: str | None, avoided: Collection[Member]) -> _Waiter:
        if self._is_down(avoided):
            self.rejected += 1
            raise self._down()
        if self._is_closed or len(self._waiters) >= self.limits.max_waiting:
            self.rejected += 1
            raise Unavailable(
                f"the pool has no free member, and {len(self._waiters)} requests wait for one",
                hint="try again later",
                code="engine.pool-full",
            )
        self.waited += 1
        waiter = _Waiter(session, avoided, self._clock())
        self._waiters.append(waiter)
        return waiter

    def _serve(self) -> None:
        """Gives free members to those who wait, in turn."""
        left: deque[_Waiter] = deque()
        while self._waiters:
            waiter = self._waiters.popleft()
            waiter.lease = self._take(waiter.session, waiter.avoided)
            if waiter.lease is None:
                left.append(waiter)
            else:
                waiter.loop.call_soon_threadsafe(waiter.wake)
        self._waiters = left

    # Waiting

    async def _wait(self, waiter: _Waiter) -> None:
        until_s = waiter.since_s + self.limits.max_wait_s
        while waiter.lease is None and not self._is_closed:
            left_s = until_s - self._clock()
            if left_s <= 0:
                return
            await asyncio.wait([waiter.future], timeout=min(left_s, _LOOK_S))
            if waiter.lease is None:
                self.look()
                if self._is_down(waiter.avoided):
                    return

    def _withdraw(self, waiter: _Waiter, *, keeps_lease: bool = False) -> None:
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            lease = waiter.lease
        if lease is not None and not keeps_lease:
            self.release(lease, "left")

    def _nothing_free(self) -> Unavailable:
        with self._lock:
            self.rejected += 1
            well = sum(member.state in ("up", "unknown", "busy") for member in self._list)
        if well:
            message = f"no member of the pool became free within {self.limits.max_wait_s:g} s"
            return Unavailable(message, hint="try again later", code="engine.pool-full")
        return self._down()

    def _down(self) -> Unavailable:
        message = f"none of the {len(self._list)} members of the pool can be reached"
        return Unavailable(message, hint="try again later", code="engine.pool-down")


def _weight(session: str, url: str) -> bytes:
    return hashlib.blake2b(f"{session}\0{url}".encode(), digest_size=8).digest()
