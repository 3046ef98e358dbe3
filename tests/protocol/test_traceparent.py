"""`traceparent`, from strangers and to them."""

from __future__ import annotations

import pytest

from torvyn.protocol.traceparent import begin

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(("flags", "is_sampled"), [("00", False), ("01", True), ("03", True)])
def test_a_span_of_our_own_stands_below_the_one_that_asked(flags: str, is_sampled: bool) -> None:
    made = begin(f"00-{TRACE}-{PARENT}-{flags}")

    assert (made.trace_id, made.parent_id, made.is_sampled) == (TRACE, PARENT, is_sampled)
    assert made.span_id != PARENT
    assert made.traceparent == f"00-{TRACE}-{made.span_id}-0{int(is_sampled)}"
    assert begin(made.traceparent).parent_id == made.span_id


def test_a_later_version_may_say_more() -> None:
    assert begin(f"01-{TRACE}-{PARENT}-01-what-ever").trace_id == TRACE


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE}-{PARENT}-01-more",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE[:-1]}g-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"01-{TRACE}-{PARENT}-01-{'x' * 1000}",
        f"00-{TRACE}-{PARENT}-01\r\nx: y",
        f"00-{TRACE}-{PARENT}-٠١",
    ],
)
def test_what_is_wrong_is_ignored_and_a_trace_begins(header: str) -> None:
    made = begin(header)

    assert made.trace_id != TRACE
    assert (made.parent_id, made.is_sampled) == ("", False)
    assert len(made.traceparent) == 55


def test_the_rate_says_how_many_traces_that_begin_here_are_sampled() -> None:
    sampled = sum(begin(None, 0.25).is_sampled for _ in range(4000))

    assert 800 < sampled < 1200  # a thousand, and seven times the spread on both sides
    assert not any(begin(None, 0.0).is_sampled for _ in range(100))
    assert all(begin(None, 1.0).is_sampled for _ in range(100))


def test_who_asks_has_decided_already() -> None:
    assert not begin(f"00-{TRACE}-{PARENT}-00", 1.0).is_sampled
    assert begin(f"00-{TRACE}-{PARENT}-01", 0.0).is_sampled
