"""How gRPC calls end: by the client, by a timeout, by a stalled client, and with the server."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from typing import Any

import pytest
from grpc_client import (
    ALONE,
    HI,
    answering,
    calling,
    frames_of,
    grpc,
    pb,
    rejection_of,
    serving_calls,
    trailer,
)
from live_server import PATIENCE_S, wait_for
from watched_engines import CEILING_S, Numbering, Watched, peer_of

from torvyn.engine import Scripted
from torvyn.errors import MissingError
from torvyn.protocol import DeltaFrame, EndFrame, ErrorFrame
from torvyn.serve import ServerSettings, app
from torvyn.transport.listener.server import Server
from torvyn.transport.listener.sockets import SEND_BYTES

Code = grpc.StatusCode


@pytest.mark.promise("inference.grpc")
def test_the_engine_stops_when_its_call_is_cancelled_at_any_token() -> None:
    engine, dice = Watched(), random.Random(5)
    with answering(engine) as (_, stub):
        for _ in range(10):
            engine.was_left.clear()
            call = stub.Generate(HI)
            for _ in range(dice.randrange(1, 20)):
                next(call)
            left_s = time.perf_counter()
            call.cancel()
            assert engine.was_left.wait(PATIENCE_S)
            assert engine.left_s - left_s < CEILING_S


def test_the_engine_stops_when_its_call_is_cancelled_before_the_first_token() -> None:
    engine = Watched(pause_s=60)
    with answering(engine) as (server, stub):
        call = stub.Generate(HI)
        assert engine.has_begun.wait(PATIENCE_S)
        call.cancel()
        assert engine.was_left.wait(CEILING_S)
        wait_for(lambda: not server.application.running.calls)


def test_a_call_that_is_cancelled_while_it_waits_starts_no_engine() -> None:
    engine = Watched(pause_s=60)
    with answering(engine, max_streams=1, admission_wait_s=30) as (server, stub):
        running = stub.Generate(HI)
        assert engine.has_begun.wait(PATIENCE_S)
        engine.has_begun.clear()
        waiting = stub.Generate(HI)
        wait_for(lambda: server.application.admission.waiting)
        waiting.cancel()
        wait_for(lambda: not server.application.admission.waiting)
        running.cancel()
        wait_for(lambda: server.application.admission.free == 1)

    assert not engine.has_begun.is_set()


def test_the_engine_stops_when_the_connection_is_lost() -> None:
    engine = Watched()
    with serving_calls(engine) as server:
        with calling(server) as stub:
            next(stub.Generate(HI))
        assert engine.was_left.wait(PATIENCE_S)


@pytest.mark.promise("inference.grpc")
def test_the_engine_stops_when_the_deadline_of_the_call_is_over() -> None:
    engine = Watched(pause_s=60)
    with answering(engine) as (_, stub):
        error = rejection_of(stub.Generate(HI, timeout=0.2))
        assert engine.was_left.wait(CEILING_S)

    assert error.code() is Code.DEADLINE_EXCEEDED


def test_a_cancelled_call_is_counted_as_one() -> None:
    with answering(Watched()) as (server, stub):
        call = stub.Generate(HI)
        next(call)
        call.cancel()
        requests = server.application.metrics.requests
        wait_for(lambda: requests["GRPC", "/torvyn.v1.Inference/Generate", 1] == 1)


def test_a_client_that_never_reads_is_cut_and_gets_the_reason_if_it_reads_later() -> None:
    engine = Watched(pause_s=0, token="y" * 1000)
    # A client decides by itself how much may be on its way to it, and keeps that: 64 KiB here, and
    # as much again after the first message. The server keeps the rest.
    plain = ("grpc.http2.bdp_probe", 0)
    with (
        serving_calls(engine, write_timeout_s=0.5) as server,
        calling(server, plain) as stub,
    ):
        call = stub.Generate(HI)
        next(call)
        assert engine.was_left.wait(PATIENCE_S)
        # The engine is left a moment before the call is forgotten.
        wait_for(lambda: not server.application.running.calls)
        assert engine.made * 1000 <= (128 + 48) * 1024
        error = rejection_of(call)

    assert error.code() is Code.DEADLINE_EXCEEDED
    assert trailer(error, "torvyn-code") == "transport.unread"


def test_a_connection_that_is_never_read_costs_little_and_is_cut() -> None:
    from h2 import connection as h2

    engine = Watched(pause_s=0, token="y" * 1000)
    with serving_calls(engine, write_timeout_s=0.5) as server:
        sock = bare(server.grpc, h2)
        assert engine.was_left.wait(PATIENCE_S)
        wait_for(lambda: not server.application.running.calls)
        sock.close()

    # It allowed us gigabytes; ours, gRPC's and the kernel's buffers together stay small.
    assert engine.made * 1000 <= 96 * 1024


def test_a_page_in_a_browser_is_not_answered() -> None:
    from h2 import connection as h2

    engine = Watched()
    # gRPC wants `te: trailers`, which no page may send.
    page = {"origin": "https://evil.example", "content-type": "application/grpc"}
    with serving_calls(engine) as server, bare(server.grpc, h2, page) as sock:
        (answer, *_) = events_of(sock, h2, "ResponseReceived")

    assert dict(answer.headers)[b":status"] == b"421"
    assert not engine.has_begun.is_set()


def bare(address: str, h2: Any, head: dict[str, str] | None = None) -> socket.socket:
    """A client that asks, allows anything and reads nothing."""
    host, _, port = address.rpartition(":")
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect((host, int(port)))
    wire = h2.H2Connection()
    wire.initiate_connection()
    wire.update_settings({4: 2**31 - 1})  # the window of a stream
    wire.increment_flow_control_window(2**31 - 1 - 65535)
    path = {":method": "POST", ":scheme": "http", ":path": "/torvyn.v1.Inference/Generate"}
    head = head or {"content-type": "application/grpc", "te": "trailers"}
    wire.send_headers(1, list({**path, ":authority": "a", **head}.items()))
    data = HI.SerializeToString()
    wire.send_data(1, b"\0" + len(data).to_bytes(4, "big") + data, end_stream=True)
    sock.sendall(wire.data_to_send())
    return sock


def events_of(sock: socket.socket, h2: Any, last: str) -> list[Any]:
    """What the server sends, from the first event of that name on."""
    wire = h2.H2Connection()
    wire.initiate_connection()
    wire.send_headers(
        1, [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")]
    )
    sock.settimeout(PATIENCE_S)
    while part := sock.recv(65536):
        events = wire.receive_data(part)
        names = [type(event).__name__ for event in events]
        if last in names:
            return events[names.index(last) :]
    raise AssertionError(f"no {last}")


def test_connections_inherit_what_the_socket_was_given() -> None:
    with serving_calls(Scripted("a")) as server:
        host, _, port = server.grpc.rpartition(":")
        with socket.create_connection((host, int(port))) as sock:
            sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5))
            assert sock.recv(1)  # its settings: the other end is there
            accepted = peer_of(sock.getsockname()[1])

    assert accepted["sndbuf"] == 2 * SEND_BYTES


def test_a_slow_reader_gets_everything_in_order() -> None:
    with answering(Numbering(), write_timeout_s=20) as (server, stub):
        call = stub.Generate(HI)
        next(call)
        (running,) = wait_for(
            lambda: [c for c in server.application.running.calls.values() if c.sender._sending]
        )
        server.loop.call_soon_threadsafe(running.stop)
        frames = frames_of(call)

    text = "".join(frame.text for frame in frames if isinstance(frame, DeltaFrame))
    numbers = [int(part.strip("<> ")) for part in text.split()]
    assert numbers == list(range(len(numbers)))
    assert isinstance(frames[-1], EndFrame)
    assert frames[-1].finish[0].stopped_by == "client"


def test_shutting_down_gives_every_open_call_its_end() -> None:
    with answering(Watched(pause_s=0.01), shutdown_grace_s=0.4) as (server, stub):
        calls = [stub.Generate(HI) for _ in range(50)]
        for call in calls:
            next(call)
        ending = threading.Thread(target=server.end)
        ending.start()
        ends = [frames_of(call)[-2:] for call in calls]
        ending.join()

    assert {(type(error), type(end)) for error, end in ends} == {(ErrorFrame, EndFrame)}
    assert {error.code for error, _ in ends} == {"transport.shutting-down"}
    assert {call.code() for call in calls} == {Code.OK}


def test_a_port_in_use_is_an_error() -> None:
    async def serve_at(port: int) -> None:
        Server(app({}, ServerSettings(port=0, grpc_port=port)))

    with serving_calls(Scripted("a")) as server:
        port = int(server.grpc.rpartition(":")[2])
        with pytest.raises(MissingError) as caught:
            asyncio.run(serve_at(port))

    assert caught.value.code == "transport.cannot-listen"
    assert "--grpc-port" in (caught.value.hint or "")


def test_a_thousand_calls_that_are_cancelled_at_once_leave_nothing() -> None:
    with serving_calls(Watched()) as server:
        with grpc.insecure_channel(server.grpc, options=[ALONE]) as channel:
            method = channel.unary_stream("/torvyn.v1.Inference/Generate")
            data = pb.GenerateRequest(prompt="Hi").SerializeToString()
            for _ in range(1000):
                method(data).cancel()
        wait_for(lambda: not server.application.running.calls)
        wait_for(lambda: server.application.admission.free == 1024)
