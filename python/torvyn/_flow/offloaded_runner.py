"""What the runners outside the turns share: a port, an executor, and a handle to wake them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torvyn._contract.element import Context
from torvyn._contract.enums import Role
from torvyn._contract.inspection import has_attribute, set_attribute
from torvyn._contract.roles import Component, acknowledges, batch_method_of
from torvyn._flow.cpu_throttle import CpuThrottle
from torvyn._flow.executors import (
    BatchExecutor,
    ElementExecutor,
    Host,
    SourceExecutor,
    StageExecutor,
    StreamExecutor,
)
from torvyn._link.plan import NodePlan
from torvyn._native import Port
from torvyn.errors import DeadlineExceeded, Internal

if TYPE_CHECKING:
    from torvyn._flow.lifecycle_driver import LifecycleDriver
    from torvyn._native import NodeHandle
    from torvyn._sandbox.component import GuestComponent


class OffloadedHandle:
    """`Component._node` of an offloaded stage: its runner, not the reactor, does its waiting."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = self.resume = wake
        self.native: NodeHandle | None = None

    def interrupt(self) -> None:
        if self.native is not None:
            self.native.interrupt()

    def note_findings(self, matches: int, exposed_chars: int) -> None:
        if self.native is not None:
            self.native.note_findings(matches, exposed_chars)


class OffloadedRunner:
    """Hosts the executor of one component, and calls `init` and `teardown` where the executor calls
    the component's other methods."""

    is_offloaded = True
    is_async = False
    is_stepped = False
    throttle: CpuThrottle | None = None
    guest: GuestComponent | None = None

    def __init__(self, node: NodePlan, component: Component, config: str) -> None:
        self.node = node
        self.component = component
        self.config = config
        self.port = Port(node.role, list(node.ports), acknowledges(component))
        self.executor = _make_executor(component, node.role, self.port, self)
        self.handle = OffloadedHandle(self.wake)
        set_attribute(component, "_node", self.handle)

    @property
    def cpu_ns(self) -> int | None:
        return None

    def native_work(self, context: Context) -> Any:
        set_attribute(self.component, "_context", context)
        return self.port

    def attach(self, handle: NodeHandle) -> None:
        self.handle.native = handle

    def detach(self) -> None:
        self.handle.native = None

    def wake(self) -> None:
        """`resume()` or `wake()` of the component, from any thread."""
        raise NotImplementedError

    async def acknowledge(self, driver: LifecycleDriver, count: int) -> None:
        self.component.acknowledge(count)  # type: ignore[attr-defined]

    # The host of the executor

    async def wait_for_work(self, needs_credit: bool) -> None:
        raise NotImplementedError

    async def sleep(self, seconds: float | None) -> None:
        raise NotImplementedError

    async def step(self) -> None:
        raise NotImplementedError

    def begin_call(self) -> None:
        pass

    def end_call(self) -> None:
        pass

    def failure_of(self, error: BaseException) -> BaseException:
        return error


def awaited_call_error(
    error: BaseException, has_timed_out: bool, is_ending: bool, limit_s: float
) -> BaseException:
    """The error to report for an awaited call. `has_timed_out`: its time limit cancelled it.
    `is_ending`: the end of the flow did, so there is nothing to report."""
    is_cancellation = isinstance(error, asyncio.CancelledError)
    if has_timed_out and is_cancellation:
        return DeadlineExceeded(f"no answer within {limit_s:g} s")
    if is_ending:
        raise error
    if not is_cancellation:
        return error
    failure = Internal("something that the call awaited was cancelled")
    failure.__cause__ = error
    return failure


def _make_executor(component: Component, role: str, port: Port, host: Host) -> StageExecutor:
    if role == Role.SOURCE:
        return SourceExecutor(component, role, port, host)
    if has_attribute(component, "stream_function"):
        return StreamExecutor(component, role, port, host)
    if batch_method_of(component, role) is not None:
        return BatchExecutor(component, role, port, host)
    return ElementExecutor(component, role, port, host)
