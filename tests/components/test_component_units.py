"""Durations and sizes: valid texts, and the errors for others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn._contract.units import DURATION_UNITS, SIZE_UNITS, parse_duration_s, parse_size_bytes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("100us", 0.0001),
        ("100ms", 0.1),
        ("1.5s", 1.5),
        ("2 m", 120.0),
        ("1h", 3600.0),
        ("0ms", 0.0),
        (0.25, 0.25),
        (3, 3.0),
    ],
)
def test_a_duration_is_read_exactly(text, seconds):
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("1KiB", 1024), ("0.5KiB", 512), ("3 MiB", 3 << 20), ("7B", 7), (9, 9)]
)
def test_a_size_is_read_exactly(text, size):
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("100", 'has no unit; the units are us, ms, s, m, h; write "100s"?'),
        ("5sec", 'did you mean "5s"?'),
        ("5MS", 'did you mean "5ms"?'),
        ("5 fortnights", "the units are us, ms, s, m, h"),
        ("soon", "is not a duration"),
        ("-1s", "is not a duration"),
        ("9" * 5000 + "s", "is not a duration"),
        ("", "is not a duration"),
        (-1, "cannot be -1"),
        (float("nan"), "cannot be nan"),
        (True, "not bool"),
        (None, "not NoneType"),
    ],
)
def test_a_wrong_duration_is_explained(text, message):
    with pytest.raises(ValueError, match="duration") as caught:
        parse_duration_s(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1kb", 'did you mean "1KiB"?'),
        ("1mib", 'did you mean "1MiB"?'),
        ("64", 'write "64B"?'),
        ("0.3B", "not a whole number of bytes"),
        (1.5, "not a whole number of bytes"),
    ],
)
def test_a_wrong_size_is_explained(text, message):
    with pytest.raises(ValueError, match="size") as caught:
        parse_size_bytes(text)
    assert message in str(caught.value)


@given(st.integers(0, 10**9), st.sampled_from(DURATION_UNITS))
def test_whole_durations_grow_with_their_number(number, unit):
    assert parse_duration_s(f"{number + 1}{unit}") > parse_duration_s(f"{number}{unit}") >= 0


@given(st.integers(0, 10**9), st.sampled_from(SIZE_UNITS))
def test_white_space_around_a_size_changes_nothing(number, unit):
    assert parse_size_bytes(f" {number} {unit} ") == parse_size_bytes(f"{number}{unit}")
