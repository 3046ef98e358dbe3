"""Event streams by the rules of the HTML standard: its examples, its corners, our limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn.errors import InvalidInput
from torvyn.protocol import EventParser

Seen = list[tuple[str, str, str]]


def seen(*pieces: bytes) -> Seen:
    parser = EventParser()
    events = [event for piece in pieces for event in parser.put(piece)]
    return [(event.event, event.data, event.id) for event in events]


def messages(*data: str) -> Seen:
    return [("message", text, "") for text in data]


# The examples of the standard, then what it says in words.
CASES: dict[str, tuple[bytes, Seen]] = {
    "data on several lines": (b"data: YHOO\ndata: +2\ndata: 10\n\n", messages("YHOO\n+2\n10")),
    "comment, ids, and no end": (
        b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event",
        [("message", "first event", "1"), ("message", "second event", "")],
    ),
    "empty data and an event that is not ended": (
        b"data\n\ndata\ndata\n\ndata:",
        messages("", "\n"),
    ),
    "one space after the colon": (b"data:test\n\ndata: test\n\n", messages("test", "test")),
    "two spaces": (b"data:  test\n\n", messages(" test")),
    "types": (
        b"event: add\ndata: 73857293\n\ndata: x\n\n",
        [("add", "73857293", ""), ("message", "x", "")],
    ),
    "a type without data is forgotten": (b"event: add\n\ndata: x\n\n", messages("x")),
    "byte order mark": (b"\xef\xbb\xbfdata: x\n\n", messages("x")),
    "one byte order mark only": (b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n", []),
    "carriage returns": (b"data: a\r\rdata: b\r\r", messages("a", "b")),
    "mixed ends of lines": (b"data: a\r\n\ndata: b\n\rdata: c\r\n\r\n", messages("a", "b", "c")),
    "id with NUL": (b"id: 1\nid: a\x00b\ndata: x\n\n", [("message", "x", "1")]),
    "id stays": (
        b"id: 7\ndata: a\n\ndata: b\n\n",
        [("message", "a", "7"), ("message", "b", "7")],
    ),
    "unknown and misspelt fields": (b"foo: bar\nDATA: x\n data: y\ndata : z\n\n", []),
    "bad bytes": (b"data: a\xff\xe2\x82\n\n", messages("a\ufffd\ufffd")),
    "no line of Unicode ends here": (
        "data: a\u2028b\x85c\x0bd\n\n".encode(),
        messages("a\u2028b\x85c\x0bd"),
    ),
    "a heartbeat between two fields": (b"id: 1\n: hb\ndata: x\n\n", [("message", "x", "1")]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_stream_gives_the_events_of_the_standard(name: str) -> None:
    stream, events = CASES[name]

    assert seen(stream) == events


@pytest.mark.parametrize("name", CASES)
def test_a_stream_gives_them_byte_by_byte_too(name: str) -> None:
    stream, events = CASES[name]

    assert seen(*(bytes([byte]) for byte in stream)) == events


@given(
    st.lists(
        st.sampled_from(
            [b"\r", b"\n", b"\r\n", b"data: ", b"data", b":", b"id: 4", b"event: e", b"\xf0\x9f"]
        )
    ).map(b"".join),
    st.integers(0, 60),
)
def test_where_a_stream_is_cut_does_not_matter(stream: bytes, at: int) -> None:
    assert seen(stream[:at], stream[at:]) == seen(stream)


def test_the_time_to_wait_is_digits_or_nothing() -> None:
    parser = EventParser()

    parser.put(b"retry: 10x\nretry:\n")
    assert parser.retry_ms is None
    parser.put(b"retry: 1500\nretry: -1\n")
    assert parser.retry_ms == 1500


def test_the_id_to_come_back_with_counts_from_the_blank_line_on() -> None:
    parser = EventParser()

    parser.put(b"id: 5-1\n")
    assert parser.last_event_id == ""
    parser.put(b"\n")
    assert parser.last_event_id == "5-1"


def test_an_unfinished_event_can_be_seen() -> None:
    parser = EventParser()

    assert parser.put(b"data: ab\nda") == []
    assert parser.held_bytes == len("ab\n") + len("da")
    parser.finish()


def test_events_before_a_line_that_is_too_long_are_given_first() -> None:
    parser = EventParser(line_limit=10)

    assert [event.data for event in parser.put(b"data: a\n\n" + b"x" * 11)] == ["a"]
    with pytest.raises(InvalidInput, match="more than 10 bytes") as caught:
        parser.put(b"\n")
    assert caught.value.code == "protocol.line-too-long"
    with pytest.raises(InvalidInput):
        parser.finish()


def test_many_short_lines_do_not_make_an_endless_event() -> None:
    parser = EventParser(event_limit=100)

    with pytest.raises(InvalidInput) as caught:
        parser.put(b"data: 0123456789\n" * 10)
    assert caught.value.code == "protocol.event-too-large"
