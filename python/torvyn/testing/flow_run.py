"""`run_flow`: runs a flow on the calling thread until it is done, or can only wait."""

from __future__ import annotations

import enum
import weakref
from dataclasses import replace
from typing import Final, Unpack

from torvyn.contract import Component, Element, End, FlowOptions, Stage, as_component
from torvyn.reactor import Flow, Statistics
from torvyn.reactor.stepper import Stepper
from torvyn.testing.clock import Clock
from torvyn.testing.parts import CollectingSink
from torvyn.testing.runner_twins import as_parts


class Until(enum.Enum):
    """How far `run_flow` goes."""

    DONE = "done"
    IDLE = "idle"


done: Final = Until.DONE
"""Until the flow is over; what made it fail is raised."""
idle: Final = Until.IDLE
"""Until nothing moves: every stage waits for another, the clock or the world outside."""


class Run:
    """A flow that a test holds in its hands. Ends with the test: what still runs is cancelled."""

    def __init__(self, flow: Flow, sink: CollectingSink | None, patience_s: float) -> None:
        self.flow = flow
        self.sink = sink
        """The sink that was added because the stages had none."""
        self._patience_s = patience_s
        self._stepper = Stepper(flow)
        self._close = weakref.finalize(self, self._stepper.close)

    def go(self, until: Until = done) -> Run:
        """Runs on."""
        if not self._stepper.go(until_idle=until is idle, patience_s=self._patience_s):
            facts = self.statistics.to_dict()
            raise AssertionError(f"not {until.value} after {self._patience_s:g} s: {facts}")
        if self._stepper.is_over:
            # Nothing left to close; and the error's frames would keep this object for good.
            self._close.detach()
        if self.flow.error is not None:
            raise self.flow.error
        return self

    def cancel(self) -> Run:
        """Cancels the flow and runs it to its end."""
        self.flow.cancel()
        return self.go()

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Run:
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
    *stages: Stage | Flow,
    capacity: int | None = None,
    until: Until = done,
    clock: Clock | None = None,
    parts: str | None = None,
    patience_s: float = 10.0,
    **options: Unpack[FlowOptions],
) -> Run:
    """Runs the stages as a chain, or a `Flow` that was built before.

    A chain without a sink gets a `CollectingSink`. `capacity` is the depth of every queue; `parts`
    says who runs the stages (one of `PARTS`; None leaves them as they are); `options` are those of
    `Flow`. With `until=idle` the flow may be looked at, prodded and sent on with `Run.go`. A flow
    that does not get there fails the test after `patience_s`.
    """
    if len(stages) == 1 and isinstance(stages[0], Flow):
        if parts is not None:
            _recast(stages[0], parts)
        return Run(stages[0], None, patience_s).go(until)
    components: list[Component] = [as_component(stage) for stage in stages]
    sink = None if components[-1].role == "sink" else CollectingSink()
    components += [] if sink is None else [sink]
    made = [part if parts is None else as_parts(part, parts) for part in components]
    flow = Flow(*made, queue_depth=capacity, clock=clock, **options)
    return Run(flow, sink, patience_s).go(until)


def _recast(flow: Flow, parts: str) -> None:
    """Other runners for the components of a flow that was built and not started."""
    for name, node in flow._record.nodes.items():
        if isinstance(node.component, Component) and node.run is None:
            component = as_parts(node.component, parts)
            flow._record.nodes[name] = replace(node, component=component)
    flow._plan = None
