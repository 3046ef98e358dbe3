"""The setup of one run of a Plan: its context, and a runner per node."""

from __future__ import annotations

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
from torvyn._io.safe_text import redact
from torvyn._link.component_library import instantiate
from torvyn._link.component_traits import is_guest
from torvyn._link.key_reader import key_reader
from torvyn._link.plan import NodePlan, Plan
from torvyn._manifest.setting_records import GUEST_INIT_TIMEOUT_S
from torvyn.errors import LinkError
from torvyn.reactor.failures import raise_start_failure
from torvyn.reactor.runners import Runner, make_runner

if TYPE_CHECKING:
    from torvyn._native import ManualClock
    from torvyn._sandbox.audit import Audit
    from torvyn._sandbox.component import GuestComponent
    from torvyn.reactor.runners.stepped_runner import StepScheduler


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
