"""`tcp` and `udp`: lines over real sockets, with limits and back-pressure."""

import contextlib
import json
import socket
import threading

import pytest
from waiting import PATIENCE_S, eventually, pull

import torvyn
from failing_once import UNEXPECTED, fail_once
from torvyn import Element, InvalidInput, Unavailable
from torvyn._contract.signals import PENDING
from torvyn.components import TcpSink, TcpSource, UdpSink, UdpSource
from torvyn.errors import ContractError
from torvyn.testing import CollectingSink, ScriptedSource, check_account

MOST_BUFFERED_BYTES = 1 << 30
"""More than any system buffers for a connection."""


@pytest.fixture
def listening(running):
    def started(cls, **config):
        source = running(cls, json.dumps({"address": "127.0.0.1:0", **config}))
        assert source.is_listening.wait(PATIENCE_S)
        return source

    return started


@pytest.fixture
def connect():
    with contextlib.ExitStack() as stack:

        def connected(source):
            return stack.enter_context(socket.create_connection(source.bound_address[:2]))

        yield connected


def send_to(source, *datagrams):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for datagram in datagrams:
            sender.sendto(datagram, source.bound_address)


def test_lines_of_several_connections_arrive(listening, connect):
    source = listening(TcpSource)
    first, second = connect(source), connect(source)
    first.sendall(b"one\ntw")
    assert pull(source, 1) == ["one"]
    second.sendall("drei ä\r\n".encode())
    assert pull(source, 1) == ["drei ä"]
    first.sendall(b"o\nlast without end")
    first.shutdown(socket.SHUT_WR)
    assert pull(source, 2) == ["two", "last without end"]
    assert source.pull() is PENDING


def test_a_line_may_carry_its_sender(listening, connect):
    source = listening(TcpSource, peer=True, format="jsonl")
    sender = connect(source)
    sender.sendall(b'{"a": 1}\n')
    (output,) = pull(source, 1)
    host, port = sender.getsockname()
    assert output.attributes == {"peer": f"{host}:{port}"}
    assert output.content_type == "application/json"


def test_a_line_over_the_limit_is_rejected_and_the_next_one_follows(listening, connect):
    source = listening(TcpSource, max_line=5)
    connect(source).sendall(b"x" * 1_000_000 + b"\nok\n")
    with pytest.raises(InvalidInput, match=r"a line from 127\.0\.0\.1:\d+ is longer than 5 bytes"):
        pull(source, 1)
    assert pull(source, 1) == ["ok"]


def test_connections_over_the_limit_are_closed(listening, connect):
    source = listening(TcpSource, max_connections=1)
    connect(source).sendall(b"a\n")
    assert pull(source, 1) == ["a"]
    assert connect(source).recv(1) == b""


def test_a_connection_that_sends_nothing_is_closed(listening, connect):
    assert connect(listening(TcpSource, idle_timeout="10ms")).recv(1) == b""


def send_until_refused(sender, line, is_full):
    """Sends lines until nobody reads them: the inbox is full, and so are the system's buffers.
    Returns how many bytes were sent."""
    sender.setblocking(False)
    sent = 0
    while sent < MOST_BUFFERED_BYTES:
        # A refusal before this may only mean that the source has not read yet.
        was_full = is_full()
        try:
            sent += sender.send(line[sent % len(line) :])
        except BlockingIOError:
            if was_full:
                break
    sender.setblocking(True)
    return sent


