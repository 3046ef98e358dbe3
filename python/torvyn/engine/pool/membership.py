"""Membership: members come and go, on the background loop.

A member that comes gets requests once a health check has succeeded. One that goes gets no more, and
leaves when its last request has ended. Members that a supplier has started are also replaced when
they were restarted elsewhere, and their number follows the queue time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from torvyn._io.background_loop import background_loop
from torvyn.engine.pool.health import HealthChecks
from torvyn.engine.pool.member import Member
from torvyn.engine.pool.members import Members
from torvyn.engine.pool.scaling import Scaling
from torvyn.errors import InvalidInput, TorvynError, Unavailable

logger = logging.getLogger("torvyn.engine")
_CHECK_S: Final = 0.1
"""The pause between two checks of a member that is about to join."""


class Placed(NamedTuple):
    """A member that a supplier has started."""

    url: str
    key: str
    handle: Any


class Supplier(Protocol):
    """Starts and stops members somewhere."""

    async def start(self, limit_s: float) -> Placed: ...

    async def stop(self, handle: Any) -> None: ...

    async def place_of(self, handle: Any) -> Placed | None:
        """Where it is now; it may have been restarted. None: it is gone for good."""

    def close(self) -> None:
        """Stops everything."""


class Membership:
    def __init__(
        self,
        members: Members,
        health: HealthChecks,
        new_member: Callable[[str, str | None], Member],
        supplier: Supplier | None = None,
        start_timeout_s: float = 300.0,
    ) -> None:
        self._members = members
        self._health = health
        self._new_member = new_member
        self._supplier = supplier
        self._start_timeout_s = start_timeout_s
        self._scaling = Scaling(members.limits)
        self._kicked = asyncio.Event()
        self._change: asyncio.Task[None] | None = None
        """The start, the replacement or the move that is under way: one at a time."""
        self.progress: dict[str, Any] | None = None
        """What a replacement has done, for people."""

    async def run(self) -> None:
        try:
            while True:
                self._kicked.clear()
                await self._look()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._members.limits.health_interval_s):
                        await self._kicked.wait()
        finally:
            if self._change is not None:
                self._change.cancel()

    async def _look(self) -> None:
        await self._health.check_all()
        await self._remove_drained()
        if self._supplier is not None and not self.is_changing:
            self._scale(self._supplier)

    def kick(self) -> None:
        """Looks at the members now. From any thread."""
        background_loop().call_soon_threadsafe(self._kicked.set)

    @property
    def is_changing(self) -> bool:
        return self._change is not None and not self._change.done()

    # Requests of people, on the background loop

    async def drain(self, name: str) -> None:
        """It gets no more requests; those that run there run to their end."""
        self._members.find(name).is_draining = True

    async def resume(self, name: str) -> None:
        """Takes `drain` back."""
        self._members.find(name).is_draining = False
        self._members.look()

    async def remove(self, name: str) -> None:
        """It leaves the pool when it is drained."""
        self._leave(self._members.find(name))

    async def add(self, url: str) -> None:
        """Joins when it is well; raises if it is not in time."""
        await self._join(self._new_member(url, None), None)

    async def replace(self, old: str, new: str) -> None:
        """The new one joins, then the old one leaves."""
        member = self._members.find(old)
        await self.add(new)
        self._leave(member)
        self.progress = {"replaced": 1, "of": 1}

    async def replace_all(self) -> None:
        """Starts to replace all members by new ones of the supplier, one after another."""
        supplier = self._supplier
        if supplier is None:
            raise InvalidInput(
                "the members of this pool have fixed addresses",
                hint="name a member, and the address of the one that replaces it",
                code="engine.pool-fixed",
            )
        self._begin(self._replace_all(supplier))

    async def _replace_all(self, supplier: Supplier) -> None:
        old = [member for member in self._members if not member.is_leaving]
        self.progress = {"replaced": 0, "of": len(old)}
        for count, member in enumerate(old, 1):
            await self._start_one(supplier)
            self._leave(member)
            await member.over.wait()
            self.progress["replaced"] = count

    async def start_all(self) -> None:
        """The first members of a supplier, all at once."""
        supplier = self._supplier
        assert supplier is not None
        starts = [self._start_one(supplier) for _ in range(self._members.limits.min_members)]
        await asyncio.gather(*starts)

    # Members come

    async def _start_one(self, supplier: Supplier) -> None:
        placed = await supplier.start(self._start_timeout_s)
        try:
            await self._join(self._new_member(placed.url, placed.key), placed.handle)
        except BaseException:
            await supplier.stop(placed.handle)
            raise

    async def _join(self, member: Member, handle: Any) -> None:
        member.handle = handle
        try:
            async with asyncio.timeout(self._start_timeout_s):
                while not await self._health.check(member):
                    await asyncio.sleep(_CHECK_S)
        except TimeoutError:
            message = f"the new member {member.name} was not well in {self._start_timeout_s:g} s"
            raise Unavailable(message, code="engine.member-unwell") from None
        self._members.add(member)
        logger.info("the member %s joins a pool", member.name)

    # Members go

    def _leave(self, member: Member) -> None:
        member.is_draining = member.is_leaving = True
        self._kicked.set()

    async def _remove_drained(self) -> None:
        for member in self._members:
            if member.is_leaving and not member.in_flight:
                self._members.remove(member)
                await member.engine.aclose()
                if self._supplier is not None and member.handle is not None:
                    await self._supplier.stop(member.handle)
                member.over.set()
                logger.info("the member %s has left a pool", member.name)

    # The supplier's members

    def _scale(self, supplier: Supplier) -> None:
        members = [member for member in self._members if not member.is_leaving]
        lost = next((member for member in members if member.is_up is False), None)
        if lost is not None and lost.handle is not None:
            self._begin(self._follow(supplier, lost))
            return
        count, wait_s = len(members), self._members.longest_wait_s
        by = self._scaling.decide(time.monotonic(), count, self._members.in_flight, wait_s)
        if by > 0:
            self._begin(self._start_one(supplier))
        elif by < 0:
            self._leave(min(members, key=lambda member: member.in_flight))

    async def _follow(self, supplier: Supplier, lost: Member) -> None:
        """A member that was restarted has a new address."""
        placed = await supplier.place_of(lost.handle)
        if placed is None:
            self._leave(lost)
        elif placed.url != lost.url:
            await self._join(self._new_member(placed.url, placed.key), placed.handle)
            lost.handle = None  # it goes on at its new address
            self._leave(lost)

    def _begin(self, change: Any) -> None:
        self._change = asyncio.ensure_future(self._report(change))

    async def _report(self, change: Any) -> None:
        try:
            await change
        except (TorvynError, OSError) as error:
            logger.warning("a change of a pool failed: %s", error)
            if self.progress is not None:
                self.progress["error"] = str(error)
        self._kicked.set()
