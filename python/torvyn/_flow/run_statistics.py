"""The statistics and the trace of one run."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from torvyn._contract.enums import CallOutcome, FlowState, Role
from torvyn._contract.inspection import is_instance, own_attribute
from torvyn._flow import statistics
from torvyn._flow.cpu_throttle import CpuThrottle, shares_of
from torvyn._flow.runner import Runner
from torvyn._flow.statistics import from_native
from torvyn._flow.trace import CallRecorder
from torvyn._io.connection import Connection
from torvyn._link.plan import Plan
from torvyn._native import NativeFlow

if TYPE_CHECKING:
    from torvyn._durable.durable_run import DurableRun
    from torvyn._flow.refused_elements import RefusedElements

Call = tuple[str, CallOutcome, int, int, int, int, int]
"""Node, outcome, outputs, bytes the node had copied by then, sequence, start and duration in
nanoseconds."""


class RunStatistics:
    """Reads the native counters while the flow runs, and keeps the last values."""

    def __init__(self, plan: Plan, trace_limit: int, durable: DurableRun | None = None) -> None:
        self.trace: tuple[list[Call], int] = ([], 0)
        self.refused: RefusedElements | None = None
        self.ended_s: float | None = None
        """When the last turn ended."""
        self._plan = plan
        self._durable = durable
        self._trace_limit = trace_limit
        self._recorder = CallRecorder(trace_limit) if trace_limit else None
        self._started_s = time.monotonic()
        self._runners: Sequence[Runner] = ()
        self._wiring: Wiring = []
        self._cpu_before_ns: dict[str, int] = {}
        self._connections: list[tuple[str, Connection]] = []
        self._last: statistics.Statistics | None = None
        self._native: NativeFlow | None = None
        """While the flow runs."""

    def prepare(self, runners: Sequence[Runner]) -> None:
        """In a traced flow, records the calls of offloaded stages, which the reactor cannot see."""
        self._runners = runners
        if shares := shares_of(self._plan):
            throttle = CpuThrottle(shares, partial(_read_cpu_ns, weakref.ref(self)))
            for runner in runners:
                if runner.node.role == Role.SOURCE:
                    runner.throttle = throttle
        for runner in runners:
            self._record(runner)

    def _record(self, runner: Runner) -> None:
        if self._recorder is not None and runner.node.run != "inline":
            self._recorder.record(runner.node.name, runner.node.role, runner.component)

    def prepare_successor(self, old: Runner, new: Runner) -> None:
        """The new runner may take the place of the old one."""
        new.throttle = old.throttle
        self._record(new)

    def succeed(self, plan: Plan, old: Runner, new: Runner) -> None:
        """The new runner has taken the place of the old one."""
        self._plan = plan
        name = old.node.name
        self._cpu_before_ns[name] = self._cpu_before_ns.get(name, 0) + (old.cpu_ns or 0)
        self._connections = [*_connections(self._runners)]

    def start(self, native: NativeFlow, wiring: Wiring) -> None:
        self._wiring = wiring
        self._native = native
        self._connections = [*_connections(self._runners)]
        self._started_s = time.monotonic()
        if self._recorder is not None:
            native.trace(self._trace_limit)

    @property
    def is_iterated(self) -> bool:
        """Whether the caller reads the outputs: then the last edge has no target."""
        return not self._wiring[-1][2]

    @property
    def is_final(self) -> bool:
        return self._last is not None

    def current(self, native: NativeFlow) -> statistics.Statistics:
        return self._last if self._last is not None else self._read(native)

    def _read(self, native: NativeFlow, state: FlowState | None = None) -> statistics.Statistics:
        guests = [runner for runner in self._runners if runner.guest is not None]
        elapsed_s = (self.ended_s or time.monotonic()) - self._started_s
        raw = native.statistics()
        self._add_counts(raw)
        if state is not None:
            raw["state"] = state
            _count_stuck(raw)
        health = {runner.node.name: runner.guest.health for runner in guests if runner.guest}
        denied = {runner.node.name: runner.guest.denied for runner in guests if runner.guest}
        connections = {name: connection.status for name, connection in self._connections}
        usage = {runner.node.name: self._usage(runner) for runner in self._runners}
        result = from_native(
            self._plan, self._wiring, raw, elapsed_s, health, denied, connections, usage
        )
        if self._durable is None:
            return result
        from torvyn._flow.edge_account import fold

        return fold(result, self._durable)

    def _usage(self, runner: Runner) -> tuple[int | None, float]:
        """The CPU time of a node, with that of the components it had before, and its delay."""
        before_ns = self._cpu_before_ns.get(runner.node.name)
        cpu_ns = runner.cpu_ns if not before_ns else before_ns + (runner.cpu_ns or 0)
        return cpu_ns, runner.throttle.delayed_s if runner.throttle else 0.0

    def _add_counts(self, raw: dict[str, Any]) -> None:
        """Adds what components count themselves, in a dict that they set as `counts`, and what
        guards removed: which of their matches did not leave is not known to the native core."""
        for runner, counters in zip(self._runners, raw["nodes"], strict=True):
            if self.refused is not None:
                counters["set_aside"] = self.refused.counts.get(runner.node.name, 0)
            counts = own_attribute(runner.component, "counts")
            if type(counts) is dict:
                counters["counts"] = dict(counts)
            if counters["matches"] and _removes_matches(runner.component):
                # A match that was all of an element has filtered that element.
                counters["removed"] = max(counters["matches"] - counters["filtered"], 0)

    def finish(self, native: NativeFlow, state: FlowState | None) -> None:
        """Reads the last values, after teardown. `state`: the state of an abandoned run."""
        native.count_late_results()
        self._last = self._read(native, state)
        self._native = None
        if self._recorder is not None:
            events, missed = native.take_trace()
            names = [node.name for node in self._plan.nodes]
            calls: list[Call] = [(names[event[0]], *event[1:]) for event in events]
            calls = sorted(self._recorder.calls + calls, key=lambda call: call[5])
            self.trace = calls, missed + self._recorder.missed

    def refresh(self, native: NativeFlow) -> None:
        """Reads again once the caller has taken the outputs of the last flush."""
        if self._last is not None and self.is_iterated:
            self._last = self._read(native)


def _removes_matches(component: object) -> bool:
    from torvyn.components.text_guard import Guard

    return is_instance(component, Guard) and component.removes_matches


def _connections(runners: Sequence[Runner]) -> Iterator[tuple[str, Connection]]:
    """The connections that components have set in `init`, with the names of their nodes."""
    for runner in runners:
        connection = own_attribute(runner.component, "connection")
        if is_instance(connection, Connection):
            yield runner.node.name, connection


def _read_cpu_ns(reference: weakref.ref[RunStatistics]) -> dict[str, int]:
    """The CPU time of the nodes so far. The native core holds this function: a strong reference
    would keep a dropped flow alive."""
    counts = reference()
    native = None if counts is None else counts._native
    if counts is None or native is None:
        return {}
    nodes = counts.current(native).nodes
    return {name: node.cpu_ns or 0 for name, node in nodes.items()}


def _count_stuck(raw: dict[str, Any]) -> None:
    """Counts elements that a node has begun and not concluded as unread: the turn of an abandoned
    run never ends. Edges keep the counts from before that turn."""
    concluded = ("passed", "filtered", "failed", "dead_lettered", "absorbed")
    for node in raw["nodes"]:
        node["unread"] = node["received"] - sum(node[name] for name in concluded)


Wiring = list[tuple[str, str, str]]
"""Source, port and target of every edge in native order."""
