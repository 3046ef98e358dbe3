"""Streams that lose their connections: each frame once, in order, or an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from faulty_server import FRAMES, ID, TEXT, FaultyServer, blocks, failing
from hypothesis import given, settings
from hypothesis import strategies as st

from torvyn.client import AsyncClient, InvalidRequestError, ServerBusyError
from torvyn.errors import Internal, TorvynError, Unavailable
from torvyn.protocol import Frame, StartFrame

BODY = b"".join(blocks(FRAMES))
HEAD = len(blocks(FRAMES)[0])


@asynccontextmanager
async def connected(
    *script: dict[str, Any], frames: Sequence[Frame] = FRAMES, **options: Any
) -> AsyncIterator[tuple[FaultyServer, AsyncClient]]:
    async with (
        FaultyServer(frames, script).serving() as server,
        AsyncClient(server.url, **options) as client,
    ):
        yield server, client


async def read(stream: Any) -> list[Frame]:
    return [frame async for frame in stream]


def error_body(code: str) -> str:
    return json.dumps({"error": {"code": code, "message": "gone", "retryable": False}})


@pytest.mark.parametrize("third", range(3))
async def test_a_cut_at_any_byte_loses_and_doubles_nothing(third: int) -> None:
    async with connected() as (server, client):
        for cut in range(HEAD + third, len(BODY), 3):
            server.script = [{"cut": cut}, {}]
            stream = client.stream("Hi", stateful=True)

            start, *rest = await read(stream)

            assert (type(start), rest) == (StartFrame, list(FRAMES)), cut
            assert stream.timing["resumes"] == 1


async def test_a_stream_that_is_cut_after_every_frame_is_complete() -> None:
    sizes = [len(block) for block in blocks(FRAMES)]
    script = [{"cut": HEAD + size + 5} for size in sizes[1:]]
    async with connected(*script, {}) as (server, client):
        stream = client.stream("Hi", stateful=True)

        assert "".join([text async for text in stream.text()]) == TEXT
        assert server.request_lines == [
            "POST /v1/streams",
            *(f"GET /v1/streams/{ID} k3-{n}" for n in range(1, len(FRAMES))),
        ]


@pytest.mark.parametrize("cut", [0, HEAD - 1])
async def test_a_stream_without_a_start_cannot_be_resumed(cut: int) -> None:
    async with connected({"cut": cut}) as (server, client):
        with pytest.raises(Unavailable) as caught:
            await read(client.stream("Hi", stateful=True))

        assert (caught.value.code, len(server.requests)) == ("client.cut", 1)


async def test_a_stateless_stream_that_is_cut_is_an_error_and_not_a_short_answer() -> None:
    async with connected({"cut": len(BODY) - 3}) as (server, client):
        stream = client.stream("Hi")
        with pytest.raises(Unavailable) as caught:
            await stream.complete()

        assert (caught.value.code, len(server.requests)) == ("client.cut", 1)
        assert caught.value.hint == "a stream with `stateful=True` is resumed"
        assert stream.finish_reasons == (None,)


async def test_repeated_frames_are_skipped() -> None:
    async with connected({"cut": len(BODY) - 3}, {"off_by": -3}) as (_, client):
        assert (await read(client.stream("Hi", stateful=True)))[1:] == list(FRAMES)


async def test_missing_frames_are_requested_again() -> None:
    turns = ({"cut": HEAD + 120}, {"off_by": 2}, {})
    async with connected(*turns) as (server, client):
        assert (await read(client.stream("Hi", stateful=True)))[1:] == list(FRAMES)
        assert len(server.requests) == 3


async def test_frames_that_stay_missing_are_an_error() -> None:
    async with connected({"off_by": 1}, resumes=2) as (server, client):
        with pytest.raises(Unavailable, match="frame 1 is missing, 2 arrived"):
            await read(client.stream("Hi", stateful=True))

        assert len(server.requests) == 3


@pytest.mark.parametrize(("status", "code"), [(404, "transport.stream-unknown")])
@pytest.mark.parametrize("is_old", [False, True])
async def test_a_stream_that_no_longer_exists_is_not_retried(
    status: int, code: str, is_old: bool
) -> None:
    status, code = (410, "session.frames-gone") if is_old else (status, code)
    rejection = {"status": status, "body": error_body(code)}
    async with connected({"cut": HEAD + 90}, rejection) as (server, client):
        with pytest.raises(InvalidRequestError) as caught:
            await read(client.stream("Hi", stateful=True))

        assert (caught.value.code, caught.value.status) == (code, status)
        assert len(server.requests) == 2


async def test_a_resume_after_the_end_is_not_an_error() -> None:
    async with connected({"status": 204}) as (server, client):
        assert await read(client.resume(ID, after="k3-7")) == []
        assert server.request_lines == [f"GET /v1/streams/{ID} k3-7"]


async def test_a_replaced_reader_gets_an_error_and_does_not_reconnect() -> None:
    async with connected(frames=failing("session.taken-over")[:3]) as (server, client):
        stream = client.stream("Hi", stateful=True)
        with pytest.raises(TorvynError) as caught:
            [text async for text in stream.text()]

        assert caught.value.code == "session.taken-over"
        assert server.request_lines == ["POST /v1/streams"]


async def test_a_silent_connection_counts_as_cut() -> None:
    turns = ({"cut": HEAD + 90, "hang": True}, {})
    # Long enough that the second connection does not time out as well on a busy machine.
    async with connected(*turns, idle_timeout_s=0.5) as (_, client):
        stream = client.stream("Hi", stateful=True)

        assert (await read(stream))[1:] == list(FRAMES)
        assert stream.timing["resumes"] == 1


async def test_a_server_that_is_away_is_looked_for_until_the_limit() -> None:
    reconnects: list[tuple[int, str]] = []
    options = {"resumes": 4, "on_reconnect": lambda n, why: reconnects.append((n, why.code))}
    turns = ({"cut": HEAD + 90}, {"status": 503})
    async with connected(*turns, **options) as (server, client):
        with pytest.raises(ServerBusyError):
            await read(client.stream("Hi", stateful=True))

    assert len(server.requests) == 5
    assert reconnects == [
        (1, "client.cut"),
        (2, "client.refused"),
        (3, "client.refused"),
        (4, reconnects[-1][1]),
    ]


async def test_progress_renews_the_patience() -> None:
    sizes = [len(block) for block in blocks(FRAMES)]
    script = [{"cut": HEAD + size + 5} for size in sizes[1:]]
    async with connected(*script, {}, resumes=1) as (_, client):
        assert (await read(client.stream("Hi", stateful=True)))[1:] == list(FRAMES)


async def test_closing_ends_the_search_for_a_server_at_once() -> None:
    closing = asyncio.Event()
    busy = {"status": 503, "headers": {"Retry-After": "60"}}
    options = {"on_reconnect": lambda *_: closing.set()}
    async with connected({"cut": HEAD + 90}, busy, **options) as (_, client):
        stream = client.stream("Hi", stateful=True)
        reading = asyncio.create_task(read(stream))
        await closing.wait()
        await stream.aclose()

        assert len(await asyncio.wait_for(reading, 5)) >= 1


async def test_the_answer_of_another_stream_is_not_mixed_in() -> None:
    async with connected() as (_, client):
        with pytest.raises(Internal, match="the start frame of another stream"):
            await read(client.resume("req-2"))


async def test_a_stream_goes_on_elsewhere_from_its_last_frame() -> None:
    async with connected() as (server, client):
        async with client.stream("Hi", stateful=True) as stream:
            frames = aiter(stream)
            first = [await anext(frames) for _ in range(3)]
            place = stream.last_id
            assert (place, await stream.detach()) == ("k3-2", ID)

        rest = await read(client.resume(ID, after=place))

        assert [*first[1:], *rest[1:]] == list(FRAMES)
        assert server.request_lines == ["POST /v1/streams", f"GET /v1/streams/{ID} {place}"]


TURNS = st.one_of(
    st.builds(
        lambda cut, off: {"cut": cut, "off_by": off}, st.integers(0, 700), st.integers(-3, 3)
    ),
    st.sampled_from([{"status": 503}, {"status": 429}, {"status": 504}]),
)


@given(st.lists(TURNS, max_size=6))
@settings(max_examples=60, deadline=None)
def test_each_frame_arrives_once_whatever_connections_do(turns: list[dict[str, Any]]) -> None:
    async def run() -> None:
        first = {"cut": HEAD + 1}
        async with connected(first, *turns, {}) as (_, client):
            stream = client.stream("Hi", stateful=True)
            assert (await read(stream))[1:] == list(FRAMES)

    asyncio.run(asyncio.wait_for(run(), 20))
