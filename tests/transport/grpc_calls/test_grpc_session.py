"""Many streams in one gRPC call, controlled by messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from grpc_client import answering, calling, grpc, pb, rejection_of, serving_calls, trailer
from grpc_session_client import Talk, text
from live_server import PATIENCE_S, Served, wait_for
from watched_engines import CEILING_S, Watched

from torvyn.engine import Scripted

Code = grpc.StatusCode
PROMPT = pb.GenerateRequest(prompt="Hi")
LONG = " ".join(f"word{number}" for number in range(2000))


@contextmanager
def talking(engine: Any, **settings: Any) -> Iterator[tuple[Served, Talk]]:
    """Answers begin at once, so that a client can read the start of one that waits."""
    with answering(engine, **{"first_byte_wait_s": 0.0, **settings}) as (server, stub):
        talk = Talk(stub)
        try:
            yield server, talk
        finally:
            talk.hang_up()
            talk.call.cancel()


def test_streams_of_one_call_have_a_name_each() -> None:
    with talking(Scripted(answers=["one", "two words", "three"])) as (_, talk):
        for name in ("a", "b"):
            talk.start(name)
        got = talk.until_end("a", "b")

    assert [text(frames) for frames in got.values()] == ["one", "one"]
    assert [frames[0].WhichOneof("frame") for frames in got.values()] == ["start"] * 2
    assert all(frames[0].start.epoch for frames in got.values())


def test_a_call_ends_well_after_the_last_message_and_the_last_stream() -> None:
    with talking(Scripted("Hello there", delay=0.01)) as (server, talk):
        talk.start("a")
        talk.hang_up()
        assert text(talk.until_end("a")["a"]) == "Hello there"
        with pytest.raises(StopIteration):
            talk.next()
        assert talk.call.code() is Code.OK
        wait_for(lambda: not server.application.running.channels)


def test_a_stop_releases_the_text_that_is_held_back_and_a_cancel_does_not() -> None:
    with talking(Watched()) as (_, talk):
        for name in ("a", "b"):
            talk.start(name)
            talk.next()
        talk.say("a", stop=pb.Stop())
        talk.say("b", cancel=pb.Cancel())
        got = talk.until_end("a", "b")

    (stopped,), (cancelled,) = got["a"][-1].end.finish, got["b"][-1].end.finish
    assert (stopped.reason, stopped.stopped_by) == (pb.FINISH_REASON_STOP, "client")
    assert cancelled.reason == pb.FINISH_REASON_CANCELLED


def test_what_ends_an_answer_can_be_changed_while_it_comes() -> None:
    with talking(Watched(token=" x")) as (_, talk):
        talk.start("a")
        talk.next()
        talk.say("a", update=pb.Update(max_tokens=1))
        got = talk.until_end("a")

    assert got["a"][-1].end.finish[0].reason == pb.FINISH_REASON_LENGTH


def test_a_stream_sends_what_its_client_grants() -> None:
    with talking(Watched(token="x" * 5000)) as (_, talk):
        talk.start("a", credit=2)
        first = [talk.next().frame.WhichOneof("frame") for _ in range(3)]
        talk.say(ping=pb.Ping())
        assert talk.next().WhichOneof("message") == "pong"
        talk.say("a", credit=pb.Credit(frames=1))
        assert talk.next().frame.WhichOneof("frame") == "delta"
        talk.say(ping=pb.Ping())
        assert talk.next().WhichOneof("message") == "pong"

    assert first == ["start", "delta", "delta"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (pb.ClientMessage(stream_id="a"), "transport.message-invalid"),
        (pb.ClientMessage(start=pb.Begin(request=PROMPT)), "transport.message-invalid"),
        (pb.ClientMessage(stream_id="a", start=pb.Begin()), "transport.request-invalid"),
        (pb.ClientMessage(stream_id="a", stop=pb.Stop()), "transport.stream-unknown"),
        (pb.ClientMessage(stream_id="a", credit=pb.Credit()), "transport.message-invalid"),
        (pb.ClientMessage(stream_id="a", resume=pb.Resume()), "transport.message-invalid"),
        (pb.ClientMessage(stream_id="a", update=pb.Update()), "transport.message-invalid"),
        (pb.ClientMessage(stream_id="a", resume=pb.Resume(id="x")), "transport.stream-unknown"),
        (pb.ClientMessage(stream_id="a", observe=pb.Observe(id="x")), "transport.stream-unknown"),
        (
            pb.ClientMessage(
                stream_id="a",
                start=pb.Begin(request=pb.GenerateRequest(prompt="Hi", response_format_json="{")),
            ),
            "transport.request-invalid",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_else_suffers(message: Any, code: str) -> None:
    with talking(Scripted("Hello")) as (_, talk):
        talk._said.put(message)
        refused = talk.next()
        assert refused.refused.code == code
        assert refused.stream_id == message.stream_id
        talk.start("b")
        assert text(talk.until_end("b")["b"]) == "Hello"


def test_bytes_that_are_no_message_are_refused_too() -> None:
    with serving_calls(Scripted("Hello")) as server:
        channel = grpc.insecure_channel(server.grpc)
        method = channel.stream_stream("/torvyn.v1.Inference/Session")
        (data,) = method(iter([b"\xff\xff"]), timeout=PATIENCE_S)

    assert pb.ServerMessage.FromString(data).refused.code == "transport.bad-message"


def test_a_message_that_is_too_large_ends_a_call_that_has_begun_with_a_status() -> None:
    with talking(Watched(pause_s=60), max_body_bytes=1000) as (_, talk):
        talk.start("a")
        assert talk.next().frame.WhichOneof("frame") == "start"
        talk.start("b", prompt="x" * 5000)
        error = rejection_of(talk.call)

    assert error.code() is Code.RESOURCE_EXHAUSTED
    assert trailer(error, "torvyn-code") == "transport.body-too-large"


def test_a_stateful_stream_is_resumed_where_its_client_was() -> None:
    with answering(Scripted(LONG)) as (_, stub):
        first = Talk(stub)
        first.start("a", stateful=True)
        start, seen = first.next().frame.start, first.next().frame
        first.call.cancel()
        again = Talk(stub)
        after = f"{start.epoch}-{seen.seq}"
        again.say("b", resume=pb.Resume(id=start.id, after=after))
        rest = again.until_end("b")["b"]
        again.call.cancel()
        first.hang_up(), again.hang_up()

    assert rest[0].start == start
    assert rest[1].seq == seen.seq + 1
    assert text([seen, *rest]) == LONG


def test_a_stream_can_be_watched_from_another_call() -> None:
    with talking(Watched(pause_s=0.005)) as (server, talk), calling(server) as stub:
        talk.start("a")
        id = talk.next().frame.start.id
        watcher = Talk(stub)
        watcher.say("w", observe=pb.Observe(id=id))
        kinds = [watcher.next().frame.WhichOneof("frame") for _ in range(3)]
        watcher.hang_up(), watcher.call.cancel()
        talk.say("a", stop=pb.Stop())
        assert talk.until_end("a")["a"]

    assert kinds == ["start", "delta", "delta"]


def test_every_engine_hears_of_it_when_the_call_is_cancelled() -> None:
    engine = Watched(pause_s=60)
    with talking(engine) as (server, talk):
        for name in "abc":
            talk.start(name)
        for _ in "abc":
            talk.next()
        assert engine.has_begun.wait(PATIENCE_S)
        talk.call.cancel()
        assert engine.was_left.wait(CEILING_S)
        wait_for(lambda: not server.application.running.calls)
        wait_for(lambda: not server.application.running.channels)


def test_a_client_that_never_reads_is_cut() -> None:
    engine = Watched(pause_s=0, token="y" * 1000)
    plain = ("grpc.http2.bdp_probe", 0)
    with (
        serving_calls(engine, write_timeout_s=0.5) as server,
        calling(server, plain) as stub,
    ):
        talk = Talk(stub)
        talk.start("a")
        talk.start("b")
        talk.next()
        assert engine.was_left.wait(PATIENCE_S)
        wait_for(lambda: not server.application.running.calls)
        wait_for(lambda: not server.application.running.channels)
        assert engine.made * 1000 <= 160 * 1024
        error = rejection_of(talk.call)
        talk.hang_up()

    assert error.code() is Code.DEADLINE_EXCEEDED
    assert trailer(error, "torvyn-code") == "transport.unread"


def test_one_stream_is_dropped_while_its_message_is_on_its_way_and_others_go_on() -> None:
    with talking(Watched(pause_s=0, token="y" * 1000), write_timeout_s=20) as (server, talk):
        talk.start("a")
        talk.start("b")
        wait_for(lambda: len(server.application.running.calls) == 2)
        (conversation,) = server.application.running.channels._multiplexers
        wait_for(lambda: conversation.sender._sending == 2)
        server.loop.call_soon_threadsafe(conversation.streams["a"].task.cancel)
        seen = [talk.next().stream_id]
        while seen[-100:] != ["b"] * 100:  # what was on its way comes before
            seen.append(talk.next().stream_id)

    assert "a" in seen


def test_an_idle_session_sends_heartbeats() -> None:
    with talking(Scripted("a"), heartbeat_s=0.02) as (_, talk):
        message = talk.next()

    assert message == pb.ServerMessage(frame=pb.Frame(heartbeat=pb.Heartbeat()))


def test_shutting_down_ends_every_stream_and_then_the_call() -> None:
    with talking(Watched(pause_s=0.01), shutdown_grace_s=0.4) as (server, talk):
        talk.start("a")
        talk.next()
        ending = threading.Thread(target=server.end)
        ending.start()
        frames = talk.until_end("a")["a"]
        error = rejection_of(talk.call)
        ending.join()

    assert frames[-2].error.code == "transport.shutting-down"
    assert error.code() is Code.UNAVAILABLE


def test_a_server_that_ends_takes_no_more_sessions() -> None:
    with answering(Scripted("a")) as (server, stub):
        server.application.running.is_draining = True
        error = rejection_of(stub.Session(iter([]), timeout=PATIENCE_S))

    assert error.code() is Code.UNAVAILABLE
