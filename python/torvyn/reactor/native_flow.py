"""The blueprint: a Plan and its runners in the form that the native core takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from torvyn._native import ManualClock, NativeFlow
from torvyn.contract import Context
from torvyn.link.plan import Plan
from torvyn.reactor.failures import raise_start_failure
from torvyn.reactor.runners import Runner

_QUARTER_WEIGHTS: Final = {"critical": 16, "high": 8, "normal": 4, "low": 2, "background": 1}

Wiring = list[tuple[str, str, str]]
"""Source, port and target of every edge in native order; "" is the caller."""

ErrorLog = Callable[[int, str, str, int, BaseException | None, int | None], None]


def build(
    plan: Plan,
    runners: Sequence[Runner],
    context: Context,
    *,
    on_error: ErrorLog,
    deadline_s: float | None,
    clock: ManualClock | None,
) -> tuple[NativeFlow, Wiring]:
    """The native flow, ready for its first turn, and the names of its edges."""
    edges, wiring = _edges(plan)
    native = NativeFlow(
        [_node(plan, runner, context) for runner in runners],
        edges,
        context,
        quarter_weight=_QUARTER_WEIGHTS[plan.priority],
        turn_elements=plan.runtime.turn_elements,
        turn_time_ns=int(plan.runtime.turn_time_s * 1e9),
        drain_timeout_ns=int(plan.runtime.drain_timeout_s * 1e9),
        level=plan.observability,
        on_error=on_error,
        deadline_ns=None if deadline_s is None else int(deadline_s * 1e9),
        clock=clock,
    )
    for index, runner in enumerate(runners):
        runner.attach(native.node(index))
    return native, wiring


def _node(plan: Plan, runner: Runner, context: Context) -> tuple[Any, ...]:
    node, policy = runner.node, runner.node.on_error
    try:
        work = runner.native_work(context)
    except BaseException as error:
        raise_start_failure(plan, node, error)
    return (
        node.role,
        work,
        list(node.ports),
        policy.max if policy.policy == "retry" else 0,
        int(policy.backoff_s * 1e9),
        policy.then if policy.policy == "retry" else policy.policy,
        node.max_memory_bytes,
    )


def _edges(plan: Plan) -> tuple[list[tuple[Any, ...]], Wiring]:
    index = {node.name: position for position, node in enumerate(plan.nodes)}
    tuples: list[tuple[Any, ...]] = []
    wiring: Wiring = []
    for edge in plan.edges:
        at = plan.nodes[index[edge.source]].ports.index(edge.port)
        limits = (edge.depth, edge.bytes, edge.backpressure, edge.low_watermark)
        tuples.append((index[edge.source], at, index[edge.target], *limits))
        wiring.append((edge.source, edge.port, edge.target))
    # Edges from and to the caller, where a flow has no source or no sink.
    limits = (64, 1 << 20, "block", 0.5)
    if (head := plan.head) is not None:
        tuples.append((-1, 0, index[head], *limits))
        wiring.append(("", "output", head))
    if (tail := plan.tail) is not None:
        tuples.append((index[tail], 0, -1, *limits))
        wiring.append((tail, "output", ""))
    return tuples, wiring
