"""Event time: what is read as a time, and how it is written."""

import json
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from torvyn.components.event_time import parse_time_ns, render_time, time_reader

SECOND_NS = 1_000_000_000
MOMENT_NS = 1_700_000_000 * SECOND_NS
UNITS = {"s": SECOND_NS, "ms": 1_000_000, "us": 1_000, "ns": 1}
UNIX_NS = st.integers(200_000_000 * SECOND_NS, 4_000_000_000 * SECOND_NS)
"""From 1976 to 2096: the times whose unit is detected."""


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


NO_TIMES = ["", "noon", None, True, [], {}, 10**40, 1e300, float("nan"), float("inf")]
NO_TIMES += ["nan", "Infinity", "1_700_000_000", "1e400", "-1e99999999", "1e99999999999999999999"]


@pytest.mark.parametrize("value", NO_TIMES)
def test_what_is_no_time(value):
    with pytest.raises((ValueError, OverflowError)):
        parse_time_ns(value)


@given(st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)), st.integers(-14, 14))
def test_iso_text_in_any_zone_is_exact(moment, hours):
    moment = moment.replace(tzinfo=timezone(timedelta(hours=hours)))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (moment - epoch) // timedelta(microseconds=1)
    assert parse_time_ns(moment.isoformat()) == microseconds * 1000


def write(unix_ns: int, unit_ns: int) -> str:
    """The decimal number, with as many digits as needed."""
    whole, rest = divmod(unix_ns, unit_ns)
    digits = len(str(unit_ns)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".") if digits else str(whole)


@given(UNIX_NS, st.sampled_from(list(UNITS)), st.booleans())
def test_text_and_numbers_are_exact_in_every_unit(unix_ns, unit, is_named):
    read = time_reader("at", unit if is_named else "auto")
    text, in_microseconds = write(unix_ns, UNITS[unit]), unix_ns // 1000 * 1000
    number = json.loads(write(in_microseconds, UNITS[unit]))

    assert read({"at": text}) == unix_ns
    assert read({"at": number}) == in_microseconds


@example(1801011200000, "ms")
@given(st.integers(0, 10**14), st.sampled_from(list(UNITS)))
def test_digits_with_a_unit_are_never_a_date(number, unit):
    try:
        expected = parse_time_ns(number, unit)
    except ValueError:
        with pytest.raises(ValueError, match="between the years"):
            parse_time_ns(str(number), unit)
    else:
        assert parse_time_ns(str(number), unit) == expected


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-6e10, max_value=9e10))
def test_a_number_is_read_by_its_shortest_digits(number):
    exact = Fraction(repr(number)) * SECOND_NS
    assert time_reader("at", "s")({"at": number}) == round(exact)


def test_eight_digits_are_a_date_unless_a_unit_is_named():
    assert render_time(parse_time_ns("20270126")) == "2027-01-26T00:00:00Z"
    assert render_time(parse_time_ns("20270126", "s")) == "1970-08-23T14:35:26Z"
    assert render_time(parse_time_ns("1801011200000", "ms")) == "2027-01-27T00:53:20Z"


@given(UNIX_NS)
def test_a_rendered_time_is_read_back(unix_ns):
    assert parse_time_ns(render_time(unix_ns)) == unix_ns


@given(
    st.integers(200_000_000, 4_000_000_000),
    st.sampled_from([("s", 1), ("ms", 10**3), ("us", 10**6)]),
)
def test_units_are_detected_from_1976_to_2096(second, unit):
    name, factor = unit
    assert parse_time_ns(second * factor) == parse_time_ns(second * factor, name)
