"""Components that run inside the turns: Python, native code, and guests in the sandbox."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from torvyn._native import NativeStage
from torvyn.contract import Component, Context
from torvyn.contract.inspection import read_attribute, set_context, set_node
from torvyn.link.plan import NodePlan
from torvyn.reactor.method_binding import bind
from torvyn.reactor.runners.lifecycle_driver import Place, carried

if TYPE_CHECKING:
    from torvyn._native import NodeHandle
    from torvyn.sandbox.component import GuestComponent


class InlineRunner:
    """The native core makes the calls; `init` and `teardown` run where the flow is driven."""

    is_idle = True
    guest: GuestComponent | None = None

    def __init__(self, node: NodePlan, component: Component, config: str) -> None:
        self.node = node
        self.component = component
        self.config = config
        self._is_initialised = False

    def native_work(self, context: Context) -> Any:
        set_context(self.component, context)
        make_native = read_attribute(self.component, "native_stage", None)
        native = make_native(self.config) if make_native is not None else None
        return bind(self.component, self.node.role) if native is None else NativeStage(*native)

    def attach(self, handle: NodeHandle) -> None:
        set_node(self.component, handle)

    async def init(self, place: Place) -> None:
        try:
            with place.watched(self, "init"):
                result = self.component.init(self.config)
        except (StopIteration, GeneratorExit) as error:
            raise carried(error) from error
        if result is not None:
            await place.settle(result, self.node.init_timeout_s)
        self._is_initialised = True

    def work(self) -> None:
        pass

    async def stop(self, place: Place, limit_s: float) -> None:
        if not self._is_initialised:
            return
        self._is_initialised = False
        try:
            with place.watched(self, "teardown"):
                result = self.component.teardown()
        except (StopIteration, GeneratorExit) as error:
            raise carried(error) from error
        if result is not None:
            await place.settle(result, limit_s)

    def abandon(self) -> None:
        """Torn down on the spot: there is no thread or task of its own that would do it."""
        if not self._is_initialised:
            return
        self._is_initialised = False
        result = self.component.teardown()
        if inspect.iscoroutine(result):
            result.close()


class GuestRunner(InlineRunner):
    """A guest in the sandbox, which keeps the limits of its calls itself."""

    def __init__(self, node: NodePlan, component: Component, config: str) -> None:
        super().__init__(node, component, config)
        self.guest: GuestComponent = cast("GuestComponent", component)

    def native_work(self, context: Context) -> Any:
        return self.guest.stage(self.node.ports, context)

    async def init(self, place: Place) -> None:
        # There is a place to record what a guest is granted before the first one starts.
        if self.guest.limits is not None and self.guest.limits.audit is not None:
            self.guest.limits.audit.open()
        await super().init(place)
