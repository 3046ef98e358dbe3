"""However a session ends, its subscribers get an end, and none waits for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from asgi_client import PROMPT_BODY, Client, Gated, serving, within

from torvyn.engine import Scripted
from torvyn.protocol import EndFrame
from torvyn.serve import Application

STATEFUL = {**PROMPT_BODY, "stateful": True}


async def begun(engine: Gated, application: Application) -> Client:
    client = Client(application, body=STATEFUL)
    engine.tokens.put_nowait("one ")
    await client.until(2)
    return client


async def test_an_observer_of_an_abandoned_session_gets_its_end() -> None:
    engine = Gated()
    application = serving(engine, session_ttl_s=0.01)
    client = await begun(engine, application)
    path = f"/v1/streams/{client.frames_start_id()}"
    observer = Client(application, path, method="GET", query={"observe": "1"})
    await observer.until(2)
    client.leave()

    await observer

    ends = [frame for frame in observer.frames() if isinstance(frame, EndFrame)]
    assert [end.finish[0].reason for end in ends] == ["cancelled"]
    assert engine.was_left.is_set()


async def test_what_has_expired_is_not_found_a_moment_later() -> None:
    engine = Gated()
    application = serving(engine)
    client = await begun(engine, application)
    id = client.frames_start_id()
    client.leave()
    await client
    again = Client(application, f"/v1/streams/{id}", method="GET")
    application.sessions._sessions.expire(application.sessions._sessions[id])

    assert (await again).status == 404


@pytest.mark.parametrize("limit_bytes", [1, 50, 500])
async def test_frames_larger_than_the_buffer_hold_no_client_up(limit_bytes: int) -> None:
    words = " ".join(["word" * 10] * 300)
    client = await Client(serving(Scripted(words), session_bytes=limit_bytes), body=STATEFUL)

    assert isinstance(client.frames()[-1], EndFrame)


async def test_a_session_that_waits_for_a_place_is_refused_when_the_server_ends(
    tmp_path: Path,
) -> None:
    engine = Scripted("a b c", first_delay=60)
    application = serving(
        engine, max_streams=1, admission_wait_s=60, session_store=str(tmp_path / "s.db")
    )
    first = Client(application, body=STATEFUL)
    await first.until(1)
    waiting = Client(application, body=STATEFUL)
    while not application.admission.waiting:
        await asyncio.sleep(0)

    application.sessions.suspend()
    await within(waiting.task)
    application.sessions.close()

    assert (waiting.status, waiting.json["error"]["code"]) == (503, "transport.shutting-down")
