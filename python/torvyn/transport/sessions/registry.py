"""The sessions of a server: which exist, whose they are, and how long they are kept."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torvyn.errors import TorvynError
from torvyn.transport.access.caller import Caller
from torvyn.transport.answer_stream import AnswerStream
from torvyn.transport.http.exchange import ID
from torvyn.transport.rejection import (
    Rejection,
    client_error,
    session_memory_full,
    shutting_down,
    too_many_sessions,
    unknown_stream,
)
from torvyn.transport.sessions.memory import SessionMemory
from torvyn.transport.sessions.revival import error_frames, replayed, to_stored
from torvyn.transport.sessions.session import Session, SessionWire
from torvyn.transport.sessions.store import SessionStore

if TYPE_CHECKING:
    from torvyn.engine.answer.answer import Answer
    from torvyn.transport.access.admission import Admission
    from torvyn.transport.access.authentication import Authenticator
    from torvyn.transport.dispatch.running_calls import RunningCalls
    from torvyn.transport.dispatch.service_table import ServiceTable
    from torvyn.transport.request_body import InferenceRequest
    from torvyn.transport.settings import ServerSettings

logger = logging.getLogger("torvyn.transport")


class SessionRegistry:
    """Of one application, in its loop."""

    def __init__(
        self,
        settings: ServerSettings,
        services: ServiceTable,
        authenticator: Authenticator,
        admission: Admission,
        running: RunningCalls,
    ) -> None:
        self._settings = settings
        self._services = services
        self._authenticator = authenticator
        self._admission = admission
        self._running = running
        path = settings.session_store
        self._store = SessionStore(Path(path)) if path else None
        self._sessions: dict[str, Session] = {}
        self._expiry_timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cleaned = False
        self._memory = SessionMemory(settings)
        self.resumed = 0
        """How often a client resumed a session."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self) -> None:
        """Opens the store now; raises if that fails."""
        if self._store is not None:
            self._store.open()

    async def start(
        self, request: InferenceRequest, request_id: str, caller: Caller, peer: str | None = None
    ) -> Session:
        """A session whose answer runs. Raises a rejection."""
        name, service = self._services.find(request.flow)
        answer = service.generate(request.input, **request.options)
        self._make_room(caller)
        limit_bytes = self._settings.session_bytes
        session = Session(answer.request_id, caller, name, secrets.token_hex(4), limit_bytes)
        self._add(session)
        try:
            if self._store is not None:
                self._clean_once()
                await self._store.begin(to_stored(session, request))
                session.store = self._store
            await self._start_answer(session, request, answer, request_id, peer)
        except BaseException:
            await self.forget(session)
            raise
        return session

    async def find(self, id: str, caller: Caller) -> Session:
        """The session with that id, in memory or in the store, if it is the caller's."""
        session = self._sessions.get(id) or await self._restore(id, caller)
        if session is None or session.caller.tenant != caller.tenant:
            raise unknown_stream()
        return session

    def get(self, id: str, caller: Caller) -> Session | None:
        """The session with that id, in memory, if it is the caller's."""
        session = self._sessions.get(id)
        return session if session is not None and session.caller.tenant == caller.tenant else None

    async def forget(self, session: Session) -> None:
        """Deletes it, from memory and from the store."""
        self._remove(session)
        if self._store is not None:
            await self._store.drop(session.id)

    def suspend(self) -> None:
        """Leaves the sessions that another process can continue to that process."""
        for session in self._sessions.values():
            service = self._services.get(session.flow)
            is_replayable = service is not None and service.engine.is_replayable
            if session.store is not None and is_replayable and not session.is_over:
                session.suspend()

    def close(self) -> None:
        for timer in self._expiry_timers.values():
            timer.cancel()
        if self._store is not None:
            self._store.close()

    # Answers

    async def _start_answer(
        self,
        session: Session,
        request: InferenceRequest,
        answer: Answer,
        request_id: str,
        peer: str | None = None,
    ) -> None:
        """Returns when the answer is admitted. Raises a rejection."""
        wire = SessionWire(request_id, session, peer)
        service = self._services[session.flow]
        stream = AnswerStream(wire, request, session.flow, service, answer, self._settings)
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        session.task = self._spawn(self._run(session, stream, admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            session.task.cancel()
            raise

    async def _run(
        self, session: Session, stream: AnswerStream, admitted: asyncio.Future[None]
    ) -> None:
        failure: Exception | None = None
        try:
            with self._authenticator.enter(session.caller):
                async with self._admission.slot(stream.answer.request.priority):
                    if session.is_forgotten.is_set():
                        raise unknown_stream()
                    if not admitted.done():
                        admitted.set_result(None)
                        await self._running.run(stream)
        except Exception as error:
            failure = error
            if admitted.done():
                logger.error("session %s failed", session.id[:8], exc_info=error)
        finally:
            if not admitted.done():
                # Only the end of the server cancels it before it began.
                admitted.set_exception(failure or shutting_down())
            if not session.is_suspended:
                _end(session, failure)

    async def _restore(self, id: str, caller: Caller) -> Session | None:
        """A session of an earlier process."""
        # Text that cannot be an id is not looked up: lookups share transactions with other work.
        if self._store is None or ID.fullmatch(id) is None:
            return None
        self._clean_once()
        stored = await self._store.load(id)
        if stored is None or stored.tenant != caller.tenant or id in self._sessions:
            return self._sessions.get(id)
        limit_bytes = self._settings.session_bytes
        # It continues with the key of the caller that resumes it.
        session = Session(id, caller, stored.flow, stored.epoch, limit_bytes, stored.first)
        session.store = self._store
        self._add(session)
        progress = session.refill(stored.frames, stored.dropped, stored.is_over)
        if not stored.is_over:
            try:
                request, answer = replayed(self._services, stored, progress)
                await self._start_answer(session, request, answer, id)
            except Rejection:
                # The server cannot run it now; the store still has it.
                self._remove(session)
                raise
            except TorvynError as error:
                await session.add(error_frames(session, error))
        self._expire_later(session)
        return session

    # Expiry

    def _add(self, session: Session) -> None:
        self._sessions[session.id] = session
        session.on_idle = self._expire_later
        session.share_bytes = self._memory.share_bytes
        if self._memory.plan(len(self._sessions)):
            for each in self._sessions.values():
                each.trim()

    def _remove(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
        self._memory.plan(len(self._sessions))
        # The rest of the answer goes to observers, and is not stored.
        session.store = None
        if (call := self._running.calls.get(session.id)) is not None:
            call.cancel()
        if (timer := self._expiry_timers.pop(session.id, None)) is not None:
            timer.cancel()
        session.is_forgotten.set()
        session.buffer.wake()

    def _expire_later(self, session: Session) -> None:
        """Starts the time for which a session without a client is kept."""
        if (timer := self._expiry_timers.pop(session.id, None)) is not None:
            timer.cancel()
        if self._sessions.get(session.id) is session:
            loop = asyncio.get_running_loop()
            ttl_s = self._settings.session_ttl_s
            self._expiry_timers[session.id] = loop.call_later(ttl_s, self._expire, session)

    def _expire(self, session: Session) -> None:
        if session.client is None:
            self._evict(session)

    def _make_room(self, caller: Caller) -> None:
        """Evicts the oldest sessions that have ended, those of the caller's tenant first. Raises a
        rejection if too few have ended."""
        while (problem := self._problem()) is not None:
            ended = [one for one in self._sessions.values() if one.is_over and one.client is None]
            if not ended:
                raise problem
            # A tenant with many sessions loses its own first.
            own = (one for one in ended if one.caller.tenant == caller.tenant)
            self._evict(next(own, ended[0]))

    def _problem(self) -> Rejection | None:
        """Why there cannot be another session."""
        if len(self._sessions) >= self._settings.max_sessions:
            return too_many_sessions(self._settings.max_sessions)
        limit_bytes = self._memory.limit_bytes
        # Shares keep it below, except for frames that clients have not been sent.
        is_full = sum(one.buffer.size_bytes for one in self._sessions.values()) >= limit_bytes
        return session_memory_full(limit_bytes) if is_full else None

    def _evict(self, session: Session) -> None:
        """Deletes it from memory at once, so that no client resumes it, and from the store soon."""
        self._remove(session)
        if self._store is not None:
            self._spawn(self._store.drop(session.id))

    def _clean_once(self) -> None:
        """Deletes what an earlier process left in the store if no client resumes it within the time
        for which sessions are kept. Measured from now: the wall clock may jump."""
        if not self._is_cleaned:
            self._is_cleaned = True
            self._spawn(self._clean())

    async def _clean(self) -> None:
        assert self._store is not None
        old = set(await self._store.ids()) - self._sessions.keys()
        await asyncio.sleep(self._settings.session_ttl_s)
        if unused := old - self._sessions.keys():
            await self._store.drop(*unused)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("sessions: %s", error)


def _end(session: Session, failure: Exception | None) -> None:
    """Ends the frames of a session, also if the answer could not send its end."""
    buffer = session.buffer
    if buffer.start is not None and not buffer.is_over:
        error = client_error(failure or RuntimeError("the answer was cancelled"))
        for frame in error_frames(session, error):
            buffer.add(frame)
    buffer.end()
