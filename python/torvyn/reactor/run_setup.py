"""The parts of one run: a runner per node, made from the Plan, and what the sandbox may give."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from torvyn.components.builtin.sink_file import File
from torvyn.contract import Component, Context
from torvyn.contract.inspection import is_instance
from torvyn.contract.request_roles import RequestProcessor, RequestSource
from torvyn.link import instantiate
from torvyn.link.plan import NodePlan, Plan
from torvyn.reactor.failures import raise_start_failure
from torvyn.reactor.runners import Runner, make_runner
from torvyn.sandbox.audit import Audit
from torvyn.sandbox.component import GuestComponent, GuestLimits

if TYPE_CHECKING:
    from torvyn.reactor.runners.stepped_runner import StepScheduler


def make_runners(plan: Plan, audit: Audit, scheduler: StepScheduler | None = None) -> list[Runner]:
    """In the order of the nodes; no method of a component has been called yet."""
    runners = []
    for node in plan.nodes:
        try:
            runners.append(make_runner(node, _component(plan, node, audit), scheduler))
        except BaseException as error:
            raise_start_failure(plan, node, error)
    _connect_request(runners)
    return runners


def _connect_request(runners: list[Runner]) -> None:
    """An engine with an input finds there the texts of a request, and the rest of it here."""
    components = [runner.component for runner in runners]
    source = next((one for one in components if is_instance(one, RequestSource)), None)
    for component in components:
        if is_instance(component, RequestProcessor):
            component.request_source = source


def _component(plan: Plan, node: NodePlan, audit: Audit) -> Component:
    component = instantiate(node.component)
    if is_instance(component, GuestComponent):
        component.set_limits(_guest_limits(plan, node, audit))
    if is_instance(component, File) and plan.secrets:
        component.redact = plan.redact
    return component


def _guest_limits(plan: Plan, node: NodePlan, audit: Audit) -> GuestLimits:
    init_timeout_s = node.init_timeout_s
    return GuestLimits(
        node.name,
        max_memory_bytes=node.max_memory_bytes,
        call_timeout_s=node.call_timeout_s,
        init_timeout_s=GuestLimits.DEFAULT_INIT_S if init_timeout_s is None else init_timeout_s,
        teardown_timeout_s=plan.runtime.teardown_timeout_s,
        fuel=node.fuel,
        seed=node.seed,
        grants=node.grants,
        audit=audit,
    )


def make_context(plan: Plan, request_id: str | None = None) -> Context:
    deadline_s, ids = plan.deadline_s, os.urandom(24).hex()
    return Context(
        flow_id=ids[:16],
        flow_name=plan.name,
        trace_id=ids[16:],
        deadline_ns=None if deadline_s is None else time.monotonic_ns() + int(deadline_s * 1e9),
        request_id=request_id,
    )
