"""A set of numbers that is kept as ranges is a set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torvyn._durable.disk.backend import NumberRanges

RANGES = st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda r: (r[0], r[0] + r[1]))
EMPTY = st.integers(0, 40).map(lambda number: (number, number - 3))


@given(steps=st.lists(st.tuples(st.booleans(), RANGES), max_size=20), asked=RANGES | EMPTY)
def test_ranges_have_the_numbers_of_a_set(
    steps: list[tuple[bool, tuple[int, int]]], asked: tuple[int, int]
) -> None:
    ranges, model = NumberRanges(), set[int]()
    for is_added, (first, last) in steps:
        (ranges.add if is_added else ranges.remove)(first, last)
        numbers = set(range(first, last + 1))
        model = model | numbers if is_added else model - numbers
    found = [number for first, last in ranges for number in range(first, last + 1)]
    assert found == sorted(model)
    assert all(low[1] + 1 < high[0] for low, high in zip(ranges, [*ranges][1:], strict=False))
    expected = set(range(asked[0], asked[1] + 1))
    gaps = [n for first, last in ranges.missing(*asked) for n in range(first, last + 1)]
    assert gaps == sorted(expected - model)
    assert ranges.count(*asked) == len(expected & model)
    shared = [n for first, last in ranges.common(*asked) for n in range(first, last + 1)]
    assert shared == sorted(expected & model)
