"""The direct path over WebSocket and gRPC: the same frames as on the ordinary path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from grpc_client import calling, generate, grpc, pb
from live_server import PATIENCE_S, Served, wait_for
from told_answers import PAUSE, left, playing, text, words
from websocket_client import START, Speaker, speaking, text_of

from torvyn.engine import Step
from torvyn.protocol.decoder import frame_from
from torvyn.protocol.frames import DeltaFrame, EndFrame, Frame
from torvyn.protocol.proto_decoder import frame_from_message
from torvyn.transport.answer_stream import AnswerStream

__all__ = ["left"]
COUNT = 300
JOINED = "".join(f"word{number} " for number in range(COUNT))


def by_websocket(server: Served) -> list[Frame | None]:
    with speaking(server.url) as client:
        client.say(START)
        return [frame_from(said) for said in client.hear_until("end")]


def by_call(server: Served) -> list[Frame | None]:
    with calling(server) as stub:
        return [*generate(stub)]


def by_session(server: Served) -> list[Frame | None]:
    begin = pb.Begin(request=pb.GenerateRequest(prompt="Hi"))
    frames: list[Frame | None] = []
    with calling(server) as stub:
        asked = iter([pb.ClientMessage(stream_id="s", start=begin)])
        for message in stub.Session(asked, timeout=PATIENCE_S):
            assert message.stream_id == "s"
            frames.append(frame_from_message(message.frame))
    return frames


Ask = Callable[[Served], list[Frame | None]]
every_transport = pytest.mark.parametrize("ask", [by_websocket, by_call, by_session])


@every_transport
@pytest.mark.parametrize("guard", ["none", "replace"])
def test_text_takes_the_direct_path(ask: Ask, guard: str, left: list[Step | None]) -> None:
    with playing(words(COUNT), guard) as server:
        frames = ask(server)

    deltas = [frame for frame in frames if isinstance(frame, DeltaFrame)]
    assert "".join(delta.text for delta in deltas) == JOINED
    assert [delta.seq for delta in deltas] == [*range(1, len(deltas) + 1)]
    assert isinstance(end := frames[-1], EndFrame)
    assert end.usage is not None
    assert end.usage.completion_tokens == COUNT
    assert len(left) <= 2


@every_transport
def test_frames_are_those_of_the_ordinary_path(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    # The long text has a length of more than one byte in every framing.
    script = [*words(20), text("é" * 200), PAUSE, text("b" * 70_000), PAUSE, *words(20)]
    with playing(script, "replace") as server:
        direct = [frame for frame in ask(server) if isinstance(frame, DeltaFrame)]
        monkeypatch.setattr(AnswerStream, "direct_text", lambda self: None)
        ordinary = [frame for frame in ask(server) if isinstance(frame, DeltaFrame)]

    assert direct == ordinary


def test_streams_of_one_socket_keep_to_themselves(left: list[Step | None]) -> None:
    with playing(words(COUNT)) as server, speaking(server.url) as client:
        for name in "ab":
            client.say(START, stream_id=name)
        got = client.hear_until("end")
        got += client.hear_until("end")

    assert [text_of(got, name) for name in "ab"] == [JOINED, JOINED]
    assert len(left) <= 4


def test_credit_is_kept_to() -> None:
    with playing(words(COUNT)) as server, speaking(server.url) as client:
        client.say(START, credit=3)
        got = [client.hear() for _ in range(4)]
        client.say(type="ping")
        assert client.hear()["type"] == "pong"

    assert [said["type"] for said in got] == ["start", "delta", "delta", "delta"]


def endless(server: Served, client: Speaker) -> None:
    client.say(START)
    while client.hear()["type"] != "delta":
        pass


def test_a_stream_that_is_cancelled_ends_alone() -> None:
    with playing([text("word "), PAUSE] * 1_000_000) as server, speaking(server.url) as client:
        endless(server, client)
        client.say(type="cancel", stream_id="s")
        client.hear_until("end", "s")
        client.say(type="ping")
        assert client.hear()["type"] == "pong"


def test_a_socket_that_is_closed_stops_the_engine() -> None:
    with playing([text("word "), PAUSE] * 1_000_000) as server:
        # It does not read on, so it would not hear the server's answer to its close.
        with speaking(server.url, close_timeout=0.1) as client:
            endless(server, client)
        wait_for(lambda: not server.application.running.calls)


def test_a_call_that_is_cancelled_stops_the_engine() -> None:
    with playing([text("word "), PAUSE] * 1_000_000) as server, calling(server) as stub:
        call = stub.Generate(pb.GenerateRequest(prompt="Hi"), timeout=PATIENCE_S)
        next(call)
        call.cancel()
        wait_for(lambda: not server.application.running.calls)


def test_the_deadline_of_a_call_stops_the_engine() -> None:
    with playing([text("word "), PAUSE] * 1_000_000) as server, calling(server) as stub:
        with pytest.raises(grpc.RpcError) as caught:
            list(stub.Generate(pb.GenerateRequest(prompt="Hi"), timeout=0.3))
        wait_for(lambda: not server.application.running.calls)

    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@every_transport
def test_a_client_with_a_small_window_gets_everything(ask: Ask) -> None:
    with playing([text("#" * 500)] * 2000, "replace") as server:
        frames: list[Any] = ask(server)

    assert sum(len(each.text) for each in frames if isinstance(each, DeltaFrame)) == 1_000_000
