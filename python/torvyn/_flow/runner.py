"""Runners: each owns one component and calls it, from `init` to `teardown`. Here are those that run
inside the turns: Python, native code, and guests in the sandbox.

The methods of an inline component are bound once, before the first turn. The native core calls
these methods and never reads the component itself. So an attribute that raises, or an `__iter__`
that returns no iterator, fails at the start, and the error names the node.
"""

from __future__ import annotations

import inspect
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, cast

from torvyn._contract.config import init_argument
from torvyn._contract.element import Context
from torvyn._contract.enums import Role
from torvyn._contract.inspection import (
    bound_method,
    has_attribute,
    iterator_of,
    read_attribute,
    set_attribute,
)
from torvyn._contract.roles import (
    METHODS,
    OPTIONAL_METHODS,
    TIMER_METHODS,
    Component,
    acknowledges,
    batch_method_of,
    counts_held_elements,
    defines_method,
    has_timer,
)
from torvyn._flow.cpu_throttle import CpuThrottle
from torvyn._flow.lifecycle_driver import LifecycleDriver, wrap_error
from torvyn._link.component_traits import inputs_of, is_guest
from torvyn._link.plan import NodePlan
from torvyn._native import NativeStage
from torvyn.components.config import config_text

if TYPE_CHECKING:
    from torvyn._flow.stepped_runner import StepScheduler
    from torvyn._native import NodeHandle
    from torvyn._sandbox.component import GuestComponent


class IterableSource:
    """A source that is iterated: its iterator and its other methods."""

    def __init__(self, items: Any, **methods: Any) -> None:
        self._items = items
        self.__dict__.update(methods)

    def __iter__(self) -> Any:
        return self._items


def bind(component: Component, role: str, throttle: CpuThrottle | None = None) -> Any:
    """The object that the native core calls in place of the component."""
    others = OPTIONAL_METHODS[role] + (TIMER_METHODS if has_timer(component, role) else ())
    optional = {name: bound_method(component, name) for name in others}
    if role == Role.SOURCE and acknowledges(component):
        optional["acknowledge"] = bound_method(component, "acknowledge")
    if counts_held_elements(component, role):
        optional["held_elements"] = bound_method(component, "held_elements")
    if inputs_of(component, role):
        optional["set_input"] = partial(setattr, component, "input")
    if role == Role.SOURCE and has_attribute(component, "__iter__"):
        items = iterator_of(component)
        return IterableSource(throttle.throttle_items(items) if throttle else items, **optional)
    batch_method = batch_method_of(component, role)
    names = [] if batch_method is None else [batch_method]
    if batch_method is None or defines_method(component, role, METHODS[role]):
        names.append(METHODS[role])
    for name in names:
        method = bound_method(component, name)
        optional[name] = method if throttle is None else throttle.throttle_pull(method)
    return SimpleNamespace(**optional)


__all__ = ["Runner", "make_runner"]


class Runner(Protocol):
    """Calls one component of a flow: `init`, `start`, `stop`; or `abandon` if it does not end."""

    node: NodePlan
    component: Component
    is_offloaded: bool
    """Whether it runs outside the turns."""

    guest: GuestComponent | None
    """The component, if it runs in the sandbox."""

    throttle: CpuThrottle | None
    """Delays a source that uses more than its share of the CPU. Set before the start."""

    @property
    def cpu_ns(self) -> int | None:
        """The CPU time of its calls so far; None if the reactor samples them. From any thread."""

    @property
    def is_idle(self) -> bool:
        """Whether the runner waits for the reactor or the component. From any thread."""

    def native_work(self, context: Context) -> Any:
        """What the native core calls or exchanges tasks with."""

    def attach(self, handle: NodeHandle) -> None:
        """Sets the node of the native flow, which the component may wake or interrupt."""

    def detach(self) -> None:
        """Another component has taken its node, which it must not wake or interrupt any more."""

    async def init(self, driver: LifecycleDriver) -> None:
        """Initializes the component; raises its exception, or `LimitExceeded`."""

    def start(self) -> None:
        """Allows calls of the component: the flow runs."""

    async def acknowledge(self, driver: LifecycleDriver, count: int) -> None:
        """Delivers a source's last acknowledgements, after the last turn."""

    async def stop(self, driver: LifecycleDriver, limit_s: float) -> None:
        """Ends the work and tears down an initialized component; raises as `init` does."""

    def abandon(self) -> None:
        """Ends and tears down as far as possible, without waiting."""


def make_runner(
    node: NodePlan, component: Component, scheduler: StepScheduler | None = None
) -> Runner:
    config = node.config or config_text(read_attribute(component, "config"))
    if node.run == "inline":
        kind = GuestRunner if is_guest(component) else InlineRunner
        return kind(node, component, config)
    if scheduler is not None:
        return scheduler.runner(node, component, config)
    # Imported here: a flow whose components all run inside the turns needs no executors.
    if node.run == "thread":
        from torvyn._flow.thread_runner import ThreadRunner

        return ThreadRunner(node, component, config)
    from torvyn._flow.async_runner import AsyncRunner

    return AsyncRunner(node, component, config)


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
