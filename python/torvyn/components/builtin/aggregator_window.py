"""`window`: computes one value per tumbling window of elements.

Time is the elements' timestamp, set at the source. A window closes when a later element arrives or
the input ends. Empty windows are not sent. A late element counts in the open window.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from torvyn.components.config import parse_config, wrong_config
from torvyn.components.json_fields import JSON_TYPE, MISSING, get_field, parse_object, write_json
from torvyn.components.spec import Option, Spec
from torvyn.contract import Aggregator, Element, Output
from torvyn.errors import InvalidInput

SPEC = Spec(
    name="window",
    role="aggregator",
    summary="Computes one value per tumbling window of elements, by count or by time.",
    options=(
        Option("size", "integer", 0, "The number of elements per window.", minimum=0),
        Option("every", "duration", 0.0, "The length of a window, by the elements' timestamps."),
        Option(
            "function",
            "choice",
            "count",
            "The function over the numbers in a window.",
            choices=("count", "sum", "mean", "min", "max", "last"),
        ),
        Option("field", "text", "", "A dotted path to the number; default: the whole text."),
    ),
    main="size",
    example="""\
[flow.main.nodes.average]
component = "window"
config = { every = "10s", function = "mean", field = "celsius" }
""",
)


class _OpenWindow:
    """The open window. Times are nanoseconds."""

    __slots__ = ("count", "end", "start", "value")

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.count = 0
        self.value: float = 0


class Window(Aggregator):
    spec: ClassVar[Spec] = SPEC
    unit = "windows"

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._size: int = options["size"]
        self._every_ns = round(options["every"] * 1e9)
        self._function: str = options["function"]
        self._field: str = options["field"]
        self._open: _OpenWindow | None = None
        if bool(self._size) == bool(self._every_ns):
            raise wrong_config(
                SPEC,
                "set either `size` or `every`",
                '`every = "10s"` makes windows of ten seconds, `size = 10` of ten elements',
            )

    def ingest(self, element: Element) -> Output | None:
        # Read first: a rejected element must not change the window.
        number = 0 if self._function == "count" else self._number(element)
        if self._size:
            return self._ingest_by_count(element.timestamp_ns, number)
        done = None
        if self._open is not None and element.timestamp_ns >= self._open.end:
            done = self._close(self._open)
        if self._open is None:
            start = element.timestamp_ns - element.timestamp_ns % self._every_ns
            self._open = _OpenWindow(start, start + self._every_ns)
        self._add(self._open, number)
        return done

    def flush(self) -> list[Output]:
        return [] if self._open is None else [self._close(self._open)]

    def _ingest_by_count(self, timestamp_ns: int, number: float) -> Output | None:
        if self._open is None:
            self._open = _OpenWindow(timestamp_ns, timestamp_ns)
        self._open.end = max(self._open.end, timestamp_ns)
        self._add(self._open, number)
        return self._close(self._open) if self._open.count == self._size else None

    def _add(self, window: _OpenWindow, number: float) -> None:
        match self._function:
            case "sum" | "mean":
                number += window.value
            case "min" if window.count:
                number = min(number, window.value)
            case "max" if window.count:
                number = max(number, window.value)
        if not math.isfinite(number):
            raise InvalidInput("the sum of this window is too large")
        window.value = number
        window.count += 1

    def _close(self, window: _OpenWindow) -> Output:
        self._open = None
        value = window.value
        if self._function == "count":
            value = window.count
        elif self._function == "mean":
            value /= window.count
        value_record = {
            "start": window.start,
            "end": window.end,
            "count": window.count,
            "value": value,
        }
        return Output(write_json(value_record), content_type=JSON_TYPE)

    def _number(self, element: Element) -> float:
        if not self._field:
            return _parse_number(element.text)
        value: Any = get_field(parse_object(element), self._field)
        if value is MISSING:
            raise InvalidInput(f"the field `{self._field}` is missing")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidInput(f"the field `{self._field}` is not a number: {value!r:.60}")
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
    if abs(number) > 1e300 or not math.isfinite(number):
        raise InvalidInput(f"the number is not finite or too large: {number!r:.60}")
    return number
