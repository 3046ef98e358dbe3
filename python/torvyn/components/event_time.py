"""Event time: when something happened, as Unix nanoseconds, read from a field or taken on arrival.

The wall clock of a device may be wrong, and it may be set while a flow runs. So durations are
measured with the flow's own time, which never goes back, and `WallClock` adds the difference
between the two. It notices when the wall clock was set.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from torvyn.components.json_fields import MISSING, get_field
from torvyn.components.spec import Option
from torvyn.contract import Component, Element
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

TIME_OPTIONS: Final = (
    Option("time", "text", "", "A dotted path to the event time; default: the time of arrival."),
    Option(
        "time_unit",
        "choice",
        "auto",
        "The unit of a numeric event time, counted from 1970. `auto` detects it by its size. Text "
        "is read as ISO 8601; without a zone it is UTC.",
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
        return _parse_text(value, unit)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("it is neither a number nor text")
    factor = _UNITS.get(unit) or _detect(abs(value))
    # A float of seconds has fewer digits than nanoseconds need; round once, at the end.
    nanoseconds = value * factor if isinstance(value, int) else round(value * factor)
    if not _FIRST_NS <= nanoseconds < _LAST_NS:
        raise ValueError("it is not between the years 1 and 9999")
    return nanoseconds


def _parse_text(text: str, unit: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return parse_time_ns(float(text), unit)
    since = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND_NS + since.microseconds * 1_000


def _detect(size: float) -> int:
    """Seconds reach 1e11 in the year 5138, and milliseconds were there in 1973."""
    if size < 1e11:
        return SECOND_NS
    if size < 1e14:
        return 1_000_000
    return 1_000 if size < 1e17 else 1


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
        if takes_seconds and type(value) is float and 0.0 < value < 1e11:
            return round(value * 1e9)
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
