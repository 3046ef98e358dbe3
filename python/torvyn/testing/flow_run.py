"""`run_flow`: runs a flow on the calling thread until it is done, or can only wait."""

from __future__ import annotations

import enum
import weakref
from typing import Final, Unpack

from torvyn.contract import Component, ComponentLike, Element, End, FlowOptions, as_component
from torvyn.reactor import Flow, Statistics
from torvyn.reactor.stepper import Stepper
from torvyn.testing.clock import Clock
from torvyn.testing.component_variants import as_variant
from torvyn.testing.components import CollectingSink


class Until(enum.Enum):
    """How far `run_flow` goes."""

    DONE = "done"
    IDLE = "idle"


done: Final = Until.DONE
"""Until the flow is over; what made it fail is raised."""
idle: Final = Until.IDLE
"""Until nothing moves: every stage waits for another, the clock or the world outside."""


class FlowRun:
    """A flow that a test holds in its hands. Ends with the test: what still runs is cancelled."""

    def __init__(self, flow: Flow, sink: CollectingSink | None, timeout_s: float) -> None:
        self.flow = flow
        self.sink = sink
        """The sink that was added because the stages had none."""
        self._timeout_s = timeout_s
        self._stepper = Stepper(flow)
        self._close = weakref.finalize(self, self._stepper.close)

    def go(self, until: Until = done) -> FlowRun:
        """Runs on."""
        if not self._stepper.advance(until_idle=until is idle, timeout_s=self._timeout_s):
            facts = self.statistics.to_dict()
            raise AssertionError(f"not {until.value} after {self._timeout_s:g} s: {facts}")
        if self._stepper.is_over:
            # Nothing left to close; and the error's frames would keep this object for good.
            self._close.detach()
        if self.flow.error is not None:
            raise self.flow.error
        return self

    def cancel(self) -> FlowRun:
        """Cancels the flow and runs it to its end."""
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
        """What arrived in the added sink, or left a flow without one."""
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
    *stages: ComponentLike | Flow,
    capacity: int | None = None,
    until: Until = done,
    clock: Clock | None = None,
    variant: str | None = None,
    timeout_s: float = 10.0,
    **options: Unpack[FlowOptions],
) -> FlowRun:
    """Runs the stages as a chain, or a `Flow` that was built before.

    A chain without a sink gets a `CollectingSink`. `capacity` is the capacity of every queue.
    `variant`, one of `VARIANTS`, selects how the stages run; None leaves them as they are.
    `options` are those of `Flow`. With `until=idle` you can inspect the flow, act on it and
    continue it with `FlowRun.go`. A flow that does not get there within `timeout_s` fails the test.
    """
    if len(stages) == 1 and isinstance(stages[0], Flow):
        if variant is not None:
            _recast(stages[0], variant)
        return FlowRun(stages[0], None, timeout_s).go(until)
    components: list[Component] = [as_component(stage) for stage in stages]
    sink = None if components[-1].role == "sink" else CollectingSink()
    components += [] if sink is None else [sink]
    made = [part if variant is None else as_variant(part, variant) for part in components]
    flow = Flow(*made, queue_depth=capacity, clock=clock, **options)
    return FlowRun(flow, sink, timeout_s).go(until)


def _recast(flow: Flow, variant: str) -> None:
    """Other runners for the components of a flow that was built and not started."""
    for node in flow._draft.nodes.values():
        if isinstance(node.component, Component) and node.run is None:
            node.component = as_variant(node.component, variant)
    flow._plan = None
