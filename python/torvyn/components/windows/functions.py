"""The functions of windows: `mean(celsius)`, `count`, `p99(latency.ms)`.

A total adds the values of one function, merges with the total of a later part of the same window,
and can be stored as JSON. Values that are missing or null are left out, as in SQL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from torvyn._contract.element import Element
from torvyn.components.json_fields import MISSING, get_field
from torvyn.errors import InvalidInput

_CALL: Final = re.compile(r"\s*([a-z]+[0-9.]*)\s*(?:\(([^()]*)\))?\s*")
_PERCENTILE: Final = re.compile(r"p([0-9]{1,2}(?:\.[0-9]+)?|100)")


class Total:
    """What one function knows about the values so far. `first` to `last` are by event time."""

    __slots__ = ("value",)

    is_numeric: ClassVar[bool] = True
    keeps_values: ClassVar[bool] = False
    """Whether it keeps every value, so that its memory grows with the window."""

    def __init__(self, state: Any = None) -> None:
        self.value = state

    def add(self, value: Any, time_ns: int) -> None:
        raise NotImplementedError

    def merge(self, later: Any) -> None:
        raise NotImplementedError

    def result(self) -> Any:
        return self.value

    def state(self) -> Any:
        """What `__init__` takes to continue, as JSON."""
        return self.value


class Count(Total):
    __slots__ = ()
    is_numeric = False

    def add(self, value: Any, time_ns: int) -> None:
        self.value = (self.value or 0) + 1

    def merge(self, later: Any) -> None:
        self.value = (self.value or 0) + (later.value or 0)

    def result(self) -> int:
        return self.value or 0


class Sum(Total):
    __slots__ = ()

    def add(self, value: Any, time_ns: int) -> None:
        self.value = value if self.value is None else self.value + value

    def merge(self, later: Any) -> None:
        if later.value is not None:
            self.add(later.value, 0)

    def result(self) -> Any:
        return _finite(self.value)


class Mean(Total):
    __slots__ = ("count",)

    def __init__(self, state: Any = None) -> None:
        self.value, count = state or (0, 0)
        self.count: int = count

    def add(self, value: Any, time_ns: int) -> None:
        self.value += value
        self.count += 1

    def merge(self, later: Any) -> None:
        self.value += later.value
        self.count += later.count

    def result(self) -> float | None:
        try:
            return _finite(self.value / self.count) if self.count else None
        except OverflowError:
            return None

    def state(self) -> Any:
        return self.value, self.count


class Min(Sum):
    __slots__ = ()

    def add(self, value: Any, time_ns: int) -> None:
        if self.value is None or value < self.value:
            self.value = value


class Max(Sum):
    __slots__ = ()

    def add(self, value: Any, time_ns: int) -> None:
        if self.value is None or value > self.value:
            self.value = value


class First(Total):
    __slots__ = ("time_ns",)
    is_numeric = False

    def __init__(self, state: Any = None) -> None:
        self.value, time_ns = state or (None, None)
        self.time_ns: int | None = time_ns

    def add(self, value: Any, time_ns: int) -> None:
        if self.time_ns is None or time_ns < self.time_ns:
            self.value, self.time_ns = value, time_ns

    def merge(self, later: Any) -> None:
        if later.time_ns is not None:
            self.add(later.value, later.time_ns)

    def state(self) -> Any:
        return self.value, self.time_ns


class Last(First):
    __slots__ = ()

    def add(self, value: Any, time_ns: int) -> None:
        if self.time_ns is None or time_ns >= self.time_ns:
            self.value, self.time_ns = value, time_ns


class List(Total):
    __slots__ = ()
    is_numeric = False
    keeps_values = True

    def __init__(self, state: Any = None) -> None:
        self.value = [] if state is None else list(state)

    def add(self, value: Any, time_ns: int) -> None:
        self.value.append(value)

    def merge(self, later: Any) -> None:
        self.value += later.value


class Percentile(List):
    """The smallest value that so many percent of the values do not exceed."""

    __slots__ = ("percent",)
    is_numeric = True

    def __init__(self, state: Any = None, percent: float = 50.0) -> None:
        super().__init__(state)
        self.percent = percent

    def result(self) -> Any:
        if not self.value:
            return None
        rank = math.ceil(self.percent / 100 * len(self.value))
        return sorted(self.value)[max(rank, 1) - 1]


FUNCTIONS: Final[dict[str, type[Total]]] = {
    "count": Count,
    "sum": Sum,
    "mean": Mean,
    "min": Min,
    "max": Max,
    "first": First,
    "last": Last,
    "list": List,
}


@dataclass(frozen=True, slots=True)
class Column:
    """One value of the result: its name, its function and the field it is computed from."""

    name: str
    total: type[Total]
    field: str
    percent: float | None = None
    is_required: bool = False
    """Whether an element without the field is rejected, instead of left out."""

    def new(self, state: Any = None) -> Total:
        if self.percent is not None:
            return Percentile(state, self.percent)
        return self.total(state)


def parse_column(name: str, text: str) -> Column:
    """`"mean(celsius)"` as a column; raises `ValueError`."""
    match = _CALL.fullmatch(text)
    if match is None:
        raise ValueError(f"`{name}` is {text!r}; write a function of a field: `mean(celsius)`")
    function, field = match.group(1), (match.group(2) or "").strip()
    if function in FUNCTIONS:
        return Column(name, FUNCTIONS[function], field)
    percentile = _PERCENTILE.fullmatch(function)
    if percentile is None:
        known = ", ".join(f"`{known}`" for known in FUNCTIONS)
        raise ValueError(f"`{name}`: there is no function `{function}`; there are {known}, `p99`")
    return Column(name, Percentile, field, float(percentile.group(1)))


class Reader:
    """Reads the values of the columns from an element, each field once."""

    def __init__(self, columns: Sequence[Column]) -> None:
        used = [column for column in columns if column.total is not Count or column.field]
        fields = dict.fromkeys(column.field for column in used)
        self.needs_record = any(fields)
        self._fields = [
            (
                field,
                "." not in field,
                any(column.total.is_numeric for column in used if column.field == field),
                any(column.is_required for column in used if column.field == field),
            )
            for field in fields
        ]
        positions = {field: position for position, field in enumerate(fields)}
        self.positions = [positions[column.field] if column in used else None for column in columns]
        """For each column, the position of its value; None for a count of elements."""
        self._only_field = ""
        if len(self._fields) == 1 and self._fields[0][0] and self._fields[0][1]:
            # Most windows are over one number, and most numbers are floats.
            self._only_field = self._fields[0][0]

    def read(self, record: dict[str, Any], element: Element) -> list[Any]:
        """The values by position; None where the element has none. Raises `InvalidInput`."""
        if self._only_field:
            number = record.get(self._only_field)
            if type(number) is float and -1e300 <= number <= 1e300:
                return [number]
        values = []
        for field, is_plain, is_numeric, is_required in self._fields:
            if not field:
                values.append(_parse_number(element.text))
                continue
            value = record.get(field, MISSING) if is_plain else get_field(record, field)
            if value is MISSING or value is None:
                if is_required:
                    raise InvalidInput(f"the field `{field}` is missing")
                value = None
            elif is_numeric:
                value = _number(field, value)
            values.append(value)
        return values


def _number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"the field `{field}` is not a number: {value!r:.60}")
    return _usable(value)


def _parse_number(text: str) -> float:
    for parse in (int, float):
        try:
            return _usable(parse(text.replace("_", "?")))
        except ValueError:
            continue
    raise InvalidInput(f"the text is not a number: {text!r:.60}")


def _usable(number: float) -> float:
    """The number, if sums and means of it stay finite; integers stay exact."""
    if not -1e300 <= number <= 1e300:
        raise InvalidInput(f"the number is not finite or too large: {number!r:.60}")
    return number


def _finite(value: Any) -> Any:
    """The value, or None if it is too large for JSON."""
    try:
        return value if value is None or math.isfinite(value) else None
    except OverflowError:
        return None
