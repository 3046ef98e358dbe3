"""Applications that share a session store, as processes or servers do, and their clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from asgi_client import PROMPT_BODY, Client, serving, within

from torvyn.engine import Engine, Scripted
from torvyn.protocol import Decoder, DeltaFrame
from torvyn.serve import Application

STATEFUL = {**PROMPT_BODY, "stateful": True}
WORDS = "one two three four five six seven eight nine ten"


@asynccontextmanager
async def process(engine: Engine, store: object, **options: Any) -> AsyncIterator[Application]:
    """An application as a process has it; the next one finds what it left. Answers begin at once,
    so that a client has the id of one that waits."""
    options = {"first_byte_wait_s": 0.0, **options}
    application = serving(engine, session_store=str(store), **options)
    try:
        yield application
    finally:
        await application.sessions.aclose()


async def begun(application: Application, chunks: int) -> Client:
    client = Client(application, body=STATEFUL)
    await client.until(chunks)
    return client


async def killed(application: Application, *clients: Client) -> None:
    """What a kill leaves: tasks that never come to their end, and closed connections."""
    for client in clients:
        client.leave()
        await within(client.task)
    if application.sessions.cluster is not None:
        await application.sessions.cluster.broker.close()
    for session in list(application.sessions._sessions.values()):
        if session.task is not None:
            session.suspend()


def last_id(client: Client) -> str:
    return [line[4:] for line in client.body.decode().splitlines() if line.startswith("id: ")][-1]


def come_back(application: Application, client: Client, **options: Any) -> Client:
    path = f"/v1/streams/{client.frames_start_id()}"
    headers = {"last-event-id": last_id(client), **options.pop("headers", {})}
    return Client(application, path, method="GET", headers=headers, **options)


def deltas(*clients: Client) -> list[tuple[int, str]]:
    frames = [frame for c in clients for frame in Decoder("torvyn", "sse").put(c.body)]
    return [(frame.seq, frame.text) for frame in frames if isinstance(frame, DeltaFrame)]


def assert_whole(*clients: Client, text: str = WORDS) -> None:
    told = deltas(*clients)
    assert [seq for seq, _ in told] == list(range(1, len(told) + 1))
    assert "".join(piece for _, piece in told) == text


def slow() -> Scripted:
    return Scripted(WORDS, delay=0.002)
