"""How long an upstream wants to be left alone: seconds, or until a date."""

from __future__ import annotations

import email.utils
import time
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_upstream import HELLO, running, says, status
from torvyn._io.backoff import LONGEST_PAUSE_S, asked_pause_s, retry_after_s
from torvyn.engine.openai.engine import OpenAI
from torvyn.errors import TorvynError

THEN = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        ("-1", 0.0),
        (THEN, 10.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 10.0),
        ("Sun Nov  6 08:49:37 1994", 10.0),
        ("Sun, 06 Nov 1994 08:49:00 GMT", 0.0),
        ("", None),
        (None, None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Sun, 66 Nov 1994 08:49:37 GMT", None),
    ],
)
def test_seconds_and_every_form_of_a_date(header, seconds):
    assert retry_after_s(header, "Sun, 06 Nov 1994 08:49:27 GMT") == seconds


def test_without_the_upstreams_clock_ours_is_looked_at(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 784111777.0 - 4)

    assert retry_after_s(THEN) == 4.0
    assert retry_after_s(THEN, "no date") == 4.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "-1"}, 0.0),
        ({"retry-after-ms": "nan", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": THEN, "retry-after": "2"}, 2.0),
        ({}, None),
    ],
)
def test_milliseconds_are_more_exact(headers, seconds):
    assert asked_pause_s(headers) == seconds


FAR: Final = ("99999999999", "1e300", "Fri, 31 Dec 9999 23:59:59 GMT")
NUMBERS = st.floats().map(repr) | st.integers(-(10**25), 10**25).map(str)


@given(NUMBERS | st.sampled_from(FAR) | st.text(max_size=40))
def test_a_clock_can_wait_for_whatever_a_header_says(header):
    in_ms = {"retry-after-ms": header}
    for seconds in (retry_after_s(header), asked_pause_s(in_ms)):
        assert seconds is None or 0.0 <= seconds <= LONGEST_PAUSE_S


@pytest.mark.parametrize("header", FAR)
def test_a_pause_that_is_too_long_is_shortened_and_logged(header, caplog):
    assert retry_after_s(header) == LONGEST_PAUSE_S
    assert "a server asks for a pause" in caplog.text


def date(from_now_s: float) -> str:
    return email.utils.formatdate(time.time() + from_now_s, usegmt=True)


def test_a_date_that_has_passed_is_waited_for_no_longer():
    busy = status(429, "", f"Retry-After: {date(-60)}")
    with (
        running(busy, says(*HELLO)) as upstream,
        OpenAI(base_url=upstream.url, model="m", retries=1) as engine,
    ):
        assert engine.complete("x").text == "Hello"


def test_a_date_far_away_is_not_waited_for():
    busy = status(503, "", f"Retry-After: {date(3600)}")
    with (
        running(busy, says(*HELLO)) as upstream,
        OpenAI(base_url=upstream.url, model="m", retries=5) as engine,
        pytest.raises(TorvynError),
    ):
        engine.complete("x")

    assert len(upstream.exchanges) == 1
