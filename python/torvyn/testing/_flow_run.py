"""`run_flow` runs a flow on the calling thread until it is done or idle, and `Clock` is its time.

The clock only moves when a test moves it, and then wakes the flows that use it.
"""

from __future__ import annotations

import enum
import weakref
from dataclasses import replace
from typing import Final, Unpack

from torvyn._contract.element import Element
from torvyn._contract.functions import Stage, as_component
from torvyn._contract.options import FlowOptions
from torvyn._contract.roles import Component
from torvyn._contract.signals import End
from torvyn._flow.flow import Flow
from torvyn._flow.statistics import Statistics
from torvyn._flow.stepper import Stepper
from torvyn._link.component_library import Library, instantiate
from torvyn._manifest.problems import Problems
from torvyn._native import ManualClock
from torvyn.errors import LinkError
from torvyn.testing._components import CollectingSink
from torvyn.testing._variants import as_variant


class Clock(ManualClock):
    """A manual clock: `torvyn.Flow(..., clock=clock)`, `run_flow(..., clock=clock)`.

    Deadlines, retries, drains, timers and `PENDING.after` of inline sources use it. Stages on
    threads and event loops use real time. The wall clock of its flows starts at the beginning of
    2026.
    """

    _wall_offset_ns = 1_767_225_600 * 1_000_000_000

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    def __call__(self) -> float:
        """The time in seconds, for components that take a clock such as `time.monotonic`."""
        return self.now_s

    def wall_ns(self) -> int:
        """The wall clock of the flows, as Unix nanoseconds."""
        return self._wall_offset_ns + self.now_ns

    def set_wall(self, seconds: float) -> None:
        """Sets the wall clock forward or, with a negative number, back, as a person or NTP does.
        The flow's own time does not change."""
        self._wall_offset_ns += round(seconds * 1e9)

    def advance(self, seconds: float) -> None:
        """Moves the time forward and wakes the flows."""
        if seconds < 0:
            raise ValueError("cannot move the time backwards")
        self.advance_ns(round(seconds * 1e9))


class Until(enum.Enum):
    """How far `run_flow` goes."""

    DONE = "done"
    IDLE = "idle"


done: Final = Until.DONE
"""Run until the flow has ended; raises its error."""
idle: Final = Until.IDLE
"""Run until every stage waits for another, for the clock or for the outside."""


class FlowRun:
    """A flow under test. It is cancelled when this object is closed or garbage-collected."""

    def __init__(self, flow: Flow, sink: CollectingSink | None, timeout_s: float) -> None:
        self.flow = flow
        self.sink = sink
        """The sink that was added to stages without one."""
        self._timeout_s = timeout_s
        self._stepper = Stepper(flow)
        self._close = weakref.finalize(self, self._stepper.close)

    def go(self, until: Until = done) -> FlowRun:
        """Continues the flow."""
        if not self._stepper.advance(until_idle=until is idle, timeout_s=self._timeout_s):
            statistics = self.statistics.to_dict()
            raise AssertionError(f"not {until.value} after {self._timeout_s:g} s: {statistics}")
        if self._stepper.is_over:
            # Nothing is left to close, and the frames of the error would keep this object alive.
            self._close.detach()
        if self.flow.error is not None:
            raise self.flow.error
        return self

    def cancel(self) -> FlowRun:
        """Cancels the flow and runs it to the end."""
        self.flow.cancel()
        return self.go()

    def close(self) -> None:
        self._close()

    def __enter__(self) -> FlowRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def elements(self) -> list[Element]:
        """The elements in the added sink, or those that left a flow without a sink."""
        return self._stepper.outputs if self.sink is None else self.sink.elements

    @property
    def texts(self) -> list[str]:
        return [element.text for element in self.elements]

    @property
    def statistics(self) -> Statistics:
        return self.flow.statistics

    @property
    def end(self) -> End | None:
        return self.flow.end

    @property
    def state(self) -> str:
        return self.flow.state


def run_flow(
    *stages: Stage | Flow,
    capacity: int | None = None,
    until: Until = done,
    clock: Clock | None = None,
    variant: str | None = None,
    timeout_s: float = 10.0,
    **options: Unpack[FlowOptions],
) -> FlowRun:
    """Runs the stages as a chain, or an existing `Flow`.

    A chain without a sink gets a `CollectingSink`. `capacity` is the capacity of every queue.
    `variant`, one of `VARIANTS`, selects how the stages run; None leaves them as they are.
    `options` are those of `Flow`. With `until=idle` you can inspect the flow, act on it and
    continue it with `FlowRun.go`. A flow that does not get there within `timeout_s` fails the test.
    """
    if len(stages) == 1 and isinstance(stages[0], Flow):
        if variant is not None:
            _use_variant(stages[0], variant)
        return FlowRun(stages[0], None, timeout_s).go(until)
    components = [_component(stage, at > 0) for at, stage in enumerate(stages)]
    sink = None if components[-1].role == "sink" else CollectingSink()
    components += [] if sink is None else [sink]
    if variant is not None:
        components = [as_variant(component, variant) for component in components]
    flow = Flow(*components, queue_depth=capacity, clock=clock, **options)
    return FlowRun(flow, sink, timeout_s).go(until)


def _component(stage: Stage, has_input: bool) -> Component:
    if not isinstance(stage, str):
        return as_component(stage)
    problems = Problems()
    found = Library().find(stage, None, problems, has_input=has_input)
    if found is None:
        raise LinkError.of(problems.diagnostics())
    return instantiate(found.ref)


def _use_variant(flow: Flow, variant: str) -> None:
    """Replaces the components of a flow that has not started."""
    for name, node in flow._record.nodes.items():
        if isinstance(node.component, Component) and node.run is None:
            component = as_variant(node.component, variant)
            flow._record.nodes[name] = replace(node, component=component)
    flow._plan = None
