"""The WebSocket protocol, frame by frame: what libraries never send, and how it is answered."""

from __future__ import annotations

import pytest
from live_server import PATIENCE_S, served, wait_for
from raw_websocket import (
    BINARY,
    CLOSE,
    FIRST,
    LAST,
    MORE,
    PING,
    PONG,
    TEXT,
    accepted,
    frame,
    said,
)
from watched_engines import Watched

from torvyn.engine import Scripted

ASKED = '{"type":"ping"}'
ANSWERED = b'{"type":"pong"}'
LIMIT = 1000
PROTOCOL, INVALID, TOO_LARGE, POLICY = 1002, 1007, 1009, 1008


@pytest.mark.parametrize(
    "parts",
    [
        [frame(TEXT, ASKED)],
        [frame(FIRST, ASKED[:3]), frame(LAST, ASKED[3:])],
        [frame(FIRST), frame(MORE, ASKED), frame(LAST)],
        [frame(FIRST, char) if not place else frame(MORE, char) for place, char in enumerate(ASKED)]
        + [frame(LAST)],
        [frame(PONG, "unasked"), frame(TEXT, ASKED)],
        [frame(TEXT, ASKED, mask=b"\0\0\0\0")],
    ],
)
def test_a_message_may_come_in_any_parts(parts: list[bytes]) -> None:
    with served(Scripted("x")) as server, accepted(server) as raw:
        raw.send(*parts)
        assert raw.read() == (TEXT, ANSWERED)


def test_a_message_may_come_byte_by_byte() -> None:
    with served(Scripted("x")) as server, accepted(server) as raw:
        for byte in frame(FIRST, ASKED[:5]) + frame(PING, "between") + frame(LAST, ASKED[5:]):
            raw.send(bytes((byte,)))
        assert raw.read() == (PONG, b"between")
        assert raw.read() == (TEXT, ANSWERED)


def test_frames_may_follow_the_handshake_in_one_packet() -> None:
    with served(Scripted("x")) as server, accepted(server, frame(TEXT, ASKED)) as raw:
        assert raw.read() == (TEXT, ANSWERED)


@pytest.mark.parametrize("data", ["", "x" * 125])
def test_a_ping_is_answered_with_its_data(data: str) -> None:
    with served(Scripted("x")) as server, accepted(server) as raw:
        raw.send(frame(PING, data))
        assert raw.read() == (PONG, data.encode())


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ([frame(TEXT, "a", mask=None)], PROTOCOL),
        ([frame(TEXT | 0x40, "a")], PROTOCOL),
        ([frame(TEXT | 0x20, "a")], PROTOCOL),
        ([frame(TEXT | 0x10, "a")], PROTOCOL),
        ([frame(0x83, "a")], PROTOCOL),
        ([frame(0x87, "a")], PROTOCOL),
        ([frame(0x8B, "a")], PROTOCOL),
        ([frame(0x8F, "a")], PROTOCOL),
        ([frame(PING & 0x7F, "a")], PROTOCOL),
        ([frame(PING, "x" * 126)], PROTOCOL),
        ([frame(CLOSE, "x" * 126)], PROTOCOL),
        ([frame(LAST, "a")], PROTOCOL),
        ([frame(FIRST, "a"), frame(TEXT, "b")], PROTOCOL),
        ([frame(CLOSE, b"\x03")], PROTOCOL),
        ([frame(TEXT, b"\xce\xba\xed\xa0\x80")], INVALID),
        ([frame(FIRST, b"\xf4"), frame(LAST, b"\x90\x80\x80")], INVALID),
        ([frame(CLOSE, b"\x03\xe8\xff")], INVALID),
        ([frame(TEXT, "x" * LIMIT + "x")], TOO_LARGE),
        ([frame(FIRST, "x" * LIMIT), frame(LAST, "x")], TOO_LARGE),
        ([frame(BINARY, b"x" * 100_000)], TOO_LARGE),
        ([b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"], TOO_LARGE),
    ],
)
def test_a_client_that_breaks_a_rule_is_told_which(sent: list[bytes], code: int) -> None:
    with served(Scripted("x"), max_body_bytes=LIMIT) as server, accepted(server) as raw:
        raw.send(*sent)
        assert raw.closed_with() == code
        raw.sock.close()
        wait_for(lambda: not server.application.running.channels)


