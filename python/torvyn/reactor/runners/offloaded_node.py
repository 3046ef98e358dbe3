"""What the runners outside the turns share: a port, a procedure, and a bell for the component."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torvyn._native import Port
from torvyn.contract import Component, Context
from torvyn.contract.inspection import set_context, set_node
from torvyn.errors import DeadlineExceeded, Internal
from torvyn.link.plan import NodePlan
from torvyn.reactor.stages import procedure_of

if TYPE_CHECKING:
    from torvyn._native import NodeHandle
    from torvyn.sandbox.component import GuestComponent


class OffloadedNode:
    """`Component._node` for a stage with a runner of its own: its pauses and waits are the
    runner's."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self.native: NodeHandle | None = None

    def wake(self) -> None:
        self._ring()

    def resume(self) -> None:
        self._ring()

    def interrupt(self) -> None:
        if self.native is not None:
            self.native.interrupt()

    def note_findings(self, matches: int, exposed_chars: int) -> None:
        if self.native is not None:
            self.native.note_findings(matches, exposed_chars)


class Offloaded:
    """The host of one component's procedure. It owns the component from `init` to `teardown`: both
    are called where the component's other methods are."""

    awaits = False
    steps = False
    guest: GuestComponent | None = None

    def __init__(self, node: NodePlan, component: Component, config: str) -> None:
        self.node = node
        self.component = component
        self.config = config
        self.port = Port(node.role, list(node.ports))
        self.procedure = procedure_of(component, node.role, self.port, self)
        self.handle = OffloadedNode(self.ring)
        set_node(component, self.handle)

    def native_work(self, context: Context) -> Any:
        set_context(self.component, context)
        return self.port

    def attach(self, handle: NodeHandle) -> None:
        self.handle.native = handle

    def ring(self) -> None:
        """`resume()` or `wake()` of the component, from any thread."""
        raise NotImplementedError

    # The host of the procedure

    async def ready(self, for_credit: bool) -> None:
        raise NotImplementedError

    async def rest(self, seconds: float | None) -> None:
        raise NotImplementedError

    async def step(self) -> None:
        raise NotImplementedError

    def begin_call(self) -> None:
        pass

    def end_call(self) -> None:
        pass

    def failure_of(self, error: BaseException) -> BaseException:
        return error


def awaited_failure(
    error: BaseException, has_cut: bool, is_ending: bool, limit_s: float
) -> BaseException:
    """What to report when an awaited call has raised. `has_cut`: its time limit cancelled it;
    `is_ending`: so did the end of the flow, and then there is nobody to report to."""
    is_cancellation = isinstance(error, asyncio.CancelledError)
    if has_cut and is_cancellation:
        return DeadlineExceeded(f"no answer within {limit_s:g} s")
    if is_ending:
        raise error
    if not is_cancellation:
        return error
    failure = Internal("something it awaited was cancelled")
    failure.__cause__ = error
    return failure
