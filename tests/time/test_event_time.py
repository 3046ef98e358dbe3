"""Event time: what is read as a time, and how it is written."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn.components.event_time import parse_time_ns, render_time

SECOND_NS = 1_000_000_000
MOMENT_NS = 1_700_000_000 * SECOND_NS


@pytest.mark.parametrize(
    "value",
    [
        *(1_700_000_000, 1_700_000_000_000, 1_700_000_000_000_000, MOMENT_NS, 1.7e9, 1.7e12),
        *("2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00", "2023-11-14 22:13:20", "1.7e9"),
        *("20231114T221320Z", "1700000000"),
    ],
)
def test_the_same_moment_in_many_forms(value):
    assert parse_time_ns(value) == MOMENT_NS


@pytest.mark.parametrize("value", ["", "noon", None, True, [], {}, float("nan"), 10**40, "1e400"])
def test_what_is_no_time(value):
    with pytest.raises((ValueError, OverflowError)):
        parse_time_ns(value)


@given(st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)), st.integers(-14, 14))
def test_iso_text_in_any_zone_is_exact(moment, hours):
    moment = moment.replace(tzinfo=timezone(timedelta(hours=hours)))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (moment - epoch) // timedelta(microseconds=1)
    assert parse_time_ns(moment.isoformat()) == microseconds * 1000


@given(st.integers(0, 4_000_000_000 * SECOND_NS // 1000).map(lambda n: n * 1000))
def test_a_rendered_time_is_read_back(unix_ns):
    assert parse_time_ns(render_time(unix_ns)) == unix_ns


@given(
    st.integers(200_000_000, 4_000_000_000),
    st.sampled_from([("s", 1), ("ms", 10**3), ("us", 10**6)]),
)
def test_units_are_detected_from_1976_to_2096(second, unit):
    name, factor = unit
    assert parse_time_ns(second * factor) == parse_time_ns(second * factor, name)
