"""Runs the answers of sessions, within the limits of the server and of API keys."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from torvyn.transport.answer_stream import AnswerStream
from torvyn.transport.rejection import client_error, shutting_down, unknown_stream
from torvyn.transport.sessions.revival import error_frames
from torvyn.transport.sessions.session import Session, SessionWire

if TYPE_CHECKING:
    from torvyn.engine.answer.answer import Answer
    from torvyn.transport.access.admission import Admission
    from torvyn.transport.access.authentication import Authenticator
    from torvyn.transport.dispatch.running_calls import RunningCalls
    from torvyn.transport.dispatch.service_table import ServiceTable
    from torvyn.transport.request_body import InferenceRequest
    from torvyn.transport.settings import ServerSettings

logger = logging.getLogger("torvyn.transport")


class SessionAnswers:
    """Of one application, in its loop."""

    def __init__(
        self,
        settings: ServerSettings,
        services: ServiceTable,
        authenticator: Authenticator,
        admission: Admission,
        running: RunningCalls,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._settings = settings
        self._services = services
        self._authenticator = authenticator
        self._admission = admission
        self._running = running
        self._spawn = spawn

    async def start(
        self,
        session: Session,
        request: InferenceRequest,
        answer: Answer,
        peer: str | None = None,
    ) -> None:
        """Returns when the answer is admitted. Raises a rejection."""
        wire = SessionWire(session, peer)
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
            slot = self._admission.slot(stream.answer.request.priority)
            async with self._authenticator.slot(session.caller), slot:
                if session.is_forgotten.is_set():
                    raise unknown_stream()
                if not admitted.done():
                    admitted.set_result(None)
                    await self._running.run(stream)
        except Exception as error:
            failure = error
            if admitted.done() and error is not stream.failure:
                logger.error("session %s failed", session.id[:8], exc_info=error)
        finally:
            if not admitted.done():
                # Only the end of the server cancels it before it began.
                admitted.set_exception(failure or shutting_down())
            if not session.is_suspended:
                await self._end(session, failure)

    async def _end(self, session: Session, failure: Exception | None) -> None:
        """Ends the frames of a session, also if the answer could not send its end."""
        buffer = session.buffer
        if not buffer.is_over:
            error = client_error(failure or RuntimeError("the answer was cancelled"))
            if buffer.start is None:
                session.failure = error
            else:
                for frame in error_frames(session, error):
                    buffer.add(frame)
        buffer.end()
        if buffer.start is None and session.store is not None:
            # Its client got an error: nobody may continue it.
            store, session.store = session.store, None
            await store.drop(session.id)
