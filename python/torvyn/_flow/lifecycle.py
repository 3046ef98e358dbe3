"""The components of a run: makes a runner for each node, initializes all, and tears them down.

`init` goes from the first component to the last, teardown from the last to the first. Each one is
torn down once: if a thread gets stuck in a teardown, another thread continues with the rest.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from torvyn._contract.element import Context
from torvyn._contract.inspection import (
    class_name,
    describe_error,
    has_attribute,
    is_instance,
    read_attribute,
    set_attribute,
)
from torvyn._contract.roles import Component, RequestProcessor, RequestSource, has_timer
from torvyn._flow.failures import (
    init_failure,
    init_timeout,
    is_from_outside,
    log_acknowledge_failure,
    raise_start_failure,
)
from torvyn._flow.lifecycle_driver import LifecycleDriver, LimitExceeded, WrappedError
from torvyn._flow.runner import Runner, make_runner
from torvyn._flow.stuck_calls import stack_of
from torvyn._io.safe_text import redact
from torvyn._link.component_library import instantiate
from torvyn._link.component_traits import is_guest
from torvyn._link.key_reader import key_reader
from torvyn._link.plan import NodePlan, Plan
from torvyn._manifest.setting_records import GUEST_INIT_TIMEOUT_S
from torvyn._native import NativeFlow
from torvyn.errors import LinkError

if TYPE_CHECKING:
    from torvyn._flow.stepped_runner import StepScheduler
    from torvyn._native import ManualClock
    from torvyn._sandbox.audit import Audit
    from torvyn._sandbox.component import GuestComponent

logger = logging.getLogger("torvyn.reactor")


class Lifecycle:
    def __init__(self, plan: Plan, runners: list[Runner]) -> None:
        self._plan = plan
        self._runners = runners
        self._initialized: list[Runner] = []
        """What is left to tear down. `pop` gives each runner to one thread."""
        self._is_abandoned = False

    async def init(self, driver: LifecycleDriver) -> None:
        """Initializes all; raises for the first that fails, after tearing down those before it."""
        for runner in self._runners:
            self._initialized.append(runner)
            try:
                await runner.init(driver)
            except BaseException as error:
                await self.teardown(driver)
                failed = self._init_error(runner, error)
                raise failed from failed.__cause__
            if self._is_abandoned:
                # `init` returned after the run had been abandoned.
                self._initialized.append(runner)
                await self.teardown(driver)
                raise LimitExceeded(runner.node.init_timeout_s or 0.0)

    def _init_error(self, runner: Runner, error: BaseException) -> BaseException:
        if isinstance(error, WrappedError):
            error = error.error
        if isinstance(error, LimitExceeded):
            timeout = init_timeout(self._plan, runner.node)
            note_stack(timeout, stack_of(error.thread_id))
            return timeout
        return init_failure(self._plan, runner.node, error)

    async def acknowledge(self, native: NativeFlow, driver: LifecycleDriver) -> None:
        """Delivers the acknowledgements that came after a source's last call."""
        for index, runner in enumerate(self._runners):
            count = native.take_acknowledgements(index)
            if not count:
                continue
            try:
                await runner.acknowledge(driver, count)
            except Exception as error:
                log_acknowledge_failure(error)

    async def teardown(self, driver: LifecycleDriver) -> None:
        """Logs failures and never raises them: the flow is over."""
        while self._initialized:
            await self.stop(self._initialized.pop(), driver)

    async def stop(self, runner: Runner, driver: LifecycleDriver) -> None:
        """Ends the work of a runner, tears its component down, and logs its failures."""
        try:
            await runner.stop(driver, self._plan.runtime.teardown_timeout_s)
        except LimitExceeded as exceeded:
            self.report_stuck(runner, "teardown", stack_of(exceeded.thread_id))
        except BaseException as error:
            # GeneratorExit: the coroutine is being closed and must not wait again.
            if isinstance(error, GeneratorExit) or is_from_outside(error):
                raise
            logger.warning("node `%s` failed in `teardown`", runner.node.name, exc_info=True)
        set_attribute(runner.component, "_node", None)

    def replace(self, old: Runner, new: Runner) -> None:
        """The new runner is torn down in the place of the old one, which has another owner now."""
        at = self._initialized.index(old)
        self._initialized[at] = new

    def abandon(self) -> None:
        """Tears down without waiting, when there is no loop left to await anything on."""
        while self._initialized:
            runner = self._initialized.pop()
            try:
                runner.abandon()
            except Exception:
                logger.warning("node `%s` failed in `teardown`", runner.node.name, exc_info=True)
            set_attribute(runner.component, "_node", None)

    def exclude(self, stuck: Runner | None) -> None:
        """Ends the run. A thread is stuck inside `stuck`, so it is not torn down."""
        self._is_abandoned = True
        if stuck is not None and stuck in self._initialized:
            self._initialized.remove(stuck)

    def report_stuck(self, runner: Runner, phase: str, stack: str) -> None:
        logger.warning(
            "node `%s` did not end within %g s and was abandoned%s",
            runner.node.name,
            self._plan.runtime.teardown_timeout_s,
            f"; it is in `{phase}`:\n{stack}" if stack else "",
            extra={"node": runner.node.name, "event": "node.abandoned"},
        )


