"""The contract: what a component is, what flows through it and what it may answer.

Pure data and base classes, no I/O. Nothing here needs the native module, because the same files run
inside a WebAssembly guest. Every other room builds on this one; this one imports only
`torvyn.errors`.
"""

from torvyn.contract.element import Context, Element, Output
from torvyn.contract.functions import (
    aggregator,
    as_component,
    filter,
    processor,
    router,
    sink,
    source,
    stream,
)
from torvyn.contract.roles import (
    INTERFACES,
    ROLES,
    Aggregator,
    Component,
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
    "Component",
    "Context",
    "Element",
    "End",
    "Filter",
    "Output",
    "Pending",
    "Processor",
    "Router",
    "Signal",
    "Sink",
    "Source",
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
