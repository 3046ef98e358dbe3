"""Many streams on one connection to a real server, over each transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgi_client import Endless, Gated
from faulty_network import FaultyNetwork
from live_server import Served, served, wait_for

from torvyn.client import AsyncClient, Client, InvalidRequestError, ServerError
from torvyn.client.address import Address
from torvyn.client.transports.channel import CREDIT, ChannelConnection, ServerMessage
from torvyn.client.transports.channel_pool import ChannelPool
from torvyn.client.transports.transport import ConnectionLost, StreamRequest
from torvyn.engine import Engine, Scripted, Service
from torvyn.errors import Unavailable
from torvyn.protocol import DeltaFrame, EndFrame, HeartbeatFrame, StartFrame

WORDS = [f"{n} «é👩‍👧»\n" for n in range(12)]
TEXT = "".join(WORDS)
TRANSPORTS = ("websocket", "grpc")


@pytest.fixture(params=TRANSPORTS)
def transport(request: Any) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    services = {"chat": Service("chat", Scripted(WORDS)), "b": Service("b", Scripted("B"))}
    with served(services, chunk_tokens=1, grpc_port=0) as server:
        yield server


@asynccontextmanager
async def gated(transport: str, engine: Engine) -> AsyncIterator[tuple[Served, AsyncClient]]:
    with served(engine, grpc_port=0) as server:
        async with AsyncClient(url_of(server, transport), transport=transport) as client:
            yield server, client


def port_of(server: Served, transport: str) -> int:
    return int(server.grpc.rpartition(":")[2]) if transport == "grpc" else server.port


def url_of(server: Served, transport: str) -> str:
    return f"http://127.0.0.1:{port_of(server, transport)}"


def say(server: Served, engine: Gated, *words: str | None) -> None:
    for word in words:
        server.loop.call_soon_threadsafe(engine.tokens.put_nowait, word)


async def joined(stream: Any) -> str:
    return "".join([text async for text in stream.text()])


async def was_left(engine: Any) -> None:
    await asyncio.to_thread(wait_for, engine.was_left.is_set)


async def test_many_streams_share_a_connection(server: Served, transport: str) -> None:
    async with FaultyNetwork(port_of(server, transport)).up() as network:
        async with AsyncClient(network.url, transport=transport) as client:
            coroutines = (client.stream("Hi", flow="chat").complete() for _ in range(20))
            answers = await asyncio.gather(*coroutines)

        assert [answer.text for answer in answers] == [TEXT] * 20
        assert network.connections == 1


def test_programs_without_coroutines_have_it_too(server: Served, transport: str) -> None:
    with Client(url_of(server, transport), transport=transport) as client:
        frames = list(client.stream("Hi", flow="chat"))
        assert (type(frames[0]), type(frames[-1])) == (StartFrame, EndFrame)
        assert "".join(frame.text for frame in frames if isinstance(frame, DeltaFrame)) == TEXT
        assert client.stream("Hi", flow="b").complete().usage.completion_tokens == 1


async def test_a_rejection_is_typed_and_does_not_affect_other_streams(
    server: Served, transport: str
) -> None:
    async with AsyncClient(url_of(server, transport), transport=transport) as client:
        streams = client.stream("Hi", flow="nope"), client.stream("Hi", flow="b", max_tokens=-1)
        errors = await asyncio.gather(*(one.complete() for one in streams), return_exceptions=True)
        assert await joined(client.stream("Hi", flow="b")) == "B"

    assert [type(error) for error in errors] == [InvalidRequestError, InvalidRequestError]
    assert [error.code for error in errors if isinstance(error, ServerError)] == [
        "transport.flow-unknown",
        "engine.request-invalid",
    ]


async def test_a_slow_reader_holds_up_itself_alone(transport: str) -> None:
    engine = Endless()
    async with gated(transport, engine) as (_, client):
        slow = aiter(client.stream("Hi", n=1))
        await anext(slow)
        other = client.stream("Hi", max_tokens=5 * CREDIT)

        assert len((await other.complete()).text) == 5 * CREDIT
        await slow.aclose()
        await was_left(engine)


async def test_an_answer_longer_than_the_first_credit_is_complete(transport: str) -> None:
    script = [f"{n} " for n in range(4 * CREDIT)]
    with served(Scripted(script), chunk_tokens=1, grpc_port=0) as server:
        async with AsyncClient(url_of(server, transport), transport=transport) as client:
            assert (await client.stream("Hi").complete()).text == "".join(script)


async def test_leaving_ends_one_stream_and_not_the_connection(transport: str) -> None:
    engine = Gated()
    async with gated(transport, engine) as (server, client):
        async with client.stream("Hi"):
            await asyncio.to_thread(wait_for, engine.has_begun.is_set)
        await was_left(engine)
        say(server, engine, "Hello", None)

        assert await joined(client.stream("Hi")) == "Hello"


async def test_stop_and_update_reach_the_answer(transport: str) -> None:
    engine = Gated()
    async with gated(transport, engine) as (server, client), client.stream("Hi") as stream:
        texts = stream.text()
        say(server, engine, "one ")
        assert await anext(texts) == "one "
        await stream.update(stop=["END"], max_tokens=3)
        say(server, engine, "two END three")
        assert "".join([text async for text in texts]) == "two "
        assert stream.end.finish[0].matched_stop == "END"  # type: ignore[union-attr]
        assert await stream.stop() is False


async def test_stop_ends_in_good_order(transport: str) -> None:
    engine = Gated()
    async with gated(transport, engine) as (server, client), client.stream("Hi") as stream:
        texts = stream.text()
        say(server, engine, "one ")
        assert await anext(texts) == "one "
        assert await stream.stop()
        assert [text async for text in texts] == []

    assert stream.end.finish[0].stopped_by == "client"  # type: ignore[union-attr]


async def test_an_invalid_update_is_raised_and_does_not_end_the_stream(transport: str) -> None:
    engine = Gated()
    async with gated(transport, engine) as (server, client), client.stream("Hi") as stream:
        with pytest.raises(ServerError):
            await stream.update(max_tokens=-1)
        say(server, engine, "Hello", None)

        assert await joined(stream) == "Hello"


@pytest.mark.parametrize("step", range(3))
async def test_whatever_byte_the_network_fails_at_the_text_is_whole(
    server: Served, transport: str, step: int
) -> None:
    async with (
        FaultyNetwork(port_of(server, transport)).up() as network,
        AsyncClient(network.url, transport=transport) as client,
    ):
        for cut in range(600 + step * 30, 2000, 97):
            network.cut()
            network.cuts = [cut]
            stream = client.stream("Hi", flow="chat", stateful=True)

            assert await joined(stream) == TEXT, cut


async def test_a_stateless_stream_that_is_cut_is_an_error(transport: str) -> None:
    engine = Gated()
    with served(engine, grpc_port=0) as server:
        async with (
            FaultyNetwork(port_of(server, transport)).up() as network,
            AsyncClient(network.url, transport=transport) as client,
            client.stream("Hi") as stream,
        ):
            network.cut()
            with pytest.raises(Unavailable) as caught:
                await joined(stream)

    assert caught.value.code == "client.cut"


async def test_a_detached_stream_can_be_resumed(server: Served, transport: str) -> None:
    async with AsyncClient(url_of(server, transport), transport=transport) as client:
        stream = client.stream("Hi", flow="chat", stateful=True)
        frames = aiter(stream)
        first = [await anext(frames) for _ in range(4)]
        after, id = stream.last_id, await stream.detach()
        rest = [frame async for frame in client.resume(id, after=after)]
        ended = [frame async for frame in client.resume(id, after=f"{str(after)[:-2]}-13")]

    assert "".join(f.text for f in (*first, *rest) if isinstance(f, DeltaFrame)) == TEXT
    assert ended == []


async def test_closing_cancels_a_stateful_stream_wherever_it_is(transport: str) -> None:
    engine = Gated()
    async with gated(transport, engine) as (server, client):
        async with client.stream("Hi", stateful=True) as stream:
            id = str(stream.id)
            await stream.detach()
        assert not engine.was_left.is_set()
        async with AsyncClient(url_of(server, transport), transport=transport) as another:
            assert await another.resume(id).cancel()
        await was_left(engine)


@pytest.mark.parametrize("way", ["close", "cancel"])
async def test_a_stateful_stream_left_before_its_id_has_come_is_cancelled(
    transport: str, way: str
) -> None:
    engine = Gated()
    with served(engine, grpc_port=0, first_byte_wait_s=60.0) as server:
        async with AsyncClient(url_of(server, transport), transport=transport) as client:
            stream = client.stream("Hi", stateful=True)
            reading = asyncio.create_task(stream.begin())
            await asyncio.to_thread(wait_for, engine.has_begun.is_set)
            if way == "cancel":
                reading.cancel()
            await stream.aclose()
            await was_left(engine)
            await asyncio.wait({reading})


async def test_an_observer_sees_the_same_text_and_does_not_end_the_stream(transport: str) -> None:
    engine = Gated()
    async with gated(transport, engine) as (server, client), client.stream("Hi") as stream:
        watched, brief = client.observe(str(stream.id)), client.observe(str(stream.id))
        await watched.begin()
        await brief.begin()
        await brief.aclose()
        say(server, engine, "Hello", None)

        assert (await stream.complete()).text == "Hello"
        assert await joined(watched) == "Hello"


async def test_a_connection_that_falls_silent_counts_as_cut(transport: str) -> None:
    engine = Gated()
    options = {"transport": transport, "idle_timeout_s": 0.2}
    with served(engine, grpc_port=0, heartbeat_s=3600.0, first_byte_wait_s=0.0) as server:
        async with (
            AsyncClient(url_of(server, transport), **options) as client,
            client.stream("Hi") as stream,
        ):
            with pytest.raises(Unavailable, match="not even a heartbeat"):
                await joined(stream)


async def test_heartbeats_keep_it_alive(transport: str) -> None:
    engine = Gated()
    options = {"transport": transport, "idle_timeout_s": 0.5}
    with served(engine, grpc_port=0, heartbeat_s=0.05, first_byte_wait_s=0.05) as server:
        async with (
            AsyncClient(url_of(server, transport), **options) as client,
            client.stream("Hi") as stream,
        ):
            reading = asyncio.create_task(joined(stream))
            await asyncio.to_thread(wait_for, lambda: stream.timing["heartbeats"] > 3)
            say(server, engine, "Hello", None)

            assert await reading == "Hello"


def test_an_unreachable_server_is_reported_at_once(transport: str) -> None:
    with (
        Client("http://127.0.0.1:1", transport=transport) as client,
        pytest.raises(Unavailable) as caught,
    ):
        client.stream("Hi").begin()

    assert caught.value.code == "client.unreachable"


# Over a connection that a test drives


class Quiet(ChannelConnection):
    """Keeps what is sent; the test says what is received and when it is lost."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.received: asyncio.Queue[ServerMessage] = asyncio.Queue()
        self.is_lost = False

    async def send(self, record: dict[str, Any]) -> None:
        if self.is_lost:
            raise ConnectionLost("it is lost")
        self.sent.put_nowait(record)

    async def receive(self) -> ServerMessage:
        return await self.received.get()

    async def aclose(self) -> None:
        self.is_lost = True