def note_stack(error: BaseException, stack: str) -> None:
    """Adds a stack to the error, which Python's tracebacks show too."""
    if stack:
        error.add_note(f"where it is stuck:\n{stack}".rstrip())


@dataclass(slots=True)
class RunSetup:
    """What the components of a run share."""

    flow_id: str
    scheduler: StepScheduler | None = None
    clock: ManualClock | None = None
    audit: Audit | None = None
    """Of the guests; None before the first one."""

    def set_limits(self, plan: Plan, node: NodePlan, guest: GuestComponent) -> None:
        from torvyn._sandbox.audit import Audit
        from torvyn._sandbox.component import GuestLimits

        if self.audit is None:
            self.audit = Audit(plan.audit, plan.audit_file, plan.name, self.flow_id)
        limits = GuestLimits(
            node.name,
            max_memory_bytes=node.max_memory_bytes,
            call_timeout_s=node.call_timeout_s,
            init_timeout_s=node.init_timeout_s or GUEST_INIT_TIMEOUT_S,
            teardown_timeout_s=plan.runtime.teardown_timeout_s,
            fuel=node.fuel,
            seed=node.seed,
            grants=node.grants,
            audit=self.audit,
        )
        guest.set_limits(limits)

    def close(self) -> None:
        if self.audit is not None:
            self.audit.close()


def make_runners(plan: Plan, setup: RunSetup) -> list[Runner]:
    """The runners in the order of the nodes. No method of a component has been called yet."""
    runners = [make_node_runner(plan, node, setup) for node in plan.nodes]
    connect_request(runners)
    return runners


def make_successor(component: Component) -> None:
    """Tells a new component that another one has had its node."""
    with suppress(AttributeError):
        component.is_successor = True


def make_node_runner(plan: Plan, node: NodePlan, setup: RunSetup) -> Runner:
    wall_clock = read_attribute(setup.clock, "wall_ns", None)
    try:
        component = _component(plan, node, setup)
        if wall_clock is not None:
            set_attribute(component, "_wall_clock", wall_clock)
        return make_runner(node, component, setup.scheduler)
    except BaseException as error:
        raise_start_failure(plan, node, error)


def connect_request(runners: list[Runner]) -> None:
    """Gives the source of the request to an engine with an input, whose input has only texts."""
    components = [runner.component for runner in runners]
    source = next((item for item in components if is_instance(item, RequestSource)), None)
    for component in components:
        if is_instance(component, RequestProcessor):
            component.request_source = source


def _component(plan: Plan, node: NodePlan, setup: RunSetup) -> Component:
    if node.key is not None:
        return _keyed(node)
    component = instantiate(node.component)
    if is_guest(component):
        setup.set_limits(plan, node, component)
    return component


def _keyed(node: NodePlan) -> Component:
    """One component per key. A live component is the model of which each key gets a copy."""
    from torvyn.components.keys.keyed_components import KeyedComponents
    from torvyn.components.keys.keyed_roles import KeyedAggregator, KeyedProcessor

    ref = node.component
    make = partial(instantiate, ref) if ref.instance is None else partial(_copy, ref.instance)
    keyed = KeyedComponents(
        make, key_reader(node.key), node.max_keys, node.max_memory_bytes, node.name
    )
    model = keyed.model
    has_state = has_attribute(model, "snapshot") and has_attribute(model, "restore")
    kind = KeyedAggregator if node.role == "aggregator" else KeyedProcessor
    return kind(keyed, has_timer(model, node.role), has_state)


def _copy(component: Component) -> Component:
    try:
        return deepcopy(component)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        name = class_name(component)
        message = f"`{name}` cannot be copied for each key: {describe_error(error)}"
        hint = "create what cannot be copied in `init`"
        raise LinkError("link.bad-key", message, hint=hint) from error


def make_context(plan: Plan, request_id: str | None = None) -> Context:
    deadline_s, ids = plan.deadline_s, os.urandom(24).hex()
    return Context(
        flow_id=ids[:16],
        flow_name=plan.name,
        trace_id=ids[16:],
        deadline_ns=None if deadline_s is None else time.monotonic_ns() + int(deadline_s * 1e9),
        request_id=request_id,
        redact=partial(redact, secrets=plan.secrets) if plan.secrets else None,
    )
