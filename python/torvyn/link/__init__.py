"""Link: a flow's record -> a Plan, with every name resolved and nothing started.

project_linker    a manifest -> Plans, all problems at once   overrides        --config, --input ...
flow_linker       a flow -> its Plan                          node_linker      a node -> NodePlan
component_loader  names -> component classes                  private_imports  a package per folder
component_traits  role, ports, methods of a component         option_values    checked by the schema
error_policy      `on_error` -> ErrorPolicy                   dead_letters     their edges and sinks
defaults          values from the settings                    plan, render     the result
checks            the rules that a flow is checked against
"""

from torvyn.link.component_loader import instantiate
from torvyn.link.flow_linker import link_flow
from torvyn.link.overrides import Overrides
from torvyn.link.plan import ComponentRef, EdgePlan, ErrorPolicy, NodePlan, Plan, RuntimePlan
from torvyn.link.project_linker import ProjectLinker

__all__ = [
    "ComponentRef",
    "EdgePlan",
    "ErrorPolicy",
    "NodePlan",
    "Overrides",
    "Plan",
    "ProjectLinker",
    "RuntimePlan",
    "instantiate",
    "link_flow",
]