def pool_over(*connections: Quiet) -> ChannelPool:
    left = iter(connections)

    async def connect() -> ChannelConnection:
        return next(left)

    return ChannelPool("quiet", connect, Address("http://localhost"))


@pytest.mark.parametrize(
    ("request_", "sent"),
    [
        (StreamRequest("start", {"prompt": "Hi", "stateful": True}), ["start", "cancel"]),
        (StreamRequest("resume", id="x"), ["resume"]),
    ],
)
async def test_only_an_answer_that_nobody_can_come_back_to_is_cancelled(
    request_: StreamRequest, sent: list[str]
) -> None:
    connection = Quiet()
    pool = pool_over(connection)
    opening = asyncio.create_task(pool.open(request_))
    records = [await connection.sent.get()]
    opening.cancel()
    await asyncio.wait({opening})
    await pool.aclose()
    while not connection.sent.empty():
        records.append(connection.sent.get_nowait())

    assert [record["type"] for record in records] == sent


async def test_a_start_on_a_connection_that_was_lost_meanwhile_is_sent_again() -> None:
    first, second = Quiet(), Quiet()
    pool = pool_over(first, second)
    for connection in (first, second):
        connection.received.put_nowait(ServerMessage("frame", frame=HeartbeatFrame()))
    request = StreamRequest("start", {"prompt": "Hi"})
    assert await pool.open(request) is not None
    first.is_lost = True
    assert await pool.open(request) is not None
    await pool.aclose()

    assert (first.sent.qsize(), second.sent.qsize()) == (1, 1)
