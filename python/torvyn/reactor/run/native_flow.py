"""A Plan and its runners -> a `NativeFlow`. Native code reads the Plan's attributes itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from torvyn._contract.element import Context
from torvyn._contract.enums import ErrorKind
from torvyn._link.plan import EdgePlan, Plan
from torvyn._native import ManualClock, NativeFlow
from torvyn.reactor.failures import raise_start_failure
from torvyn.reactor.runners import Runner

CALLER = ""
"""The name of the caller as an end of an edge."""

Wiring = list[tuple[str, str, str]]
"""Source, port and target of every edge in native order."""

OnError = Callable[[int, ErrorKind, str, int, BaseException | None, int | None], None]

StoreRefused = Callable[[int, ErrorKind, str, BaseException | None, int | None, bytes | None], bool]


def build(
    plan: Plan,
    runners: Sequence[Runner],
    context: Context,
    *,
    on_error: OnError,
    deadline_s: float | None,
    clock: ManualClock | None,
    checkpoints: tuple[list[int], list[bool], Callable[..., None]] | None = None,
    contexts: Sequence[Context] | None = None,
    store_refused: StoreRefused | None = None,
) -> tuple[NativeFlow, Wiring]:
    """The native flow, ready for its first turn, and the names of its edges. `contexts`: one for
    each node, where they differ."""
    own = contexts or [context] * len(runners)
    edges = [*plan.edges, *_caller_edges(plan)]
    native = NativeFlow(
        plan,
        edges,
        [_work(plan, runner, each) for runner, each in zip(runners, own, strict=True)],
        context,
        on_error=on_error,
        deadline_ns=None if deadline_s is None else int(deadline_s * 1e9),
        clock=clock,
        checkpoints=checkpoints,
        contexts=None if contexts is None else list(contexts),
        store_refused=store_refused,
    )
    for index, runner in enumerate(runners):
        runner.attach(native.node(index))
    return native, [(edge.source, edge.port, edge.target) for edge in edges]


def _work(plan: Plan, runner: Runner, context: Context) -> Any:
    try:
        return runner.native_work(context)
    except BaseException as error:
        raise_start_failure(plan, runner.node, error)


def _caller_edges(plan: Plan) -> list[EdgePlan]:
    """The edges from and to the caller, where a flow has no source or no sink."""
    edges = []
    if (head := plan.head) is not None:
        edges.append(_caller_edge(CALLER, "output", head))
    if (tail := plan.tail) is not None:
        edges.append(_caller_edge(tail, plan.node(tail).ports[0], CALLER))
    return edges


@lru_cache
def _caller_edge(source: str, port: str, target: str) -> EdgePlan:
    """Cached: every new flow needs one or two, and a frozen dataclass is slow to create."""
    return EdgePlan(source, port, target)
