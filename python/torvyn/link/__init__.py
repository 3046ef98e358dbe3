"""Link: a flow as it was written -> a Plan, with every name resolved and nothing started.

draft     what an author wrote, in a file or in a program     plan     what the reactor runs
loading   names -> component classes                          isolate  private imports
nodes     role, ports, run mode of one node                   flow     a draft -> a Plan
topology  the rules of the graph                              project  a file -> Plans
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
