"""A pane: the totals of one stretch of time. Windows that overlap share panes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torvyn.components.windows.functions import Column, Reader, Total


class Layout:
    """The columns of a window, and how panes store them. Shared by all panes of a node."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        self.reader = Reader(columns)
        self.keeps_values = sum(column.total.keeps_values for column in columns)
        """How many columns keep every value."""
        self.inputs = tuple(self.reader.positions)

    def pane(self, state: Any = None, first: int = 0) -> Pane:
        """A new pane whose first element has the index `first`, or one from a stored state."""
        if state is None:
            return Pane(0, [column.new() for column in self.columns], self.inputs, first)
        count, totals = state
        made = [column.new(total) for column, total in zip(self.columns, totals, strict=True)]
        return Pane(count, made, self.inputs)


class Pane:
    __slots__ = ("count", "first", "inputs", "totals")

    def __init__(
        self, count: int, totals: list[Total], inputs: tuple[int | None, ...], first: int = 0
    ) -> None:
        self.count = count
        self.first = first
        """The index of its oldest element; 0 after a restart, when it is not known."""
        self.totals = totals
        self.inputs = inputs

    def add(self, values: list[Any], time_ns: int) -> None:
        self.count += 1
        # `strict` would cost as much as adding a value.
        for total, position in zip(self.totals, self.inputs):  # noqa: B905
            value = 1 if position is None else values[position]
            if value is not None:
                total.add(value, time_ns)

    def merge(self, later: Pane) -> None:
        self.count += later.count
        self.first = min(self.first, later.first)
        for total, other in zip(self.totals, later.totals, strict=True):
            total.merge(other)

    def state(self) -> Any:
        return self.count, [total.state() for total in self.totals]
