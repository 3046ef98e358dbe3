"""The options of `window`, parsed once per node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torvyn.components.config import wrong_config
from torvyn.components.event_time import TIME_OPTIONS, time_reader
from torvyn.components.spec import Option, Spec
from torvyn.components.windows.functions import FUNCTIONS, Column, parse_column
from torvyn.components.windows.open_windows import (
    CountWindows,
    FixedWindows,
    OpenWindows,
    SessionWindows,
)
from torvyn.components.windows.pane import Layout
from torvyn.errors import ContractError

SPEC = Spec(
    name="window",
    role="aggregator",
    summary="Computes values over windows of elements: tumbling, sliding, by session or by count.",
    options=(
        Option("size", "integer", 0, "The number of elements per window.", minimum=0),
        Option("every", "duration", 0.0, "The length of a window in time."),
        Option(
            "slide",
            "duration",
            0.0,
            "How often a window of length `every` starts; default: when the last one ends.",
        ),
        Option(
            "session",
            "duration",
            0.0,
            "A window ends when no element follows within this time.",
        ),
        Option(
            "function",
            "choice",
            "count",
            "The function for `value`, the only value of a window without `compute`.",
            choices=tuple(FUNCTIONS),
        ),
        Option("field", "text", "", "A dotted path to its number; default: the whole text."),
        Option(
            "compute",
            "text table",
            {},
            "Name = `function(field)`, for several values at once. The functions are those of "
            "`function` and percentiles such as `p99`. Missing and null fields are left out.",
        ),
        *TIME_OPTIONS,
        Option(
            "idle_close",
            "duration",
            0.0,
            "Closes the windows of a key that has sent nothing for this long; 0 means never. By "
            "arrival time, a window is not closed before its end.",
        ),
    ),
    main="size",
    example="""\
[flow.main.nodes.average]
component = "window"
key = "sensor"
config = { every = "10s", time = "at", lateness = "2s", compute = { mean = "mean(celsius)" } }
""",
)


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """What all keys of a node share."""

    layout: Layout
    size: int
    length_ns: int
    step_ns: int
    gap_ns: int
    read_time: Callable[[dict[str, Any]], int] | None
    """Reads the event time; None means the time of arrival."""
    needs_record: bool
    lateness_ns: int
    max_future_ns: int
    idle_ns: int

    def open(self) -> OpenWindows:
        if self.size:
            return CountWindows(self.layout, self.size)
        if self.gap_ns:
            return SessionWindows(self.layout, self.gap_ns)
        return FixedWindows(self.layout, self.length_ns, self.step_ns)


def parse_window(options: dict[str, Any]) -> WindowOptions:
    """The options of the spec as a window needs them; raises `ContractError`."""
    _check(options)
    layout = Layout(_columns(options))
    time = options["time"]
    return WindowOptions(
        layout=layout,
        size=options["size"],
        length_ns=_ns(options["every"]),
        step_ns=_ns(options["slide"] or options["every"]),
        gap_ns=_ns(options["session"]),
        read_time=time_reader(time, options["time_unit"]) if time else None,
        needs_record=bool(time) or layout.reader.needs_record,
        lateness_ns=_ns(options["lateness"]),
        max_future_ns=_ns(options["max_future"]),
        idle_ns=_ns(options["idle_close"]),
    )


def _check(options: dict[str, Any]) -> None:
    if sum(bool(options[name]) for name in ("size", "every", "session")) != 1:
        hint = '`every = "10s"` makes windows of ten seconds, `size = 10` of ten elements'
        raise _wrong("set either `size`, `every` or `session`", hint)
    if options["slide"] and not options["every"]:
        raise _wrong("`slide` needs `every`", "`every` is the length of a sliding window")
    if options["slide"] > options["every"]:
        raise _wrong("`slide` is longer than `every`", "elements between windows would be lost")
    if options["compute"] and (options["field"] or options["function"] != "count"):
        raise _wrong("set either `compute` or `function` and `field`")
    reserved = {"key", "start", "end", "count"} & options["compute"].keys()
    if reserved:
        raise _wrong(f"`compute` cannot set `{min(reserved)}`", "a window has it already")


def _columns(options: dict[str, Any]) -> list[Column]:
    if not options["compute"]:
        function, field = FUNCTIONS[options["function"]], options["field"]
        # A count is one of elements, whatever they hold.
        field = "" if options["function"] == "count" else field
        return [Column("value", function, field, is_required=True)]
    try:
        return [parse_column(name, text) for name, text in options["compute"].items()]
    except ValueError as error:
        raise _wrong(f"`compute`: {error}") from None


def _wrong(message: str, hint: str | None = None) -> ContractError:
    return wrong_config(SPEC, message, hint)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
