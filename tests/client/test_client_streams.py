"""Clients and a real server: read, control and leave streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from asgi_client import Endless, Gated
from faulty_server import FRAMES, ID, TEXT, FaultyServer, blocks
from live_server import PATIENCE_S, Served, served, wait_for

from torvyn._io.background_loop import background_loop
from torvyn.client import AsyncClient, Client
from torvyn.engine import Scripted, Service
from torvyn.errors import InvalidInput
from torvyn.protocol import DeltaFrame, EndFrame, StartFrame

SCRIPT = "Our next release is called Bluebird."


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served({"chat": Service("chat", Scripted(SCRIPT)), "b": Service("b", Scripted("B"))}) as s:
        yield s


def test_for_gives_the_frames(server: Served) -> None:
    with Client(server.url) as client:
        frames = list(client.stream("Hi", flow="chat"))

    assert isinstance(frames[0], StartFrame)
    assert isinstance(frames[-1], EndFrame)
    assert "".join(frame.text for frame in frames if isinstance(frame, DeltaFrame)) == SCRIPT


async def test_async_for_gives_the_same(server: Served) -> None:
    async with AsyncClient(server.url) as client, client.stream("Hi", flow="chat") as stream:
        assert stream.flow == "chat"
        assert "".join([text async for text in stream.text()]) == SCRIPT

    assert stream.finish_reasons == ("stop",)
    assert stream.last_id == f"{str(stream.last_id).partition('-')[0]}-{stream.end.seq}"  # type: ignore[union-attr]


@pytest.mark.promise("inference.latency-figures")
def test_a_whole_answer_is_its_parts_with_usage_and_timing(server: Served) -> None:
    with Client(server.url) as client:
        whole = client.stream("Hi", flow="chat", n=2, max_tokens=2).complete()

    assert [choice.text for choice in whole.choices] == ["Our next"] * 2
    assert [choice.finish_reason for choice in whole.choices] == ["length"] * 2
    assert whole.usage.completion_tokens == 4
    assert 0 < whole.timing["ttft_s"] <= whole.timing["duration_s"]
    assert {"inter_token_s", "tokens_per_s", "resumes", "heartbeats"} <= set(whole.timing)


def test_messages_are_sent_like_prompts(server: Served) -> None:
    with Client(server.url) as client:
        messages = [{"role": "user", "content": "Hi"}]

        assert client.stream(messages, flow="b").complete().text == "B"


def test_a_client_describes_its_server(server: Served) -> None:
    with Client(server.url + "/") as client:
        assert (client.health(), client.models(), client.url) == (
            "ready",
            ["chat", "b"],
            server.url,
        )
        assert [flow["name"] for flow in client.flows()["flows"]] == ["chat", "b"]


def test_the_text_is_the_same_with_a_jitter_buffer(server: Served) -> None:
    with Client(server.url, jitter=0.2) as client:
        texts = list(client.stream("Hi", flow="chat").text())

    assert "".join(texts) == SCRIPT
    assert len(texts) > 2


def test_many_threads_share_a_client(server: Served) -> None:
    answers: list[str] = []
    with Client(server.url) as client:
        ask = lambda: answers.append(client.stream("Hi", flow="b").complete().text)  # noqa: E731
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)

    assert answers == ["B"] * 8


# Leaving


def test_leaving_the_loop_ends_the_answer_at_the_server() -> None:
    engine = Endless()
    with served(engine) as server, Client(server.url) as client:
        for frame in client.stream("Hi"):
            if isinstance(frame, DeltaFrame):
                break

        wait_for(engine.was_left.is_set)


async def test_leaving_an_async_loop_ends_it_too() -> None:
    engine = Endless()
    with served(engine) as server:
        async with AsyncClient(server.url) as client:
            async for frame in client.stream("Hi"):
                if isinstance(frame, DeltaFrame):
                    break
            await asyncio.to_thread(wait_for, engine.was_left.is_set)


def test_closing_from_another_thread_ends_a_loop_that_waits() -> None:
    with served(Gated()) as server, Client(server.url) as client:
        stream = client.stream("Hi")
        stream.begin()
        threading.Timer(0.05, stream.close).start()

        assert [type(frame) for frame in stream] == [StartFrame]
        assert stream.finish_reasons == (None,)


def test_stop_lets_the_answer_end_in_good_order() -> None:
    engine = Gated()
    with served(engine) as server, Client(server.url) as client, client.stream("Hi") as stream:
        texts = stream.text()
        wait_for(engine.has_begun.is_set)
        server.loop.call_soon_threadsafe(engine.tokens.put_nowait, "Hello")
        first = next(texts)

        assert (first, stream.stop(), list(texts)) == ("Hello", True, [])
        assert stream.finish_reasons == ("stop",)
        assert stream.end.finish[0].stopped_by == "client"  # type: ignore[union-attr]
        assert stream.stop() is False


HALF = {"cut": len(blocks(FRAMES)[0]) + 90, "hang": True}


@pytest.mark.parametrize("way", ["close", "break"])
async def test_leaving_a_stateful_stream_cancels_it(way: str) -> None:
    async with FaultyServer(script=[HALF]).serving() as server, AsyncClient(server.url) as client:
        stream = client.stream("Hi", stateful=True)
        if way == "break":
            async for _ in stream:
                break
        else:
            await stream.begin()
            await stream.aclose()
        async with asyncio.timeout(5):
            while len(server.request_lines) < 2:
                await asyncio.sleep(0.001)

    assert server.request_lines[1:] == [f"DELETE /v1/streams/{ID}?cancel=1"]


@pytest.mark.parametrize("way", ["read", "detach"])
async def test_one_that_has_ended_or_was_detached_is_not_cancelled(way: str) -> None:
    turn = {} if way == "read" else HALF
    async with FaultyServer(script=[turn]).serving() as server, AsyncClient(server.url) as client:
        stream = client.stream("Hi", stateful=True)
        if way == "read":
            await stream.complete()
        else:
            await stream.begin()
            await stream.detach()
        await stream.aclose()

    assert server.request_lines == ["POST /v1/streams"]


async def test_leaving_the_loop_ends_the_answer_at_once() -> None:
    turn = {"cut": 200, "hang": True}
    async with FaultyServer(script=[turn]).serving() as server, AsyncClient(server.url) as client:
        stream = client.stream("Hi")
        await stream.begin()
        await stream.aclose()
        await asyncio.wait_for(server.left.wait(), 5)


async def test_closing_ends_a_read_that_waits() -> None:
    turn = {"cut": 200, "hang": True}
    async with FaultyServer(script=[turn]).serving() as server, AsyncClient(server.url) as client:
        stream = client.stream("Hi")
        reading = asyncio.create_task(stream.complete())
        await server.connected.wait()
        await stream.aclose()

        with pytest.raises(Exception, match="the stream was closed"):
            await asyncio.wait_for(reading, 5)


async def test_an_observer_that_leaves_does_not_end_the_stream() -> None:
    async with (
        FaultyServer().serving() as server,
        AsyncClient(server.url) as client,
        client.observe(ID) as stream,
    ):
        assert isinstance(await anext(aiter(stream)), StartFrame)

    assert server.request_lines == [f"GET /v1/streams/{ID}?observe=1"]


# Frames


async def test_heartbeats_are_counted_and_not_yielded() -> None:
    turn = {"then": b": hb\n: hb\n"}
    async with FaultyServer(script=[turn]).serving() as server, AsyncClient(server.url) as client:
        stream = client.stream("Hi")
        frames = [frame async for frame in stream]

    assert (len(frames), stream.timing["heartbeats"]) == (len(FRAMES) + 1, 2)


async def test_a_key_goes_along_and_so_do_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORVYN_KEY", "from-env")
    async with (
        FaultyServer().serving() as server,
        AsyncClient(server.url, headers={"X-Team": "a"}) as client,
    ):
        await client.stream("Hi").complete()
        async with AsyncClient(server.url, key="given") as another:
            await another.stream("Hi").complete()

    first, second = server.requests
    assert (first.headers["Authorization"], first.headers["X-Team"]) == ("Bearer from-env", "a")
    assert second.headers["Authorization"] == "Bearer given"


async def test_options_that_are_none_are_left_out() -> None:
    async with FaultyServer().serving() as server, AsyncClient(server.url) as client:
        await client.stream("Hi", flow="chat", max_tokens=3, stop=None, stateful=True).complete()

    assert server.bodies == [{"prompt": "Hi", "flow": "chat", "max_tokens": 3, "stateful": True}]


# Mistakes


async def test_a_stream_is_read_once() -> None:
    async with FaultyServer().serving() as server, AsyncClient(server.url) as client:
        stream = client.stream("Hi")
        assert (await stream.complete()).text == TEXT
        with pytest.raises(InvalidInput, match="already been read"):
            await stream.complete()


def test_a_sync_client_does_not_block_its_own_loop(server: Served) -> None:
    client = Client(server.url)

    async def wrong() -> None:
        client.health()

    with pytest.raises(InvalidInput, match="which it would block"):
        asyncio.run_coroutine_threadsafe(wrong(), background_loop()).result(PATIENCE_S)
    client.close()


async def test_operations_that_sse_lacks_are_errors() -> None:
    async with (
        FaultyServer().serving() as server,
        AsyncClient(server.url) as client,
        client.stream("Hi") as stream,
    ):
        with pytest.raises(InvalidInput, match="`update` is not possible over SSE"):
            await stream.update(max_tokens=3)
        with pytest.raises(InvalidInput, match="not stateful"):
            await stream.detach()


@pytest.mark.parametrize("way", ["close", "cancel"])
async def test_a_stateful_stream_left_before_its_head_has_come_is_left_to_the_server(
    way: str,
) -> None:
    turn = {"late": True}
    async with FaultyServer(script=[turn]).serving() as server, AsyncClient(server.url) as client:
        stream = client.stream("Hi", stateful=True)
        reading = asyncio.create_task(stream.begin())
        await server.received.wait()
        if way == "cancel":
            reading.cancel()
        await asyncio.wait_for(stream.aclose(), 5)
        await asyncio.wait({reading}, timeout=5)
        await asyncio.wait_for(server.left.wait(), 5)

    assert server.request_lines == ["POST /v1/streams"]
