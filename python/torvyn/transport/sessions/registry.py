"""The book of sessions: which there are, whose they are, and until when they are kept."""

from __future__ import annotations

import asyncio
import logging
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from torvyn.errors import TorvynError
from torvyn.transport.access.caller import Caller
from torvyn.transport.answer_stream import Stream
from torvyn.transport.http.exchange import ID
from torvyn.transport.rejection import Rejection, busy, client_error, shutting_down, unknown_stream
from torvyn.transport.sessions.revival import last_words, replayed, to_stored
from torvyn.transport.sessions.session import Session, SessionWire
from torvyn.transport.sessions.store import SessionStore

if TYPE_CHECKING:
    from torvyn.engine.generation import Generation
    from torvyn.transport.application import Application
    from torvyn.transport.request_body import InferenceRequest

logger = logging.getLogger("torvyn.transport")


class SessionRegistry:
    """Of one application, in its loop."""

    def __init__(self, app: Application) -> None:
        self._app = app
        settings = app.settings
        self._store = SessionStore(Path(settings.session_store)) if settings.session_store else None
        self._sessions: dict[str, Session] = {}
        self._expiring: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cleaned = False
        self.resumed = 0
        """How often a client came back."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self) -> None:
        """Opens the store now; raises when that cannot be done."""
        if self._store is not None:
            self._store.open()

    async def start(
        self, request: InferenceRequest, request_id: str, caller: Caller, peer: str | None = None
    ) -> Session:
        """A session whose answer is being made. Refusals are raised."""
        app = self._app
        name, service = app.service(request.flow)
        generation = service.generate(request.input, **request.options)
        self._make_room(caller)
        limit_bytes = app.settings.session_bytes
        session = Session(generation.request_id, caller, name, secrets.token_hex(4), limit_bytes)
        self._enter(session)
        try:
            if self._store is not None:
                self._clean_once()
                await self._store.begin(to_stored(session, request))
                session.store = self._store
            await self._make(session, request, generation, request_id, peer)
        except BaseException:
            await self.forget(session)
            raise
        return session

    async def find(self, id: str, caller: Caller) -> Session:
        """The session of that id, if it is the caller's."""
        session = self._sessions.get(id) or await self._restored(id, caller)
        if session is None or session.caller.tenant != caller.tenant:
            raise unknown_stream()
        return session

    def get(self, id: str, caller: Caller) -> Session | None:
        """The same, of those that are here."""
        session = self._sessions.get(id)
        return session if session is not None and session.caller.tenant == caller.tenant else None

    async def forget(self, session: Session) -> None:
        """It is gone, here and in the store."""
        self._leave(session)
        if self._store is not None:
            await self._store.drop(session.id)

    def suspend(self) -> None:
        """The server ends: what another process can go on with is left to it."""
        for session in self._sessions.values():
            service = self._app.services.get(session.flow)
            can_go_on = service is not None and service.engine.is_replayable
            if session.store is not None and can_go_on and not session.is_over:
                session.suspend()

    def close(self) -> None:
        for timer in self._expiring.values():
            timer.cancel()
        if self._store is not None:
            self._store.close()

    # How an answer is made

    async def _make(
        self,
        session: Session,
        request: InferenceRequest,
        generation: Generation,
        request_id: str,
        peer: str | None = None,
    ) -> None:
        """Returns when it has a place among those that are made; a rejection is raised."""
        app = self._app
        wire = SessionWire(request_id, session, peer)
        service = app.services[session.flow]
        stream = Stream(wire, request, session.flow, service, generation, app.settings)
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        session.making = self._go(self._run(session, stream, admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            session.making.cancel()
            raise

    async def _run(self, session: Session, stream: Stream, admitted: asyncio.Future[None]) -> None:
        failure: Exception | None = None
        try:
            rank = stream.generation.request.priority
            async with self._app.admitted(session.caller, rank):
                if session.left.is_set():
                    raise unknown_stream()
                if not admitted.done():
                    admitted.set_result(None)
                    await self._app.attend(stream)
        except Exception as error:
            failure = error
            if admitted.done():
                logger.error("session %s failed", session.id[:8], exc_info=error)
        finally:
            if not admitted.done():
                # Cancelled before it began is what only the end of the server does.
                admitted.set_exception(failure or shutting_down())
            if not session.is_suspended:
                _end(session, failure)

    # What another process began

    async def _restored(self, id: str, caller: Caller) -> Session | None:
        # What cannot be an id is not looked for: who asks shares a transaction with others.
        if self._store is None or ID.fullmatch(id) is None:
            return None
        self._clean_once()
        stored = await self._store.load(id)
        if stored is None or stored.tenant != caller.tenant or id in self._sessions:
            return self._sessions.get(id)
        limit_bytes = self._app.settings.session_bytes
        # It goes on with the key of who came back for it.
        session = Session(id, caller, stored.flow, stored.epoch, limit_bytes, stored.first)
        session.store = self._store
        self._enter(session)
        progress = session.refill(stored.frames, stored.gone, stored.is_over)
        if not stored.is_over:
            try:
                request, generation = replayed(self._app.services, stored, progress)
                await self._make(session, request, generation, id)
            except Rejection:
                # Not now; it lies in the store as it did.
                self._leave(session)
                raise
            except TorvynError as error:
                await session.add(last_words(session, error))
        self._idle(session)
        return session

    # How long it is kept

    def _enter(self, session: Session) -> None:
        self._sessions[session.id] = session
        session.on_idle = self._idle

    def _leave(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
        # What is still made of it is told to who watches, and not kept.
        session.store = None
        if (call := self._app.calls.get(session.id)) is not None:
            call.cancel()
        if (timer := self._expiring.pop(session.id, None)) is not None:
            timer.cancel()
        session.left.set()
        session.buffer.wake()

    def _idle(self, session: Session) -> None:
        """Its client is away: it is kept for a while."""
        if (timer := self._expiring.pop(session.id, None)) is not None:
            timer.cancel()
        if self._sessions.get(session.id) is session:
            loop = asyncio.get_running_loop()
            ttl_s = self._app.settings.session_ttl_s
            self._expiring[session.id] = loop.call_later(ttl_s, self._expire, session)

    def _expire(self, session: Session) -> None:
        if session.client is None:
            self._let_go(session)

    def _make_room(self, caller: Caller) -> None:
        """The oldest that has ended goes when there are too many, of the caller's tenant if it has
        one; a rejection when none has."""
        if len(self._sessions) < self._app.settings.max_sessions:
            return
        ended = [one for one in self._sessions.values() if one.is_over and one.client is None]
        if not ended:
            raise busy()
        # Who keeps many makes room by its own.
        own = (one for one in ended if one.caller.tenant == caller.tenant)
        self._let_go(next(own, ended[0]))

    def _let_go(self, session: Session) -> None:
        """`forget`, here at once and in the store soon: who comes a moment later would read what is
        about to go."""
        self._leave(session)
        if self._store is not None:
            self._go(self._store.drop(session.id))

    def _clean_once(self) -> None:
        """What lay in the store at the beginning, and nobody came back for, goes when it has been
        kept as long here as anywhere. No wall clock is asked: it may jump."""
        if not self._is_cleaned:
            self._is_cleaned = True
            self._go(self._clean())

    async def _clean(self) -> None:
        assert self._store is not None
        known = set(await self._store.ids()) - self._sessions.keys()
        await asyncio.sleep(self._app.settings.session_ttl_s)
        if gone := known - self._sessions.keys():
            await self._store.drop(*gone)

    def _go(self, work: object) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._went)
        return task

    def _went(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("sessions: %s", error)


def _end(session: Session, failure: Exception | None) -> None:
    """Whoever reads it hears an end, also where the answer could not say one."""
    buffer = session.buffer
    if buffer.start is not None and not buffer.is_over:
        for frame in last_words(session, client_error(failure or RuntimeError("it was cancelled"))):
            buffer.add(frame)
    buffer.end()
