"""The contract: what a component is, what flows through it and what it may answer.

Pure data and base classes, no I/O. Nothing here needs the native module, because the same files run
inside a WebAssembly guest. Every other room builds on this one; this one imports only
`torvyn.errors`.
"""

from torvyn.contract.element import Context, Element, Output
from torvyn.contract.functions import (
    Stage,
    aggregator,
    as_component,
    filter,
    processor,
    router,
    sink,
    source,
    stream,
)
from torvyn.contract.options import (
    Backpressure,
    EdgeOptions,
    FlowOptions,
    NodeOptions,
    OnError,
    PolicyOptions,
    Priority,
    RunMode,
)
from torvyn.contract.roles import (
    INTERFACES,
    ROLES,
    Aggregator,
    Component,
    Emission,
    Filter,
    Processor,
    Router,
    Sink,
    Source,
)
from torvyn.contract.signals import PENDING, End, Pending, Signal
from torvyn.contract.verdict import Verdict

__all__ = [
    "INTERFACES",
    "PENDING",
    "ROLES",
    "Aggregator",
    "Backpressure",
    "Component",
    "Context",
    "EdgeOptions",
    "Element",
    "Emission",
    "End",
    "Filter",
    "FlowOptions",
    "NodeOptions",
    "OnError",
    "Output",
    "Pending",
    "PolicyOptions",
    "Priority",
    "Processor",
    "Router",
    "RunMode",
    "Signal",
    "Sink",
    "Source",
    "Stage",
    "Verdict",
    "aggregator",
    "as_component",
    "filter",
    "processor",
    "router",
    "sink",
    "source",
    "stream",
]
