"""The sessions of a server: starts them, finds them, continues those of an earlier process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torvyn.errors import TorvynError
from torvyn.transport.access.caller import Caller
from torvyn.transport.http.exchange import ID
from torvyn.transport.rejection import SHARE_FULL, Rejection, prompt_too_large, unknown_stream
from torvyn.transport.sessions.kept_sessions import KeptSessions
from torvyn.transport.sessions.revival import error_frames, replayed, stopped_frames, to_stored
from torvyn.transport.sessions.servers.cluster import Cluster
from torvyn.transport.sessions.session import Session
from torvyn.transport.sessions.session_answers import SessionAnswers
from torvyn.transport.sessions.shared.address import is_address
from torvyn.transport.sessions.store import FrameStore, SessionLost, SessionStore, taken_over

if TYPE_CHECKING:
    from torvyn.transport.access.admission import Admission
    from torvyn.transport.access.authentication import Authenticator
    from torvyn.transport.call import Call
    from torvyn.transport.dispatch.running_calls import RunningCalls
    from torvyn.transport.dispatch.service_table import ServiceTable
    from torvyn.transport.request_body import InferenceRequest
    from torvyn.transport.sessions.frame_buffer import FrameBuffer
    from torvyn.transport.sessions.store_file import StoredSession
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
        self._running = running
        access = (authenticator, admission, running)
        self._answers = SessionAnswers(settings, services, *access, self._spawn)
        self._authenticator = authenticator
        self._sessions = KeptSessions(settings, self._evict, self.tenant_share)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cleaned = False
        self.cluster: Cluster | None = None
        """Servers that share their sessions, if this is one of them."""
        self._file: SessionStore | None = None
        self._store: FrameStore | None = None
        path = settings.session_store
        if path is not None and is_address(path):
            self.cluster = Cluster(path, settings, self, running)
            self._store = self.cluster.store
            if authenticator.has_keys:
                authenticator.shared = self.cluster.key_limits(authenticator.limits)
        elif path:
            self._store = self._file = SessionStore(Path(path))
        self.resumed = 0
        """How often a client resumed a session."""

    def __len__(self) -> int:
        return len(self._sessions)

    def tenant_share(self) -> float:
        """The part of what sessions may take that one tenant may have."""
        return self._settings.session_share if self._authenticator.has_tenants else 1.0

    def open(self) -> None:
        """Opens the file of the store now; raises if that fails."""
        if self._file is not None:
            self._file.open()

    async def connect(self) -> None:
        """Connects to the broker that keeps the sessions, if there is one. Raises if that fails."""
        if self.cluster is not None:
            await self.cluster.connect()

    async def start(
        self, request: InferenceRequest, caller: Caller, peer: str | None = None
    ) -> Session:
        """A session whose answer runs. Raises a rejection. Its id is always a new one: it outlives
        the request, and other servers may know it too."""
        name, service = self._services.find(request.flow)
        fallback = self._settings.request_fallback
        answer = service.generate(request.input, fallback=fallback, **request.options)
        await self.connect()
        self._sessions.make_room(caller)
        limit_bytes = self._settings.session_bytes
        session = Session(answer.request_id, caller, name, secrets.token_hex(4), limit_bytes)
        self.add(session)
        try:
            if self._store is not None:
                self._clean_once()
                await self._begin(self._store, self._to_stored(session, request), caller)
                session.store = self._store
            await self._answers.start(session, request, answer, peer)
        except BaseException:
            await self.forget(session)
            raise
        return session

    def _to_stored(self, session: Session, request: InferenceRequest) -> StoredSession:
        stored = to_stored(session, request)
        size_bytes, limit_bytes = len(stored.request), self._settings.session_prompt_bytes
        if size_bytes > limit_bytes:
            raise prompt_too_large(size_bytes, limit_bytes, "`session_prompt` of `[serve]`")
        return stored

    async def _begin(self, store: FrameStore, stored: StoredSession, caller: Caller) -> None:
        """Stores it, in place of the tenant's oldest sessions that have ended if there is no room.
        Raises a rejection if too few have."""
        while True:
            try:
                await store.begin(stored)
                return
            except Rejection as rejection:
                oldest = self._sessions.oldest_ended(caller.tenant)
                if rejection.code != SHARE_FULL or oldest is None:
                    raise
            await self.forget(oldest)

    async def find(self, id: str, caller: Caller) -> Session:
        """The session with that id, in memory or in the store, if it is the caller's."""
        session = self._sessions.get(id) or await self._find_stored(id, caller)
        if session is None or session.caller.tenant != caller.tenant:
            raise unknown_stream()
        return session

    def get(self, id: str, caller: Caller) -> Session | None:
        """The session with that id, in memory, if it is the caller's."""
        session = self._sessions.get(id)
        return session if session is not None and session.caller.tenant == caller.tenant else None

    def owned(self, id: str) -> Session | None:
        """The session with that id, if this server generates it or did so."""
        session = self._sessions.get(id)
        is_ours = session is not None and session.link is None and not session.is_suspended
        return session if is_ours else None

    def read_here(self, id: str) -> Session | None:
        """The session with that id, if another server generates it and a client reads it here."""
        session = self._sessions.get(id)
        return session if session is not None and session.link is not None else None

    def add(self, session: Session) -> None:
        self._sessions.add(session)
        session.on_lost = self.remove

    def remove(self, session: Session) -> None:
        """Deletes it from memory."""
        self._sessions.remove(session)
        # The rest of the answer goes to observers, and is not stored.
        session.store = None
        if self.cluster is not None:
            self.cluster.store.disown(session.id)
        if session.link is not None:
            session.link.close()
        call = self._running.calls.get(session.id)
        if call is not None and session.task is not None:
            call.cancel()
        session.is_forgotten.set()
        session.buffer.wake()

    async def forget(self, session: Session) -> None:
        """Deletes it, from memory and from the store."""
        self.remove(session)
        if self._store is not None:
            await self._store.drop(session.id)

    async def stop(self, call: Call, is_cancelled: bool) -> dict[str, Any]:
        """Stops or cancels a running answer. That of a session ends whatever becomes of this
        server: raises if the store does not take that."""
        call.cancel() if is_cancelled else call.stop()
        session = self._sessions.get(call.id)
        if session is not None and session.stopping is not None:
            try:
                await asyncio.shield(session.stopping)
            except SessionLost as lost:
                if lost.code != taken_over().code:
                    raise
                # It is the stream of another server now, which a client came back to.
                return await self.stop_stored(call.id, call.wire.caller, is_cancelled)
        return {"cancelled" if is_cancelled else "stopped": True}

    async def stop_stored(self, id: str, caller: Caller, is_cancelled: bool) -> dict[str, Any]:
        """Deletes a session whose answer has ended, or stops one that another server generates;
        returns which. Raises a rejection if there is none."""
        session = self.get(id, caller)
        if session is None and ID.fullmatch(id) is None:
            # A wildcard of the broker would name the session of somebody else.
            raise unknown_stream()
        if self.cluster is not None and (session is None or session.link is not None):
            kind = "cancel" if is_cancelled else "stop"
            done = await self.cluster.calls.stop(id, caller, kind)
            if done is None:
                raise unknown_stream()
            return done
        await self.forget(session or await self.find(id, caller))
        return {"forgotten": True}

    @contextlib.asynccontextmanager
    async def observed_elsewhere(
        self, id: str, caller: Caller
    ) -> AsyncIterator[tuple[FrameBuffer, str]]:
        """The frames, and their epoch, of a stream that another server generates."""
        if self.cluster is None or ID.fullmatch(id) is None:
            raise unknown_stream()
        async with self.cluster.observed(id, caller) as frames:
            yield frames

    def suspend(self) -> None:
        """Leaves the sessions that another process can continue to that process."""
        for session in self._sessions.values():
            service = self._services.get(session.flow)
            is_replayable = service is not None and service.engine.is_replayable
            can_continue = session.store is not None and is_replayable and not session.is_over
            if can_continue or session.link is not None:
                session.suspend()

    def close(self) -> None:
        self._sessions.close()
        if self._file is not None:
            self._file.close()

    async def aclose(self) -> None:
        self.close()
        if self.cluster is not None:
            await self.cluster.aclose()

    async def _find_stored(self, id: str, caller: Caller) -> Session | None:
        """A session of an earlier process, or of another server."""
        # Text that cannot be an id is not looked up: lookups share transactions with other work.
        if ID.fullmatch(id) is None:
            return None
        if self.cluster is not None:
            return await self.cluster.find(id, caller)
        if self._file is None:
            return None
        self._clean_once()
        stored = await self._file.load(id)
        if stored is None or stored.tenant != caller.tenant or id in self._sessions:
            return self._sessions.get(id)
        return await self.revive(stored, caller)

    async def revive(
        self, stored: StoredSession, caller: Caller, session: Session | None = None
    ) -> Session:
        """Continues a stored session; `session` is the one that clients read already."""
        if session is None:
            # It continues with the key of the caller that resumes it.
            limit_bytes = self._settings.session_bytes
            epoch, first = stored.epoch, stored.first
            session = Session(stored.id, caller, stored.flow, epoch, limit_bytes, first)
            self.add(session)
        session.store = self._store
        progress = session.refill(stored)
        if not stored.is_over and stored.stopped:
            await session.add(stopped_frames(session, stored))
        elif not stored.is_over:
            try:
                request, answer = replayed(
                    self._services, stored, progress, self._settings.request_fallback
                )
                await self._answers.start(session, request, answer)
            except Rejection:
                # The server cannot run it now; the store still has it.
                self.remove(session)
                raise
            except TorvynError as error:
                await session.add(error_frames(session, error))
        if session.client is None:
            self._sessions.expire_later(session)
        return session

    # Expiry

    def _evict(self, session: Session) -> None:
        """Deletes it from memory at once, so that no client resumes it, and from the store soon."""
        self.remove(session)
        if self._store is not None and session.link is None:
            self._spawn(self._store.drop(session.id))

    def _clean_once(self) -> None:
        """Deletes what an earlier process left in the store if no client resumes it within the time
        for which sessions are kept. Measured from now: the wall clock may jump."""
        if not self._is_cleaned and self._file is not None:
            self._is_cleaned = True
            self._spawn(self._clean(self._file))

    async def _clean(self, file: SessionStore) -> None:
        old = set(await file.ids()) - self._sessions.keys()
        await asyncio.sleep(self._settings.session_ttl_s)
        if unused := old - self._sessions.keys():
            await file.drop(*unused)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("sessions: %s", error)
