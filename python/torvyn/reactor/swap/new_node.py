"""The plan of a new component for a node that runs, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torvyn._contract.inspection import has_attribute
from torvyn._contract.roles import Component, acknowledges
from torvyn._link.component_library import Library
from torvyn._link.defaults import defaults_of
from torvyn._link.node_linker import NodeLinker
from torvyn._link.plan import NodePlan, Plan
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import NodeRecord
from torvyn._manifest.settings import process_settings
from torvyn.errors import LinkError, quoted
from torvyn.reactor.runners import Runner
from torvyn.reactor.swap.refusals import unfit

Config = str | Mapping[str, Any] | Sequence[Any] | None


def link_node(plan: Plan, old: NodePlan, component: str | Component, config: Config) -> NodePlan:
    """The node with a new component. Limits and policies stay as they are."""
    if config is None and isinstance(component, str) and component == old.component.name:
        config = old.config
    problems = Problems()
    record = NodeRecord(name=old.name, component=component, config=config)
    has_input = old.role != "source"
    linker = NodeLinker(plan.name, Library(), defaults_of(process_settings()), problems)
    found = linker.link(record, old.on_error, has_input=has_input)
    if found is None or problems:
        raise LinkError.of(problems.diagnostics()) from problems.cause
    linked = found.plan
    # A blocking component that has a thread keeps it.
    keeps_thread = linked.run == "inline" and old.run == "thread"
    return replace(
        old,
        role=linked.role,
        component=linked.component,
        config=linked.config,
        run="thread" if keeps_thread else linked.run,
        ports=linked.ports,
        inputs=linked.inputs,
        unit=linked.unit or old.unit,
        grants=linked.grants or old.grants,
    )


def check_fit(old: NodePlan, new: NodePlan) -> None:
    """Raises if the new component does not have the form of the old one."""
    if new.role != old.role:
        raise unfit(old, f"it is a {new.role}, and the node is a {old.role}")
    for kind, have, need in (("ports", new.ports, old.ports), ("inputs", new.inputs, old.inputs)):
        if have != need:
            what = f"its {kind} are {quoted(have) or 'none'}, and the node's are {quoted(need)}"
            raise unfit(old, what, "add or remove edges in the manifest, then restart the flow")
    if (new.key is None) != (old.key is None):
        raise unfit(old, "it must have one component per key, or none, as before")


def check_component(old: Runner, new: Runner) -> None:
    """Raises for what can be told only from the components."""
    for runner in (old, new):
        if has_attribute(runner.component, "stream_function"):
            what = "a stream function reads one element ahead, so it is never between two elements"
            raise unfit(old.node, what, "write it as a processor or an aggregator")
    if acknowledges(old.component) != acknowledges(new.component):
        what = "one of them waits for acknowledgements, and the other does not"
        raise unfit(old.node, what, "restart the flow")
