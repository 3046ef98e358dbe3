"""Warns of priorities that change nothing: they are shares among the flows of a process."""

from __future__ import annotations

from typing import Final

from torvyn.manifest.problems import Problems
from torvyn.manifest.records import Manifest
from torvyn.manifest.schema.tables import FLOW

_CODE: Final = "link.priority-unused"


def check_priorities(manifest: Manifest, problems: Problems) -> None:
    """A flow that is alone has all workers to itself; flows that are equal have equal shares."""
    normal = FLOW.default("priority")
    flows = [*manifest.flows.values()]
    given = {flow.priority or normal for flow in flows}
    if len(given) != 1 or normal in given or manifest.broken_flows:
        return
    first = flows[0]
    if len(flows) == 1:
        message = f"the priority of flow `{first.name}` has no effect: the manifest has no other"
    else:
        message = f"all flows have the priority `{first.priority}`, so it has no effect"
    hint = "leave it out: priorities are shares among the flows that run in one process"
    problems.warn(_CODE, message, first.at("priority"), hint)
