"""The sessions that a server keeps: how many, how much of each, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from torvyn.transport.rejection import Rejection, session_memory_full, too_many_sessions
from torvyn.transport.sessions.memory import SessionMemory
from torvyn.transport.sessions.session import Session

if TYPE_CHECKING:
    from torvyn.transport.access.caller import Caller
    from torvyn.transport.settings import ServerSettings


class KeptSessions(dict[str, Session]):
    """By id. `evict` deletes one whose time is over, or whose place is needed."""

    def __init__(self, settings: ServerSettings, evict: Callable[[Session], None]) -> None:
        super().__init__()
        self._settings = settings
        self._evict = evict
        self._memory = SessionMemory(settings)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def add(self, session: Session) -> None:
        self[session.id] = session
        session.on_idle = self.expire_later
        session.share_bytes = self._memory.share_bytes
        if self._memory.plan(len(self)):
            for each in self.values():
                each.trim()

    def remove(self, session: Session) -> None:
        if self.get(session.id) is session:
            del self[session.id]
        self._memory.plan(len(self))
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
        """Evicts the oldest sessions that have ended, those of the caller's tenant first. Raises a
        rejection if too few have ended."""
        while (problem := self._problem()) is not None:
            ended = [one for one in self.values() if one.is_over and one.client is None]
            if not ended:
                raise problem
            # A tenant with many sessions loses its own first.
            own = (one for one in ended if one.caller.tenant == caller.tenant)
            self._evict(next(own, ended[0]))

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _problem(self) -> Rejection | None:
        """Why there cannot be another session."""
        if len(self) >= self._settings.max_sessions:
            return too_many_sessions(self._settings.max_sessions)
        limit_bytes = self._memory.limit_bytes
        # Shares keep it below, except for frames that clients have not been sent.
        is_full = sum(one.buffer.size_bytes for one in self.values()) >= limit_bytes
        return session_memory_full(limit_bytes) if is_full else None
