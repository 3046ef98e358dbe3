"""Types for the annotations of components and of programs that build flows.

Those of the contract need no native module, so a package of components can use them anywhere, a
WebAssembly guest included. `Project` and the statistics are what a flow returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torvyn._lazy import attach

if TYPE_CHECKING:
    from torvyn._contract.element import Context
    from torvyn._contract.functions import ComponentLike, Items, Stage, StreamFunction, as_component
    from torvyn._contract.options import (
        Backpressure,
        EdgeOptions,
        FlowOptions,
        LastResort,
        NodeOptions,
        OnError,
        PolicyName,
        PolicyOptions,
        Priority,
        RunMode,
    )
    from torvyn._contract.roles import (
        BatchResult,
        Component,
        Emission,
        Emissions,
        FilterResult,
        Item,
        PullResult,
        PushResult,
        RouteResult,
        VerdictList,
    )
    from torvyn._contract.signals import Pending
    from torvyn._flow.project import Project
    from torvyn._flow.statistics import EdgeStatistics, NodeStatistics, Statistics

__all__ = [
    "Backpressure",
    "BatchResult",
    "Component",
    "ComponentLike",
    "Context",
    "EdgeOptions",
    "EdgeStatistics",
    "Emission",
    "Emissions",
    "FilterResult",
    "FlowOptions",
    "Item",
    "Items",
    "LastResort",
    "NodeOptions",
    "NodeStatistics",
    "OnError",
    "Pending",
    "PolicyName",
    "PolicyOptions",
    "Priority",
    "Project",
    "PullResult",
    "PushResult",
    "RouteResult",
    "RunMode",
    "Stage",
    "Statistics",
    "StreamFunction",
    "VerdictList",
    "as_component",
]

if not TYPE_CHECKING:
    _HOMES = {
        "torvyn._contract.element": "Context",
        "torvyn._contract.functions": "as_component ComponentLike Items Stage StreamFunction",
        "torvyn._contract.options": (
            "Backpressure EdgeOptions FlowOptions LastResort NodeOptions OnError PolicyName "
            "PolicyOptions Priority RunMode"
        ),
        "torvyn._contract.roles": (
            "BatchResult Component Emission Emissions FilterResult Item PullResult PushResult "
            "RouteResult VerdictList"
        ),
        "torvyn._contract.signals": "Pending",
        "torvyn._flow.project": "Project",
        "torvyn._flow.statistics": "EdgeStatistics NodeStatistics Statistics",
    }
    __getattr__, __dir__ = attach(
        __name__,
        {name: home for home, names in _HOMES.items() for name in names.split()},
    )
