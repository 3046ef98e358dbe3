"""One provocation for each code of sessions."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from torvyn.errors import TorvynError
from torvyn.transport.access.caller import ANYONE
from torvyn.transport.rejection import (
    prompt_too_large,
    session_memory_full,
    share_full,
    too_many_sessions,
)
from torvyn.transport.sessions.replay import Progress, ReplayedAnswer
from torvyn.transport.sessions.servers.shared_counts import limits_unavailable
from torvyn.transport.sessions.session import Session, SessionWire
from torvyn.transport.sessions.shared.patience import broker_away
from torvyn.transport.sessions.store import SessionStore
from torvyn.transport.sessions.store_file import StoredSession, connect
from torvyn.transport.sessions.subscriber import SessionClient
from torvyn.transport.settings import ServerSettings


def _session() -> Session:
    session = Session("req-1", ANYONE, "chat", "e", 1000)
    session.buffer.add(b'{"type":"start"}')
    return session


def _taken_over(_folder: Path) -> None:
    async def read() -> None:
        session = _session()
        reader = SessionClient(session, SessionWire(session), ServerSettings(), 1)
        session.attach(reader, 1)
        session.attach(SessionClient(session, SessionWire(session), ServerSettings(), 1), 1)
        assert reader._end_reason is not None
        raise reader._end_reason

    asyncio.run(read())


def _lost(_folder: Path) -> None:
    from torvyn.engine import Scripted

    async def read() -> None:
        progress = Progress({(0, "text"): (100, 1)})
        await ReplayedAnswer(Scripted("a b").generate("Hi"), progress).acomplete()

    asyncio.run(read())


def _failed(folder: Path) -> None:
    async def keep() -> None:
        store = SessionStore(folder / "sessions.db")
        stored = StoredSession(id="1", tenant="", caller="", flow="chat", epoch="e", request="{}")
        try:
            await store.begin(stored)
            await store.begin(stored)
        finally:
            store.close()

    asyncio.run(keep())


def _all_read(_folder: Path) -> None:
    session = _session()
    session.buffer.end()
    session.seq_after("e-0")


def _refuse(rejection: TorvynError) -> None:
    raise rejection


CASES: dict[str, Callable[[Path], object]] = {
    "session.all-read": _all_read,
    "session.bad-id": lambda _: _session().seq_after("x"),
    "session.broker-away": lambda _: _refuse(broker_away()),
    "session.cannot-open": connect,
    "session.epoch-old": lambda _: _session().seq_after("f-1"),
    "session.frames-gone": lambda _: _session().seq_after("7"),
    "session.generation-lost": _lost,
    "session.memory-full": lambda _: _refuse(session_memory_full(2**20)),
    "session.prompt-too-large": lambda _: _refuse(prompt_too_large(2, 1, "`session_prompt`")),
    "session.share-full": lambda _: _refuse(share_full(2**20)),
    "session.store-failed": _failed,
    "session.taken-over": _taken_over,
    "session.too-many": lambda _: _refuse(too_many_sessions(3)),
    "transport.limits-unavailable": lambda _: _refuse(limits_unavailable("no space")),
}
