"""WebSocket and gRPC streams at another server than the one that generates them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from asgi_client import PATIENCE_S, Client, Gated, within
from grpc_client import ALONE, calling, grpc, inference_pb2_grpc, pb, serving_calls
from grpc_session_client import Talk, text
from serve_process import serving
from stored_processes import STATEFUL, process
from watched_engines import Watched
from websocket_client import START, Socket, speaking, text_of

from torvyn.engine import Scripted

WORDS = " ".join(f"word{number}" for number in range(150))
MANIFEST = f"""
[torvyn]
name = "resumed"
version = "0.1.0"
contract_version = "0.1.0"

[serve]
port = 0
grpc_port = 0

[flow.chat.nodes.model]
component = "engine:scripted"
config = {{ text = "{WORDS}", delay = "10ms" }}

[flow.chat.nodes.answer]
component = "response"

[[flow.chat.edges]]
from = "model"
to = "answer"
"""


# WebSocket


@pytest.mark.parametrize(("kind", "reason"), [("stop", "stop"), ("cancel", "cancelled")])
async def test_a_websocket_at_another_server_ends_the_stream_that_it_reads(
    shared: str, kind: str, reason: str
) -> None:
    engine = Gated()
    async with (
        process(engine, shared) as first,
        process(Gated(), shared) as second,
        Socket(first) as socket,
        Socket(second) as other,
    ):
        socket.say(START, stateful=True)
        engine.tokens.put_nowait("one ")
        start = await socket.until_got("start")
        await socket.until_got("delta")
        other.say({"type": "resume", "stream_id": "r", "id": start["id"]})
        await other.until_got("delta", "r")
        other.say({"type": kind, "stream_id": "r"})
        end = await other.until_got("end", "r")
    assert end["finish"][0]["reason"] == reason
    assert text_of(other.got, "r") == "one "


async def test_a_websocket_at_another_server_changes_what_ends_the_stream(shared: str) -> None:
    engine = Gated()
    async with (
        process(engine, shared) as first,
        process(Gated(), shared) as second,
        Socket(first) as socket,
        Socket(second) as other,
    ):
        socket.say(START, stateful=True)
        engine.tokens.put_nowait("one ")
        start = await socket.until_got("start")
        await socket.until_got("delta")
        other.say({"type": "resume", "stream_id": "r", "id": start["id"]})
        await other.until_got("delta", "r")
        other.say({"type": "update", "stream_id": "r", "stop": ["two"]})
        # The answer stops at that word as soon as the update has arrived.
        call = first.running.calls[start["id"]]
        async with asyncio.timeout(PATIENCE_S):
            while call.answer.request.stop != ("two",):
                await asyncio.sleep(0.005)
        engine.tokens.put_nowait("and two ")
        end = await other.until_got("end", "r")
    assert end["finish"][0]["reason"] == "stop"
    assert text_of(other.got, "r") == "one and "


async def test_a_websocket_observes_a_stream_of_another_server(shared: str) -> None:
    engine = Gated()
    async with (
        process(engine, shared) as first,
        process(Gated(), shared) as second,
        Socket(second) as socket,
    ):
        client = Client(first, body=STATEFUL)
        engine.tokens.put_nowait("one ")
        await client.until(2)
        socket.say({"type": "observe", "stream_id": "o", "id": client.frames_start_id()})
        await socket.until_got("delta", "o")
        engine.tokens.put_nowait("two")
        engine.tokens.put_nowait(None)
        await socket.until_got("end", "o")
        await within(client)
    assert text_of(socket.got, "o") == "one two"


# gRPC


@contextmanager
def calling_at(process: Any) -> Iterator[Any]:
    """A stub for a server in its own process."""
    with grpc.insecure_channel(process.said["grpc"], options=[ALONE]) as channel:
        yield inference_pb2_grpc.InferenceStub(channel)


@contextmanager
def talk_at(server: Any) -> Iterator[Talk]:
    with calling(server) as stub:
        talk = Talk(stub)
        try:
            yield talk
        finally:
            talk.hang_up()
            talk.call.cancel()


@pytest.mark.parametrize(
    ("kind", "reason"), [("stop", pb.FINISH_REASON_STOP), ("cancel", pb.FINISH_REASON_CANCELLED)]
)
def test_a_grpc_session_at_another_server_ends_the_stream_that_it_reads(
    shared: str, kind: str, reason: int
) -> None:
    with (
        serving_calls(Watched(0.01), session_store=shared) as first,
        serving_calls(Watched(60), session_store=shared) as second,
        talk_at(first) as owner,
        talk_at(second) as other,
    ):
        owner.start("a", stateful=True)
        id = owner.next().frame.start.id
        other.say("r", resume=pb.Resume(id=id))
        other.next(), other.next()
        other.say("r", **{kind: pb.Stop() if kind == "stop" else pb.Cancel()})
        frames = other.until_end("r")["r"]
    assert frames[-1].end.finish[0].reason == reason


def test_a_grpc_session_observes_a_stream_of_another_server(shared: str) -> None:
    with (
        serving_calls(Scripted(WORDS, delay=0.002), session_store=shared) as first,
        serving_calls(Watched(60), session_store=shared) as second,
        talk_at(first) as owner,
        talk_at(second) as other,
    ):
        owner.start("a", stateful=True)
        id = owner.next().frame.start.id
        other.say("o", observe=pb.Observe(id=id))
        seen = other.until_end("o")["o"]
        owner.until_end("a")
    assert text(seen) == WORDS


# Streams whose server was killed


@pytest.fixture
def servers(shared: str, tmp_path: Path) -> Iterator[list[Any]]:
    """Two processes of `torvyn serve` that share their sessions."""
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    options = ("--session-store", shared)
    with serving(tmp_path, *options) as (one, _), serving(tmp_path, *options) as (two, _):
        yield [one, two]


def test_a_websocket_stream_continues_at_another_server_after_a_kill(servers: list[Any]) -> None:
    first, second = servers
    with speaking(first.said["url"]) as client:
        client.say(START, stateful=True)
        got = client.hear_until("delta")
        got += [client.hear() for _ in range(5)]
        first.kill()
        first.wait()
    start, seen = got[0], got[-1]
    with speaking(second.said["url"]) as client:
        after = f"{start['epoch']}-{seen['seq']}"
        client.say({"type": "resume", "stream_id": "s", "id": start["id"], "after": after})
        rest = client.hear_until("end")
    numbers = [one["seq"] for one in [*got[1:], *rest[1:]]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert text_of([*got, *rest]) == WORDS


@pytest.mark.parametrize("is_session", [False, True])
def test_a_grpc_stream_continues_at_another_server_after_a_kill(
    servers: list[Any], is_session: bool
) -> None:
    first, second = servers
    request = pb.GenerateRequest(prompt="Hi", stateful=True)
    with calling_at(first) as stub:
        if is_session:
            talk = Talk(stub)
            talk.start("a", stateful=True)
            got = [talk.next().frame for _ in range(6)]
        else:
            call = stub.Generate(request, timeout=PATIENCE_S)
            got = [next(call) for _ in range(6)]
        first.kill()
        first.wait()
    start, seen = got[0].start, got[-1]
    with calling_at(second) as stub:
        again = Talk(stub)
        again.say("r", resume=pb.Resume(id=start.id, after=f"{start.epoch}-{seen.seq}"))
        rest = again.until_end("r")["r"]
        again.hang_up()
        again.call.cancel()
    numbers = [one.seq for one in [*got[1:], *rest[1:]]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert text([*got, *rest]) == WORDS
