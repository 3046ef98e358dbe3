"""The dispatcher: a request and a wire -> an answer that runs, whatever transport they came by.

Rejections are raised before anything is sent.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from torvyn._io.turns import turns_here
from torvyn.transport import request_body
from torvyn.transport.access.authentication import priority
from torvyn.transport.answer_stream import AnswerStream
from torvyn.transport.sessions.subscriber import SessionClient, Subscriber
from torvyn.transport.whole_answer import WholeAnswer

if TYPE_CHECKING:
    from torvyn.transport.access.admission import Admission
    from torvyn.transport.access.authentication import Authenticator
    from torvyn.transport.access.caller import Caller
    from torvyn.transport.dispatch.running_calls import RunningCalls
    from torvyn.transport.dispatch.service_table import ServiceTable
    from torvyn.transport.rejection import ErrorReporter
    from torvyn.transport.request_body import InferenceRequest
    from torvyn.transport.sessions.frame_buffer import FrameBuffer
    from torvyn.transport.sessions.registry import SessionRegistry
    from torvyn.transport.sessions.servers.owner_link import OwnerLink
    from torvyn.transport.settings import ServerSettings
    from torvyn.transport.wire import Wire


class _EnteredWhileThere:
    """A slot that is waited for no longer than its client."""

    __slots__ = ("_slot", "_wire")

    def __init__(self, wire: Wire, slot: AbstractAsyncContextManager[None]) -> None:
        self._wire = wire
        self._slot = slot

    async def __aenter__(self) -> None:
        async with self._wire.while_waiting():
            await self._slot.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._slot.__aexit__(kind, error, traceback)


class Dispatcher:
    def __init__(
        self,
        settings: ServerSettings,
        services: ServiceTable,
        authenticator: Authenticator,
        admission: Admission,
        running: RunningCalls,
        sessions: SessionRegistry,
        errors: ErrorReporter,
    ) -> None:
        self.settings = settings
        self.running = running
        self.errors = errors
        self._services = services
        self._authenticator = authenticator
        self._admission = admission
        self._sessions = sessions

    async def answer(self, wire: Wire, request: InferenceRequest) -> None:
        """Answers over the wire; returns when the answer has ended."""
        self.running.check_accepting()
        if (begun := turns_here().begin()) is not None:
            # A burst of requests leaves room for the answers that run.
            async with wire.while_waiting():
                await begun
        rank = priority(wire.caller, request.options.get("priority"))
        if rank is not None:
            request = replace(request, options={**request.options, "priority": rank})
        name, service = self._services.find(request.flow)
        request = request_body.resolve_unknown(request, takes_extra=service.engine.takes_extra)
        if request.is_stateful:
            self.require_sessions(is_new=True)
            async with wire.while_waiting():
                session = await self._sessions.start(request, wire.caller, wire.peer)
            await self.running.read(SessionClient(session, wire, self.settings, 1))
            return
        id = self.running.reserve(wire.request_id)
        try:
            # Created before it waits for admission: its clock starts when the request was received.
            answer = service.generate(
                request.input,
                fallback=self.settings.request_fallback,
                **{**request.options, "request_id": id},
            )
            of_key = self._authenticator.slot(wire.caller)
            of_all = self._admission.slot(answer.request.priority)
            async with _EnteredWhileThere(wire, of_key), _EnteredWhileThere(wire, of_all):
                make = AnswerStream if request.is_streamed else WholeAnswer
                await self.running.run(make(wire, request, name, service, answer, self.settings))
        finally:
            self.running.release(id)

    def require_sessions(self, *, is_new: bool = False) -> None:
        """Raises a rejection if a stream may belong to a process that this one cannot reach."""
        if not self.settings.shares_sessions:
            self.settings.share.require_sessions(is_new=is_new)

    async def resume(self, wire: Wire, id: str, after: str | None) -> None:
        """Sends the frames of a session that come after `after`, an event id."""
        self.require_sessions()
        self._authenticator.check(wire.caller)
        session = await self._sessions.find(id, wire.caller)
        if self.settings.shares_sessions:
            await session.catch_up(after)
        seq = session.seq_after(after)
        self._sessions.resumed += 1
        await self.running.read(SessionClient(session, wire, self.settings, seq))

    def link_of(self, id: str | None, caller: Caller) -> OwnerLink | None:
        """To the server that generates a session which is read here, if that is another one."""
        session = None if id is None else self._sessions.get(id, caller)
        return None if session is None else session.link

    async def observe(self, wire: Wire, id: str) -> None:
        """Sends the frames of a stream of the caller's tenant, without changing the stream."""
        self.require_sessions()
        self._authenticator.check(wire.caller)
        session = self._sessions.get(id, wire.caller)
        call = self.running.find(id, wire.caller)
        if session is not None:
            await self._observe(wire, session.buffer, session.epoch)
        elif isinstance(call, AnswerStream):
            await self._observe(wire, call.tap.buffer, call.tap.epoch)
        else:
            async with self._sessions.observed_elsewhere(id, wire.caller) as frames:
                await self._observe(wire, *frames)

    async def _observe(self, wire: Wire, buffer: FrameBuffer, epoch: str) -> None:
        await self.running.read(Subscriber(buffer, epoch, wire, self.settings, buffer.first))
