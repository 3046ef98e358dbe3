"""Event time: when something happened, as Unix nanoseconds, read from a field or taken on arrival.

The wall clock of a device may be wrong, and it may be set while a flow runs. So durations are
measured with the flow's own time, which never goes back, and `WallClock` adds the difference
between the two. It notices when the wall clock was set.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final

from torvyn._contract.element import Element
from torvyn._contract.roles import Component
from torvyn.components.json_fields import MISSING, get_field
from torvyn.components.spec import Option
from torvyn.errors import InvalidInput

logger = logging.getLogger("torvyn.time")

SECOND_NS: Final = 1_000_000_000
STEP_NS: Final = SECOND_NS
"""A larger change of the wall clock counts as set; a smaller one is a correction by NTP."""
CHECK_NS: Final = SECOND_NS
"""How often the wall clock is compared with the flow's time."""
PLAUSIBLE_NS: Final = 1_735_689_600 * SECOND_NS
"""The start of 2025. A wall clock before it was never set, and says nothing about the future."""
EVENT_TIME: Final = "event_time_ns"
"""The attribute of an element that carries its own time of arrival, such as one read from disk."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_NS: Final = int(datetime.min.replace(tzinfo=UTC).timestamp()) * SECOND_NS
_LAST_NS: Final = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * SECOND_NS
_UNITS: Final = {"s": SECOND_NS, "ms": 1_000_000, "us": 1_000, "ns": 1}
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COMPACT_DATE: Final = re.compile("[0-9]{8}")
_BELOW_MICROSECONDS: Final = re.compile("[.,][0-9]{6}([0-9]{1,3})")
_DECIMAL: Final = Context(prec=64, traps=[])
"""More digits than any time in nanoseconds has; what is too large becomes infinite."""
_EXACT_S: Final = float(2**33)
"""Floats below it are less than a microsecond apart."""

TIME_OPTIONS: Final = (
    Option("time", "text", "", "A dotted path to the event time; default: the time of arrival."),
    Option(
        "time_unit",
        "choice",
        "auto",
        "The unit of an event time that is a number, or text with one, counted from 1970. `auto` "
        "detects it by its size. Other text is read as ISO 8601; without a zone it is UTC.",
        choices=("auto", *_UNITS),
    ),
    Option(
        "lateness",
        "duration",
        0.0,
        "How much older than the newest element of its key an element may be.",
    ),
    Option(
        "max_future",
        "duration",
        300.0,
        "An element further ahead of the wall clock is not used: a device's clock is wrong.",
    ),
)
"""The options of components that work with event time."""


def parse_time_ns(value: Any, unit: str = "auto") -> int:
    """Unix nanoseconds from ISO 8601 text or a number; raises `ValueError`."""
    if isinstance(value, str):
        text = value.strip()
        return _parse_number(text, unit) if _is_number(text, unit) else _parse_iso(text)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("it is neither a number nor text")
    if isinstance(value, int):
        return _within_years(value * (_UNITS.get(unit) or _detect(value)))
    # The digits that were written; the float itself has other ones behind them.
    return _parse_number(float.__repr__(value), unit)


def _is_number(text: str, unit: str) -> bool:
    """With a unit, digits are never a date; without one, eight of them are."""
    if _NUMBER.fullmatch(text) is None:
        return False
    return unit != "auto" or _COMPACT_DATE.fullmatch(text) is None


def _parse_number(text: str, unit: str) -> int:
    number = _DECIMAL.create_decimal(text)
    if not number.is_finite():
        raise ValueError("it is not a finite number")
    factor = _UNITS.get(unit) or _detect(number)
    return _within_years(_DECIMAL.multiply(number, factor))


def _within_years(nanoseconds: int | Decimal) -> int:
    if not _FIRST_NS <= nanoseconds < _LAST_NS:
        raise ValueError("it is not between the years 1 and 9999")
    return round(nanoseconds)


def _parse_iso(text: str) -> int:
    moment = datetime.fromisoformat(text)
    since = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH
    nanoseconds = (since.days * 86_400 + since.seconds) * SECOND_NS + since.microseconds * 1_000
    # A datetime has no digits below the microseconds.
    rest = _BELOW_MICROSECONDS.search(text)
    return nanoseconds + (int(rest[1].ljust(3, "0")) if rest else 0)


def _detect(number: int | Decimal) -> int:
    """Seconds reach 1e11 in the year 5138, and milliseconds were there in 1973."""
    for unit_ns, limit in ((SECOND_NS, 10**11), (1_000_000, 10**14), (1_000, 10**17)):
        if -limit < number < limit:
            return unit_ns
    return 1


def render_time(unix_ns: int) -> str:
    """ISO 8601 in UTC, with as many digits as needed."""
    seconds, fraction = divmod(unix_ns, SECOND_NS)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{fraction:09d}".rstrip("0").rstrip(".") + "Z"


def time_reader(field: str, unit: str) -> Callable[[dict[str, Any]], int]:
    """A function that reads the event time of a record; it raises `InvalidInput`."""
    is_plain, takes_seconds = "." not in field, unit in ("auto", "s")

    def read(record: dict[str, Any]) -> int:
        value = record.get(field, MISSING) if is_plain else get_field(record, field)
        if takes_seconds and type(value) is float and 0.0 < value < _EXACT_S:
            # Nearly all are whole microseconds, and no two of those are the same float.
            microseconds = round(value * 1e6)
            if microseconds / 1e6 == value:
                return microseconds * 1_000
        if value is MISSING:
            raise InvalidInput(f"the time field `{field}` is missing")
        try:
            return parse_time_ns(value, unit)
        except (ValueError, OverflowError) as error:
            message = f"the field `{field}` is not a time: {value!r:.60}: {error}"
            raise InvalidInput(message) from error

    return read


class WallClock:
    """Turns the flow's time into Unix time, and counts how often the wall clock was set."""

    __slots__ = ("_checked_ns", "_component", "_offset_ns", "steps")

    def __init__(self, component: Component) -> None:
        self._component = component
        self._offset_ns = 0
        self._checked_ns: int | None = None
        self.steps = 0

    def at(self, monotonic_ns: int) -> int:
        """The Unix time at a moment of the flow's time, as the wall clock stands now."""
        checked_ns = self._checked_ns
        if checked_ns is None or monotonic_ns - checked_ns >= CHECK_NS:
            self.check()
        return monotonic_ns + self._offset_ns

    def now_ns(self) -> int:
        return self.at(self._component.now_ns())

    def arrival_ns(self, element: Element) -> int:
        """When the element arrived. One that was stored on disk has kept its time."""
        stored: int | None = element.attributes.get(EVENT_TIME)
        return self.at(element.timestamp_ns) if stored is None else stored

    def monotonic_ns(self, unix_ns: int) -> int:
        """The flow's time at a moment of Unix time."""
        return unix_ns - self._offset_ns

    def check(self) -> None:
        """Compares the two clocks."""
        now_ns = self._component.now_ns()
        offset_ns = self._component.wall_ns() - now_ns
        step_ns = offset_ns - self._offset_ns
        if self._checked_ns is not None and abs(step_ns) > STEP_NS:
            self.steps += 1
            way = "forward" if step_ns > 0 else "back"
            logger.warning(
                "the wall clock was set %s by %.1f s",
                way,
                abs(step_ns) / SECOND_NS,
                extra={"event": "clock.step", "step_s": step_ns / SECOND_NS},
            )
        self._offset_ns, self._checked_ns = offset_ns, now_ns

    def is_future(self, event_ns: int, arrived_ns: int, max_future_ns: int) -> bool:
        """Whether an event lies too far ahead of the wall clock to be true."""
        now_ns = self.at(arrived_ns)
        return event_ns - now_ns > max_future_ns and now_ns >= PLAUSIBLE_NS