def test_what_came_before_a_broken_frame_is_answered_first() -> None:
    with served(Scripted("x")) as server, accepted(server) as raw:
        raw.send(frame(TEXT, ASKED), frame(0x83, "a"), frame(PING, "late"))
        assert raw.read() == (TEXT, ANSWERED)
        assert raw.closed_with() == PROTOCOL


def test_a_character_may_be_split_between_frames() -> None:
    with served(Scripted("x")) as server, accepted(server) as raw:
        euro = "€".encode()
        raw.send(frame(FIRST, b'{"type":"' + euro[:1]), frame(LAST, euro[1:] + b'"}'))
        assert "€" in raw.hear()["message"]


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", b""),
        (b"\x03\xe8", b"\x03\xe8"),
        (b"\x03\xe9bye", b"\x03\xe9bye"),
        (b"\x0b\xb8", b"\x0b\xb8"),
        (b"\x13\x87", b"\x13\x87"),
        *((code.to_bytes(2), b"\x03\xeaProtocol violation") for code in (0, 999, 1004, 1005)),
        *((code.to_bytes(2), b"\x03\xeaProtocol violation") for code in (1006, 1016, 2999, 5000)),
    ],
)
def test_a_close_is_answered_and_ends_the_connection(sent: bytes, answered: bytes) -> None:
    with served(Scripted("x")) as server, accepted(server) as raw:
        raw.send(frame(CLOSE, sent), frame(TEXT, ASKED))
        assert raw.read() == (CLOSE, answered)
        assert raw.sock.recv(1) == b""
        wait_for(lambda: not server.application.running.channels)


def test_what_was_sent_before_a_close_arrives_before_its_answer() -> None:
    with served(Scripted("x")) as server, accepted(server) as raw:
        raw.send(frame(TEXT, ASKED))
        assert raw.read() == (TEXT, ANSWERED)
        raw.send(frame(PING, "last"), frame(CLOSE, b"\x03\xe8"))
        assert [raw.read() for _ in range(2)] == [(PONG, b"last"), (CLOSE, b"\x03\xe8")]


@pytest.mark.parametrize(
    "begun", [frame(FIRST, "a"), frame(TEXT, ASKED)[:-1], b"\x81", frame(FIRST) + frame(PING)]
)
def test_a_message_that_is_not_completed_closes_the_socket(begun: bytes) -> None:
    with served(Scripted("x"), body_timeout_s=0.2) as server, accepted(server) as raw:
        raw.send(begun)
        assert raw.closed_with() == POLICY


def test_a_socket_that_is_idle_is_not_slow() -> None:
    settings = {"body_timeout_s": 0.1, "heartbeat_s": 0.3}
    with served(Scripted("x"), **settings) as server, accepted(server, frame(TEXT, ASKED)) as raw:
        kinds = [raw.hear()["type"] for _ in range(3)]
    assert kinds == ["pong", "heartbeat", "heartbeat"]


def test_a_client_that_does_not_answer_a_close_is_dropped() -> None:
    settings = {"body_timeout_s": 0.2, "shutdown_grace_s": 5.0}
    with served(Scripted("x"), **settings) as server, accepted(server) as raw:
        server.loop.call_soon_threadsafe(server._ending.set)
        assert raw.closed_with() == 1001


@pytest.mark.parametrize("is_reset", [True, False])
def test_a_client_that_leaves_without_a_word_stops_its_engines(is_reset: bool) -> None:
    engine = Watched(pause_s=60)
    with served(engine, first_byte_wait_s=0.0) as server:
        with accepted(server, said(type="start", stream_id="s", prompt="Hi")) as raw:
            assert raw.hear()["type"] == "start"
            if is_reset:
                raw.reset()
        assert engine.was_left.wait(PATIENCE_S)
        wait_for(lambda: not server.application.running.channels)
