"""`window`: computes values over windows of elements: tumbling, sliding, by session or by count.

Time is event time, from a field, or the time of arrival. A window closes when the watermark passes
its end. The watermark follows the newest element of the same key, minus `lateness`; an element too
far in the future never moves it. So data that was stored during an outage falls into the windows of
its own time, and a device with a wrong clock harms nobody else. Empty windows are not sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from torvyn._contract.element import Element, Output
from torvyn._contract.roles import Aggregator
from torvyn.components.config import parse_config
from torvyn.components.event_time import (
    CHECK_NS,
    EVENT_TIME,
    PLAUSIBLE_NS,
    STEP_NS,
    WallClock,
    render_time,
)
from torvyn.components.json_fields import JSON_TYPE, read_object, write_json
from torvyn.components.spec import Spec
from torvyn.components.windows.open_windows import NEVER_NS, ClosedWindow
from torvyn.components.windows.window_options import SPEC, WindowOptions, parse_window

LATE = "late"
"""The port of elements that came too late or lie too far in the future."""
_NOTHING: dict[str, Any] = {}
_PANE_BYTES, _VALUE_BYTES = 400, 32


class ElementCounter:
    """Counts the elements of a node, over all its keys."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = 0


class Window(Aggregator):
    spec: ClassVar[Spec] = SPEC
    unit = "windows"
    ports = (LATE,)
    oldest_held: int | None = None
    """The index of the oldest element in an open window."""
    held_bytes = 0
    """A good estimate of the memory that the open windows use."""

    def init(self, config: Any) -> None:
        self._start(parse_window(parse_config(SPEC, config)), WallClock(self), ElementCounter())

    @classmethod
    def check_options(cls, options: dict[str, Any]) -> None:
        """Reports options that do not fit together when the flow is linked."""
        parse_window(options)

    def for_key(self, key: str) -> Window:
        """A new window component for one key; it shares what all keys have in common."""
        made = type(self)(self.config)
        made.key = key
        made._start(self._options, self._clock, self._elements)
        return made

    def _start(self, options: WindowOptions, clock: WallClock, elements: ElementCounter) -> None:
        self._options = options
        self._elements = elements
        self.oldest_held = None
        self._clock = clock
        self._windows = options.open()
        self._newest_ns = -NEVER_NS
        """The newest event time; the watermark is `lateness` before it."""
        self._last_ns: int | None = None
        """When the last element arrived, in the flow's time."""
        self._is_restored = False
        self._steps = clock.steps
        self._future_ns = self._check_ns = -NEVER_NS
        """The greatest event time that can be true, and when to ask the wall clock again."""
        self._values = self._panes = 0
        self.held_bytes = 0
        self.counts = {"late": 0, "future": 0}
        """Elements that were left out, for the statistics."""

    def ingest(self, element: Element) -> list[Output]:
        options = self._options
        record = read_object(element) if options.needs_record else _NOTHING
        # Read everything first: a rejected element must not change a window.
        values = options.layout.reader.read(record, element)
        done: list[Output] = []
        if options.read_time is None:
            time_ns = self._arrival(element, done)
        else:
            time_ns = options.read_time(record)
            if self._is_future(time_ns, element.timestamp_ns):
                self.counts["future"] += 1
                self._elements.taken += 1
                return [*done, _set_aside(element, "future")]
        newest_ns = self._newest_ns
        index = self._elements.taken
        self._elements.taken = index + 1
        if not self._windows.add(time_ns, values, newest_ns - options.lateness_ns, index):
            self.counts["late"] += 1
            return [*done, _set_aside(element, LATE)]
        if self._windows.pane_count != self._panes or options.layout.keeps_values:
            self._values += options.layout.keeps_values
            self._measure()
        if options.idle_ns:
            self._last_ns = self.now_ns()
        if time_ns > newest_ns:
            self._newest_ns = newest_ns = time_ns
        if self._windows.next_end_ns <= newest_ns - options.lateness_ns:
            done += self._close(newest_ns - options.lateness_ns)
        return done

    def flush(self) -> list[Output]:
        return list(self._close(NEVER_NS))

    def _is_future(self, time_ns: int, arrived_ns: int) -> bool:
        """Whether the time is too far ahead of the wall clock, which is read once per second."""
        if arrived_ns >= self._check_ns:
            self._check_ns = arrived_ns + CHECK_NS
            now_ns = self._clock.at(arrived_ns)
            is_set = now_ns >= PLAUSIBLE_NS
            self._future_ns = now_ns + self._options.max_future_ns if is_set else NEVER_NS
        return time_ns > self._future_ns

    def _arrival(self, element: Element, done: list[Output]) -> int:
        """The time of arrival. When the wall clock was set, what was open ends at its old time."""
        clock = self._clock
        time_ns = clock.arrival_ns(element)
        # The wall clock may also have been set back while the flow was down.
        was_set_back = self._is_restored and self._newest_ns > clock.now_ns() + STEP_NS
        if was_set_back or clock.steps != self._steps:
            self._steps = clock.steps
            done += self.flush()
            self._windows = self._options.open()
            self._newest_ns = -NEVER_NS
        self._is_restored = False
        # Sources may deliver in turns; what is stored keeps its time, and may be late.
        return time_ns if EVENT_TIME in element.attributes else max(time_ns, self._newest_ns)

    # Closing

    def due_ns(self) -> int | None:
        options = self._options
        if not options.idle_ns or not self._windows.pane_count:
            return None
        if self._last_ns is None:
            self._last_ns = self.now_ns()
        due_ns = self._last_ns + options.idle_ns
        if options.read_time is None and not options.size:
            # A window by arrival time does not close before its end.
            end_ns = self._windows.next_end_ns + options.lateness_ns
            due_ns = max(due_ns, self._clock.monotonic_ns(end_ns))
        return due_ns

    def on_timer(self) -> list[Output]:
        if self._options.read_time is None and not self._options.size:
            return list(self._close(self._windows.next_end_ns))
        return self.flush()

    def _close(self, watermark_ns: int) -> Iterator[Output]:
        for window in self._windows.close(watermark_ns):
            yield self._render(window)
        if not self._windows.pane_count:
            self._values = 0
        self._measure()

    def _measure(self) -> None:
        self._panes = self._windows.pane_count
        self.held_bytes = self._panes * _PANE_BYTES + self._values * _VALUE_BYTES
        self.oldest_held = min((pane.first for pane in self._windows.panes()), default=None)

    def _render(self, window: ClosedWindow) -> Output:
        start_ns, end_ns, pane = window
        record: dict[str, Any] = {} if self.key is None else {"key": self.key}
        record["start"], record["end"] = render_time(start_ns), render_time(end_ns)
        record["count"] = pane.count
        for column, total in zip(self._options.layout.columns, pane.totals, strict=True):
            record[column.name] = total.result()
            self._values -= len(total.value) if column.total.keeps_values else 0
        return Output(write_json(record), content_type=JSON_TYPE)

    @property
    def taken(self) -> int:
        """How many elements the components of all keys have taken."""
        return self._elements.taken

    def held_elements(self) -> int:
        """How many elements were taken since the oldest one that waits in an open window, with it:
        they are not acknowledged yet."""
        return 0 if self.oldest_held is None else self.taken - self.oldest_held

    # State

    def snapshot(self) -> Any:
        return {
            "newest": self._newest_ns,
            "values": self._values,
            "windows": self._windows.state(),
        }

    def restore(self, state: Any) -> None:
        self._newest_ns, self._values = state["newest"], state["values"]
        self._windows.restore(state["windows"])
        self._measure()
        # How long the key had been idle before the restart is not known.
        self._last_ns = None
        self._is_restored = True


def _set_aside(element: Element, reason: str) -> Output:
    data = element.text if element.content_type.startswith(("text/", JSON_TYPE)) else element.data
    return Output(
        data if isinstance(data, str) else bytes(data),
        content_type=element.content_type,
        attributes={**element.attributes, "set_aside": reason},
        port=LATE,
    )
