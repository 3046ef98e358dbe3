"""Many sessions together keep no more than a limit."""

from __future__ import annotations

import asyncio

from asgi_client import PROMPT_BODY, Client, serving

from torvyn.engine import Scripted
from torvyn.serve import Application
from torvyn.transport.settings import KiB

SESSION_BYTES = 32 * KiB
WHOLE = 32
SETTINGS = {
    "session_bytes": SESSION_BYTES,
    "session_memory_bytes": WHOLE * SESSION_BYTES,
    # Whole frames are kept, whose size depends on how fast the engine is.
    "chunk_bytes": KiB,
}
ANSWER = ("x" * 400 + " ") * 200


async def start(application: Application, count: int) -> None:
    for _ in range(count):
        client = Client(application, body={**PROMPT_BODY, "stateful": True})
        assert '"end"' in (await client).body.decode()


def kept_bytes(application: Application) -> list[int]:
    return [one.buffer.bytes_from(0) for one in application.sessions._sessions.values()]


async def test_a_few_sessions_keep_as_much_as_the_setting_says() -> None:
    application = serving(Scripted(ANSWER), **SETTINGS)
    await start(application, 3)

    assert all(0.8 * SESSION_BYTES < size <= SESSION_BYTES for size in kept_bytes(application))


async def test_many_sessions_keep_no_more_than_the_limit_of_all() -> None:
    application = serving(Scripted(ANSWER), **SETTINGS)
    await start(application, 4 * WHOLE)

    assert sum(kept_bytes(application)) <= WHOLE * SESSION_BYTES
    assert min(kept_bytes(application)) > SESSION_BYTES / 8


async def test_what_a_client_was_not_sent_is_kept_among_many() -> None:
    application = serving(Scripted(ANSWER), **SETTINGS)
    reader = Client(application, body={**PROMPT_BODY, "stateful": True})
    await reader.until(1)
    reader.may_send.clear()
    await start(application, 2 * WHOLE)
    reader.may_send.set()

    frames = (await reader).frames()
    assert "".join(getattr(frame, "text", "") for frame in frames) == ANSWER


async def test_no_session_starts_while_clients_have_not_read_all_that_may_be_kept() -> None:
    application = serving(Scripted(ANSWER), session_memory_bytes=2 * KiB)
    reader = Client(application, body={**PROMPT_BODY, "stateful": True})
    await reader.until(1)
    reader.may_send.clear()
    while sum(kept_bytes(application)) < 2 * KiB:
        await asyncio.sleep(0)
    refused = await Client(application, body={**PROMPT_BODY, "stateful": True})

    assert (refused.status, refused.json["error"]["code"]) == (429, "session.memory-full")
    reader.may_send.set()
    assert '"end"' in (await reader).body.decode()