def test_a_slow_flow_stops_the_sender(listening, connect):
    source, line = listening(TcpSource, capacity=10), b"x" * 49_999 + b"\n"
    sender = connect(source)

    sent = send_until_refused(sender, line, lambda: source._inbox.is_full)

    assert sent < MOST_BUFFERED_BYTES
    # The last read may bring one line and the end of another.
    assert len(source._inbox) <= 10 + 1
    assert len(pull(source, sent // len(line))) == sent // len(line)
    sender.sendall(line[sent % len(line) :])
    assert len(pull(source, 1)) == 1


def test_an_address_in_use_is_waited_for(running, listening, free_port):
    holder = listening(TcpSource, address=f"127.0.0.1:{free_port}")
    waiting = running(TcpSource, f"127.0.0.1:{free_port}")
    eventually(lambda: waiting.connection.status.reason)
    assert waiting.connection.status.reason == "address already in use"
    holder.teardown()
    assert waiting.is_listening.wait(PATIENCE_S)


@pytest.mark.parametrize("cls", [TcpSource, UdpSource])
def test_an_address_in_use_may_be_an_error(running, listening, cls):
    port = listening(cls).bound_address[1]
    config = json.dumps({"address": f"127.0.0.1:{port}", "on_disconnect": "fail"})
    source = running(cls, config)
    with pytest.raises(Unavailable, match="in use"):
        pull(source, 1)


@pytest.mark.parametrize("cls", [TcpSource, UdpSource, TcpSink, UdpSink])
@pytest.mark.parametrize("address", ["", "9000", "host:", "host:70000", "host:http"])
def test_a_wrong_address_is_rejected(cls, address):
    with pytest.raises(ContractError):
        cls().init(json.dumps({"address": address}))


def test_datagrams_are_split_into_lines(listening):
    source = listening(UdpSource)
    send_to(source, b"a\nb\r\n", b"c")
    assert pull(source, 3) == ["a", "b", "c"]


def test_a_datagram_may_be_taken_as_a_whole(listening):
    source = listening(UdpSource, framing="datagram", peer=True)
    send_to(source, b"\xff\n\x00")
    (output,) = pull(source, 1)
    assert output.data == b"\xff\n\x00"
    assert output.attributes["peer"].startswith("127.0.0.1:")


def test_datagrams_that_the_system_drops_are_counted(listening):
    source = listening(UdpSource, capacity=1, receive_buffer="4KiB")
    send_to(source, *[b"x" * 500] * 100)
    eventually(lambda: source._inbox.is_full)
    taken = 0
    while not source.dropped:
        send_to(source, b"more")
        taken += len(pull(source, 1))
    assert taken < 100


def test_what_a_sink_sends_a_source_receives(listening):
    source = listening(TcpSource)
    address = "{}:{}".format(*source.bound_address)
    torvyn.Flow(ScriptedSource(["a", "b", "c"]), TcpSink({"address": address})).run()
    assert pull(source, 3) == ["a", "b", "c"]


def test_a_udp_sink_sends_a_datagram_per_element(listening):
    source = listening(UdpSource)
    address = "{}:{}".format(*source.bound_address)
    torvyn.Flow(ScriptedSource(["a", "b"]), UdpSink({"address": address})).run()
    assert pull(source, 2) == ["a", "b"]


def test_a_payload_that_is_not_one_line_is_rejected_or_made_one(running, listening):
    source = listening(TcpSource)
    address = "{}:{}".format(*source.bound_address)
    with pytest.raises(InvalidInput, match="line end"):
        running(TcpSink, address).push(Element("a\nb"))
    sink = running(TcpSink, json.dumps({"address": address, "format": "jsonl"}))
    sink.push(Element('{\n"a": 1}'))
    assert pull(source, 1) == ['{"a":1}']


def test_a_payload_that_does_not_fit_into_a_datagram_is_rejected(running, free_port):
    with pytest.raises(InvalidInput, match="do not fit into a datagram"):
        running(UdpSink, f"127.0.0.1:{free_port}").push(Element("x" * 70_000))


def test_a_sink_waits_for_its_server_and_notices_when_it_goes(running, listening, free_port):
    address = f"127.0.0.1:{free_port}"
    sink = running(TcpSink, address)
    sink._retry._backoff._random = lambda: 0.01
    pusher = threading.Thread(target=sink.push, args=(Element("first"),), daemon=True)
    pusher.start()
    eventually(lambda: sink.connection.status.reason == "connection refused")
    server = listening(TcpSource, address=address)
    assert pull(server, 1) == ["first"]
    pusher.join(PATIENCE_S)
    server.teardown()
    again = listening(TcpSource, address=address)
    sink.push(Element("second"))
    assert pull(again, 1) == ["second"]


def test_a_sink_without_a_server_may_be_an_error(running, free_port):
    config = json.dumps({"address": f"127.0.0.1:{free_port}", "on_disconnect": "fail"})
    with pytest.raises(Unavailable, match="connection refused"):
        running(TcpSink, config).push(Element("a"))


def test_a_flow_ends_although_its_sink_has_no_server(free_port):
    sink = TcpSink({"address": f"127.0.0.1:{free_port}"})
    flow = torvyn.Flow(ScriptedSource(["a"]), sink)
    handle = flow.start()
    eventually(lambda: getattr(sink, "connection", None) and sink.connection.status.reason)
    handle.cancel()
    handle.wait()
    check_account(flow.statistics)


def test_a_flow_is_woken_by_what_arrives():
    source, sink = TcpSource({"address": "127.0.0.1:0"}), CollectingSink()
    handle = torvyn.Flow(source, sink).limit(2).start()
    eventually(lambda: hasattr(source, "is_listening") and source.is_listening.is_set())
    with socket.create_connection(source.bound_address[:2]) as sender:
        sender.sendall(b"a\nb\n")
        handle.wait()
    assert [element.text for element in sink.elements] == ["a", "b"]


@pytest.mark.parametrize("error", UNEXPECTED)
@pytest.mark.parametrize("source", [TcpSource, UdpSource])
def test_after_an_unexpected_error_the_source_listens_again(
    running, free_port, monkeypatch, source, error
):
    fail_once(monkeypatch, source, "serve", error)
    listener = running(source, json.dumps({"address": f"127.0.0.1:{free_port}"}))
    eventually(lambda: listener.connection.status.connects == 2)

    sender = TcpSink if source is TcpSource else UdpSink
    running(sender, json.dumps({"address": f"127.0.0.1:{free_port}"})).push(Element("a"))

    assert pull(listener, 1) == ["a"]


def test_a_source_that_was_told_to_fail_fails_after_an_unexpected_error(running, monkeypatch):
    fail_once(monkeypatch, TcpSource, "serve", UNEXPECTED[0])
    config = {"address": "127.0.0.1:0", "on_disconnect": "fail"}
    listener = running(TcpSource, json.dumps(config))

    with pytest.raises(Unavailable, match="an unexpected error: RuntimeError: injected"):
        pull(listener, 1)
