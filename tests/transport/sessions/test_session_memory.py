"""Many sessions together keep no more than a few do."""

from __future__ import annotations

from asgi_client import PROMPT_BODY, Client, serving

from torvyn.engine import Scripted
from torvyn.transport import Application
from torvyn.transport.settings import KiB

SESSION_BYTES = 32 * KiB
WHOLE = 32
ANSWER = ("x" * 400 + " ") * 200


async def start(application: Application, count: int) -> None:
    for _ in range(count):
        client = Client(application, body={**PROMPT_BODY, "stateful": True})
        assert '"end"' in (await client).body.decode()


def kept_bytes(application: Application) -> list[int]:
    return [one.buffer.bytes_from(0) for one in application.sessions._sessions.values()]


async def test_a_few_sessions_keep_as_much_as_the_setting_says() -> None:
    application = serving(Scripted(ANSWER), session_bytes=SESSION_BYTES)
    await start(application, 3)

    assert all(0.8 * SESSION_BYTES < size <= SESSION_BYTES for size in kept_bytes(application))


async def test_many_sessions_keep_as_much_as_32_do() -> None:
    application = serving(Scripted(ANSWER), session_bytes=SESSION_BYTES)
    await start(application, 4 * WHOLE)

    # Old ones are trimmed when there are a quarter more.
    assert sum(kept_bytes(application)) <= 1.3 * WHOLE * SESSION_BYTES
    assert min(kept_bytes(application)) > SESSION_BYTES / 8


async def test_what_a_client_was_not_sent_is_kept_among_many() -> None:
    application = serving(Scripted(ANSWER), session_bytes=SESSION_BYTES)
    reader = Client(application, body={**PROMPT_BODY, "stateful": True})
    await reader.until(1)
    reader.may_send.clear()
    await start(application, 2 * WHOLE)
    reader.may_send.set()

    frames = (await reader).frames()
    assert "".join(getattr(frame, "text", "") for frame in frames) == ANSWER
