"""Link: a manifest or a program to a Plan, with every name resolved and nothing started.

draft             a flow as its author wrote it
project           the flows of a manifest to Plans
flow_linker       a flow to a Plan
node_linker       one node: component, role, ports, run mode
component_loader  names to component classes
component_traits  what link reads from a component without starting it
private_imports   each component folder is a package of its own
defaults          defaults from the settings
option_values     validates options
error_policy      `on_error` and where dead letters go
checks            the rules that a flow is checked against
plan              the Plan
render            the Plan for people
"""

from torvyn.link.component_loader import instantiate
from torvyn.link.draft import EdgeDraft, FlowDraft, NodeDraft
from torvyn.link.flow_linker import link_flow
from torvyn.link.plan import ComponentRef, EdgePlan, ErrorPolicy, NodePlan, Plan, RuntimePlan
from torvyn.link.project import check, link, load_plan

__all__ = [
    "ComponentRef",
    "EdgeDraft",
    "EdgePlan",
    "ErrorPolicy",
    "FlowDraft",
    "NodeDraft",
    "NodePlan",
    "Plan",
    "RuntimePlan",
    "check",
    "instantiate",
    "link",
    "link_flow",
    "load_plan",
]
