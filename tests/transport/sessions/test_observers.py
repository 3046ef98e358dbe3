"""Observers read a stream, slow nothing, and change nothing when they leave."""

from __future__ import annotations

import pytest
from asgi_client import PROMPT_BODY, Client, Endless, Gated, serving, texts, within

from torvyn.engine import Scripted
from torvyn.protocol import Decoder, DeltaFrame, EndFrame, ErrorFrame, MetaFrame
from torvyn.serve import Application

STATEFUL = {**PROMPT_BODY, "stateful": True}


def watching(application: Application, id: str) -> Client:
    return Client(application, f"/v1/streams/{id}", method="GET", query={"observe": "1"})


async def running(
    engine: Gated, body: object, path: str = "/v1/streams"
) -> tuple[Application, Client]:
    application = serving(engine, first_byte_wait_s=0.0)
    client = Client(application, path, body)
    await client.until(1)
    await within(engine.has_begun.wait())
    return application, client


@pytest.mark.promise("inference.observers")
async def test_an_observer_sees_what_comes_from_now_on() -> None:
    engine = Gated()
    application, client = await running(engine, PROMPT_BODY)
    engine.tokens.put_nowait("before ")
    await client.until(2)
    observer = watching(application, client.frames_start_id())
    await observer.until(1)
    engine.tokens.put_nowait("after")
    engine.tokens.put_nowait(None)
    await client
    await observer
    assert texts(observer) == ["after"]
    assert observer.frames()[-1].finish == client.frames()[-1].finish


@pytest.mark.promise("inference.observers")
async def test_of_a_stateful_stream_it_sees_all_that_is_kept() -> None:
    engine = Gated()
    application, client = await running(engine, STATEFUL)
    engine.tokens.put_nowait("before ")
    await client.until(2)
    observer = watching(application, client.frames_start_id())
    engine.tokens.put_nowait(None)
    await client
    assert (await observer).frames() == client.frames()


async def test_a_stream_in_another_dialect_is_seen_in_ours() -> None:
    engine = Gated()
    body = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    application, client = await running(engine, body, "/v1/chat/completions")
    (id,) = application.running.calls
    observer = watching(application, id)
    await observer.until(1)
    engine.tokens.put_nowait("Hello")
    engine.tokens.put_nowait(None)
    await client
    assert texts(await observer) == ["Hello"]


@pytest.mark.parametrize("body", [PROMPT_BODY, STATEFUL])
async def test_leaving_changes_nothing(body: object) -> None:
    engine = Gated()
    application, client = await running(engine, body)
    observer = watching(application, client.frames_start_id())
    await observer.until(1)
    observer.leave()
    await within(observer.task)
    assert not engine.was_left.is_set()
    engine.tokens.put_nowait("on")
    engine.tokens.put_nowait(None)
    assert texts(await client) == ["on"]


@pytest.mark.parametrize("body", [PROMPT_BODY, STATEFUL])
async def test_an_observer_that_does_not_read_slows_nothing_and_learns_what_it_missed(
    body: object,
) -> None:
    engine = Endless()
    application = serving(engine, session_bytes=64 * 1024)
    client = Client(application, body=body)
    await client.until(2)
    observer = watching(application, client.frames_start_id())
    observer.may_send.clear()
    await client.until(400)
    observer.may_send.set()
    await observer.until(4)
    frames = Decoder("torvyn", "sse").put(observer.body)
    (missed,) = [frame for frame in frames if isinstance(frame, MetaFrame)][:1]
    assert missed.data["skipped"] > 1000
    client.leave()
    observer.leave()
    await within(client.task)
    await within(observer.task)


async def test_the_stream_of_a_client_that_left_ends_for_observers_too() -> None:
    engine = Gated()
    application, client = await running(engine, PROMPT_BODY)
    observer = watching(application, client.frames_start_id())
    await observer.until(1)
    client.leave()
    end = (await observer).frames()[-1]
    assert isinstance(end, EndFrame)
    assert end.finish[0].reason == "cancelled"


async def test_a_failure_is_seen() -> None:
    application = serving(Scripted("a b c", delay=0.005, fail_at=2))
    client = Client(application, body=PROMPT_BODY)
    await client.until(1)
    observer = await watching(application, client.frames_start_id())
    errors = [frame for frame in observer.frames() if isinstance(frame, ErrorFrame)]
    assert [error.code for error in errors] == ["engine.scripted-failure"]


async def test_an_observer_does_not_learn_the_id_by_watching() -> None:
    engine = Gated()
    application, client = await running(engine, PROMPT_BODY)
    id = client.frames_start_id()
    observer = watching(application, id)
    await observer.until(1)
    assert id.encode() not in observer.body
    client.leave()
    await observer


async def test_what_does_not_run_cannot_be_observed() -> None:
    application = serving(Scripted("a"))
    assert (await watching(application, "req-0")).status == 404


async def test_several_observers_see_the_same() -> None:
    engine = Gated()
    application, client = await running(engine, PROMPT_BODY)
    observers = [watching(application, client.frames_start_id()) for _ in range(3)]
    for observer in observers:
        await observer.until(1)
    for token in ("a ", "b ", None):
        engine.tokens.put_nowait(token)
    await client
    seen = [texts(await observer) for observer in observers]
    assert ["".join(one) for one in seen] == ["a b "] * 3
    assert all(isinstance(frame, DeltaFrame) for o in observers for frame in o.frames()[1:-1])
