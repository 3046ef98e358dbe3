"""The sessions that a server keeps: how many, how much of each, and for how long."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from torvyn.transport.rejection import Rejection, session_memory_full, too_many_sessions
from torvyn.transport.sessions.memory import SessionMemory
from torvyn.transport.sessions.session import Session

if TYPE_CHECKING:
    from torvyn.transport.access.caller import Caller
    from torvyn.transport.settings import ServerSettings


class KeptSessions(dict[str, Session]):
    """By id. `evict` deletes one whose time is over, or whose place is needed."""

    def __init__(
        self,
        settings: ServerSettings,
        evict: Callable[[Session], None],
        tenant_share: Callable[[], float] = lambda: 1.0,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._evict = evict
        self._tenant_share = tenant_share
        self._tenants: Counter[str] = Counter()
        """The sessions of each tenant."""
        self._memory = SessionMemory(settings)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def add(self, session: Session) -> None:
        tenant = session.caller.tenant
        self._tenants[tenant] += session.id not in self
        self[session.id] = session
        session.on_idle = self.expire_later
        session.share_bytes = partial(self._memory.share_bytes, tenant)
        if self._memory.plan(tenant, self._tenants[tenant]):
            for each in self.values():
                each.trim()

    def remove(self, session: Session) -> None:
        if self.get(session.id) is session:
            del self[session.id]
            tenant = session.caller.tenant
            self._tenants[tenant] -= 1
            self._memory.plan(tenant, self._tenants[tenant])
            self._tenants += Counter()  # only tenants that have sessions
        if (timer := self._timers.pop(session.id, None)) is not None:
            timer.cancel()

    def expire_later(self, session: Session) -> None:
        """Starts the time for which a session without a client is kept. One that has sent nothing
        is not: nobody can know its id."""
        if session.buffer.start is None:
            self._evict(session)
            return
        if (timer := self._timers.pop(session.id, None)) is not None:
            timer.cancel()
        if self.get(session.id) is session:
            loop = asyncio.get_running_loop()
            ttl_s = self._settings.session_ttl_s
            self._timers[session.id] = loop.call_later(ttl_s, self.expire, session)

    def expire(self, session: Session) -> None:
        if session.client is None:
            self._evict(session)

    def make_room(self, caller: Caller) -> None:
        """Evicts the oldest sessions that have ended: the caller's tenant's own if it has used its
        share, else those of the tenant with most of them. Raises a rejection if too few have
        ended."""
        tenant = caller.tenant
        while (problem := self._problem(tenant)) is not None:
            self._evict_ended(problem, tenant)
        while (problem := self._problem(None)) is not None:
            self._evict_ended(problem, None)

    def _evict_ended(self, problem: Rejection, tenant: str | None) -> None:
        oldest = self.oldest_ended(tenant)
        if oldest is None:
            raise problem
        self._evict(oldest)

    def oldest_ended(self, tenant: str | None) -> Session | None:
        """The oldest session that has ended and has no client: of that tenant, or of the one that
        has most sessions."""
        ended = [one for one in self.values() if one.is_over and one.client is None]
        if tenant is not None:
            ended = [one for one in ended if one.caller.tenant == tenant]
        count = self._tenants
        return max(ended, key=lambda one: count[one.caller.tenant], default=None)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _problem(self, tenant: str | None) -> Rejection | None:
        """Why there cannot be another session: of the tenant, or at all."""
        share, whose = 1.0, "the server"
        if tenant is not None:
            share, whose = self._tenant_share(), "this tenant"
        places = max(1, int(share * self._settings.max_sessions))
        if (len(self) if tenant is None else self._tenants[tenant]) >= places:
            return too_many_sessions(places, whose)
        limit_bytes = int(share * self._memory.limit_bytes)
        own = (one for one in self.values() if tenant in (None, one.caller.tenant))
        # Shares keep it below, except for frames that clients have not been sent.
        is_full = sum(one.buffer.size_bytes for one in own) >= limit_bytes
        return session_memory_full(limit_bytes, whose) if is_full else None
