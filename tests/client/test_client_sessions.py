"""Stateful streams of a real server, over a faulty network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgi_client import Gated
from faulty_network import FaultyNetwork
from live_server import Served, served, wait_for

from torvyn.client import AsyncClient, InvalidRequestError, ServerError
from torvyn.engine import Scripted
from torvyn.protocol import DeltaFrame, EndFrame, StartFrame

WORDS = [f"{n} «é👩‍👧»\n" for n in range(12)]
TEXT = "".join(WORDS)


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(Scripted(WORDS), chunk_tokens=1) as server:
        yield server


def say(server: Served, engine: Gated, *words: str | None) -> None:
    for word in words:
        server.loop.call_soon_threadsafe(engine.tokens.put_nowait, word)


async def joined(stream: Any) -> str:
    return "".join([text async for text in stream.text()])


async def head_bytes(network: FaultyNetwork) -> int:
    """The number of bytes before the first delta."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(network.url.rpartition(":")[2]))
    body = b'{"prompt": "Hi", "stateful": true}'
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    writer.write(b"POST /v1/streams HTTP/1.1\r\nHost: 127.0.0.1\r\n" + length + body)
    data = await reader.readuntil(b'"seq":1')
    writer.close()
    return len(data)


@pytest.mark.parametrize("step", range(5))
async def test_whatever_byte_the_network_fails_at_the_text_is_whole(
    server: Served, step: int
) -> None:
    async with FaultyNetwork(server.port).up() as network, AsyncClient(network.url) as client:
        for cut in range(await head_bytes(network) + step * 4, 2000, 97):
            network.cuts = [cut, cut]
            stream = client.stream("Hi", stateful=True)

            assert await joined(stream) == TEXT, cut
            assert stream.finish_reasons == ("stop",)
            # A pooled connection would use up a cut that is meant for the next stream.
            network.cut()


async def test_a_cut_while_the_engine_thinks_is_not_noticed_by_the_reader() -> None:
    engine = Gated()
    with served(engine) as server:
        async with FaultyNetwork(server.port).up() as network, AsyncClient(network.url) as client:
            stream = client.stream("Hi", stateful=True)
            await stream.begin()
            reading = asyncio.create_task(joined(stream))
            for word in ("one ", "two ", "three", None):
                say(server, engine, word)
                network.cut()
                await asyncio.sleep(0)

            assert await asyncio.wait_for(reading, 10) == "one two three"


async def test_a_detached_stream_can_be_resumed(server: Served) -> None:
    async with AsyncClient(server.url) as client, AsyncClient(server.url) as another:
        stream = client.stream("Hi", stateful=True)
        frames = aiter(stream)
        first = [await anext(frames) for _ in range(4)]
        after, id = stream.last_id, await stream.detach()
        rest = [frame async for frame in another.resume(id, after=after)]

    assert isinstance(rest[0], StartFrame)
    assert "".join(f.text for f in (*first, *rest) if isinstance(f, DeltaFrame)) == TEXT
    assert isinstance(rest[-1], EndFrame)


async def test_closing_cancels_the_answer_at_the_server() -> None:
    engine = Gated()
    with served(engine) as server:
        async with AsyncClient(server.url) as client:
            async with client.stream("Hi", stateful=True):
                await asyncio.to_thread(wait_for, engine.has_begun.is_set)
                assert not engine.was_left.is_set()
            await asyncio.to_thread(wait_for, engine.was_left.is_set)


async def test_a_second_reader_takes_over_and_the_first_gets_an_error() -> None:
    engine = Gated()
    with served(engine) as server:
        async with AsyncClient(server.url) as one, AsyncClient(server.url) as two:
            first = one.stream("Hi", stateful=True)
            await first.begin()
            reading = asyncio.create_task(first.complete())
            second = two.resume(str(first.id))
            await second.begin()
            with pytest.raises(ServerError) as caught:
                await asyncio.wait_for(reading, 10)
            say(server, engine, "Hello", None)

            assert caught.value.code == "session.taken-over"
            assert await joined(second) == "Hello"


async def test_an_observer_sees_the_same_text_and_does_not_end_the_stream() -> None:
    engine = Gated()
    with served(engine) as server:
        async with AsyncClient(server.url) as client, client.stream("Hi") as stream:
            watched, brief = client.observe(str(stream.id)), client.observe(str(stream.id))
            await watched.begin()
            await brief.begin()
            await brief.aclose()
            say(server, engine, "Hello", None)

            assert (await stream.complete()).text == "Hello"
            assert await joined(watched) == "Hello"


async def test_a_restarted_server_goes_on_with_the_same_text(tmp_path: Path) -> None:
    script = [*WORDS[:3], 0.5, *WORDS[3:]]
    store = str(tmp_path / "sessions.db")
    options = {"session_store": store, "chunk_tokens": 1, "shutdown_grace_s": 0.1}
    with served(Scripted(script), **options) as server:
        port = server.port
        client = AsyncClient(server.url, resumes=1000)
        stream = client.stream("Hi", stateful=True)
        texts = stream.text()
        got = [await anext(texts) for _ in range(2)]
        await asyncio.to_thread(server.end)
    with served(Scripted(script), **options, port=port):
        got += [text async for text in texts]
        await client.aclose()

    assert "".join(got) == TEXT
    assert stream.timing["resumes"] >= 1


async def test_an_unknown_stream_is_rejected(server: Served) -> None:
    async with AsyncClient(server.url) as client:
        for stream in (client.resume("req-0"), client.observe("req-0")):
            with pytest.raises(InvalidRequestError) as caught:
                await stream.begin()
            assert (caught.value.status, caught.value.code) == (404, "transport.stream-unknown")
