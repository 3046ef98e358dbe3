"""Runs components inside the turns: Python, native code, and guests in the sandbox."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from torvyn._contract.config import init_argument
from torvyn._contract.element import Context
from torvyn._contract.inspection import read_attribute, set_attribute
from torvyn._contract.roles import Component
from torvyn._link.plan import NodePlan
from torvyn._native import NativeStage
from torvyn.reactor.run.cpu_throttle import CpuThrottle
from torvyn.reactor.run.method_binding import bind
from torvyn.reactor.runners.lifecycle_driver import LifecycleDriver, wrap_error

if TYPE_CHECKING:
    from torvyn._native import NodeHandle
    from torvyn._sandbox.component import GuestComponent


class InlineRunner:
    """The native core makes the calls; `init` and `teardown` run where the flow is driven."""

    is_idle = True
    is_offloaded = False
    cpu_ns: int | None = None
    throttle: CpuThrottle | None = None
    guest: GuestComponent | None = None

    def __init__(self, node: NodePlan, component: Component, config: str) -> None:
        self.node = node
        self.component = component
        self.config = config
        self._is_initialized = False

    def native_work(self, context: Context) -> Any:
        set_attribute(self.component, "_context", context)
        make_native = read_attribute(self.component, "native_stage", None)
        native = make_native(self.config) if make_native and not self.throttle else None
        if native is not None:
            return NativeStage(*native)
        return bind(self.component, self.node.role, self.throttle)

    def attach(self, handle: NodeHandle) -> None:
        set_attribute(self.component, "_node", handle)

    def detach(self) -> None:
        set_attribute(self.component, "_node", None)

    async def init(self, driver: LifecycleDriver) -> None:
        try:
            with driver.call_limit(self, "init"):
                result = self.component.init(init_argument(self.component, self.config))
        except (StopIteration, GeneratorExit) as error:
            raise wrap_error(error) from error
        if result is not None:
            await driver.await_result(result, self.node.init_timeout_s)
        self._is_initialized = True

    def start(self) -> None:
        pass

    async def acknowledge(self, driver: LifecycleDriver, count: int) -> None:
        self.component.acknowledge(count)  # type: ignore[attr-defined]

    async def stop(self, driver: LifecycleDriver, limit_s: float) -> None:
        if not self._is_initialized:
            return
        self._is_initialized = False
        try:
            with driver.call_limit(self, "teardown"):
                result = self.component.teardown()
        except (StopIteration, GeneratorExit) as error:
            raise wrap_error(error) from error
        if result is not None:
            await driver.await_result(result, limit_s)

    def abandon(self) -> None:
        """Tears down at once: an inline component has no thread or task that could do it later."""
        if not self._is_initialized:
            return
        self._is_initialized = False
        result = self.component.teardown()
        if inspect.iscoroutine(result):
            result.close()


class GuestRunner(InlineRunner):
    """A guest in the sandbox, which enforces the limits of its calls itself."""

    def __init__(self, node: NodePlan, component: Component, config: str) -> None:
        super().__init__(node, component, config)
        self.guest: GuestComponent = cast("GuestComponent", component)

    def native_work(self, context: Context) -> Any:
        return self.guest.stage(self.node.ports, context)

    async def init(self, driver: LifecycleDriver) -> None:
        # The audit log must be open before the first guest starts.
        if self.guest.limits is not None and self.guest.limits.audit is not None:
            self.guest.limits.audit.open()
        await super().init(driver)
