"""The registry of what a server is busy with: calls, subscribers and channels.

It runs each call, reports its start and end, ends what runs for a revoked key, and knows when the
server is idle. It never starts anything by itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from torvyn.engine.request import new_id
from torvyn.transport.access.authentication import Authenticator, revoked
from torvyn.transport.access.keyring import REFRESH_S
from torvyn.transport.multiplex.open_channels import OpenChannels
from torvyn.transport.rejection import client_error, shutting_down

if TYPE_CHECKING:
    from torvyn.transport.access.caller import Caller
    from torvyn.transport.call import Call
    from torvyn.transport.sessions.subscriber import Subscriber
    from torvyn.transport.telemetry.call_reports import CallReports


class RunningCalls:
    """Of one application, in its loop."""

    def __init__(
        self, calls: dict[str, Call], authenticator: Authenticator, reports: CallReports
    ) -> None:
        self.calls = calls
        self.channels = OpenChannels(self._begin, self._end)
        self._ids: set[str] = set()
        """Of calls, also while they wait for admission."""
        self.is_draining = False
        self._authenticator = authenticator
        self._reports = reports
        self._subscribers: set[Subscriber] = set()
        self._busy = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._key_check: asyncio.TimerHandle | None = None

    def find(self, id: str, caller: Caller) -> Call | None:
        """The call with that id, if it belongs to the caller's tenant."""
        call = self.calls.get(id)
        return call if call is not None and call.wire.caller.tenant == caller.tenant else None

    def reserve(self, id: str) -> str:
        """The id for a call, from before its admission until it is released: that of its request,
        or a new one if another call has it, whosever it is."""
        if id in self._ids:
            id = new_id()
        self._ids.add(id)
        return id

    def release(self, id: str) -> None:
        self._ids.discard(id)

    def check_accepting(self) -> None:
        """Raises a rejection while the server drains."""
        if self.is_draining:
            raise shutting_down()

    async def run(self, call: Call) -> None:
        self.calls[call.id] = call
        self._begin()
        self._reports.started(call)
        call.pace = self._authenticator.limits.pace(call.wire.caller)
        try:
            # In its own task: a token that wakes it does not pass through all of the callers.
            await asyncio.create_task(self._run(call))
        finally:
            self._ended(call)  # if its task was cancelled before it began

    async def read(self, subscriber: Subscriber) -> None:
        """Runs a connection that reads a session or observes a stream."""
        self._begin()
        self._subscribers.add(subscriber)
        try:
            await subscriber.run()
        finally:
            self._subscribers.discard(subscriber)
            self._end()

    def drain(self) -> None:
        """Accepts no more requests. Channels close with their last stream."""
        self.is_draining = True
        self.channels.drain()

    def fail_all(self) -> None:
        """Ends every call with the message that the server is shutting down."""
        for call in list(self.calls.values()):
            call.fail(shutting_down())
        self.channels.hurry()

    async def wait_idle(self, timeout_s: float) -> int:
        """Waits until nothing runs; returns how much still runs after that time."""
        try:
            await asyncio.wait_for(self._is_idle.wait(), timeout_s)
        except TimeoutError:
            return self._busy
        return 0

    async def _run(self, call: Call) -> None:
        try:
            await call.run()
        except Exception as error:
            call.failure = call.failure or client_error(error)
            raise
        finally:
            self._ended(call)

    def _ended(self, call: Call) -> None:
        if self.calls.get(call.id) is call:
            del self.calls[call.id]
            self._reports.ended(call)
            self._end()

    def _begin(self) -> None:
        self._busy += 1
        self._is_idle.clear()
        if self._authenticator.has_keys and self._key_check is None:
            loop = asyncio.get_running_loop()
            self._key_check = loop.call_later(REFRESH_S, self._check_keys)

    def _end(self) -> None:
        self._busy -= 1
        if not self._busy:
            self._is_idle.set()

    def _check_keys(self) -> None:
        """Ends what runs for keys that were revoked or have expired."""
        self._key_check = None
        is_valid = self._authenticator.is_valid
        self._authenticator.refresh()
        for call in list(self.calls.values()):
            if not is_valid(call.wire.caller):
                call.fail(revoked())
        for subscriber in list(self._subscribers):
            if not is_valid(subscriber.wire.caller):
                subscriber.end(revoked())
        for multiplexer in list(self.channels):
            if not is_valid(multiplexer.channel.caller):
                multiplexer.close_when_idle(revoked)
        if self._busy:
            loop = asyncio.get_running_loop()
            self._key_check = loop.call_later(REFRESH_S, self._check_keys)
