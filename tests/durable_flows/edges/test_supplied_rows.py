"""Rows are complete when all of their elements are settled, in whatever order that happens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torvyn.reactor.carriers.supplied_rows import SuppliedRows


@given(
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_rows_are_complete_with_their_last_element(counts: list[int], order: object) -> None:
    rows, members, first = SuppliedRows(), {}, 0
    for count in counts:
        rows.add(first, first, count)
        members[first] = set(range(first, first + count))
        first += count
    first_to_last = {row: set(left) for row, left in members.items()}
    elements = list(range(first))
    order.shuffle(elements)  # type: ignore[attr-defined]
    for element in elements:
        expected = [row for row, left in members.items() if left == {element}]
        ranges = [(row, max(first_to_last[row])) for row in expected]
        assert rows.done_after([(element, element)]) == ranges
        assert rows.settle([(element, element)]) == expected
        for left in members.values():
            left.discard(element)


def test_a_run_may_cover_parts_of_several_rows() -> None:
    rows = SuppliedRows()
    for first in (0, 10, 20):
        rows.add(first, first, 10)
    assert rows.settle([(5, 24)]) == [10]
    assert rows.settle([(25, 29), (0, 4)]) == [20, 0]


def test_neighbouring_rows_are_one_range() -> None:
    rows = SuppliedRows()
    for first in (0, 10, 20, 30):
        rows.add(first, first, 10)
    assert rows.done_after([(30, 39), (10, 19), (0, 9)]) == [(0, 19), (30, 39)]
