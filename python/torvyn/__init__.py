"""Torvyn: flows of small components through which elements stream.

    contract   what a component is            manifest   Torvyn.toml -> Manifest
    components the built-in parts             link       Manifest -> Plan
    reactor    Plan -> Flow                   text       token bytes -> text, sentences
    observe    statistics, logs               testing    the test kit
    cli        the `torvyn` command           errors     the exception tree

Only the contract is loaded by `import torvyn`; `Flow` and `load` bring the native module when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torvyn.contract import (
    PENDING,
    Aggregator,
    Element,
    End,
    Filter,
    Output,
    Processor,
    Router,
    Signal,
    Sink,
    Source,
    Verdict,
    aggregator,
    filter,
    processor,
    router,
    sink,
    source,
    stream,
)
from torvyn.errors import (
    DeadlineExceeded,
    Fatal,
    Internal,
    InvalidInput,
    TorvynError,
    Unavailable,
)

if TYPE_CHECKING:
    from torvyn.reactor import Flow, load

__version__ = "0.1.0"

__all__ = [
    "PENDING",
    "Aggregator",
    "DeadlineExceeded",
    "Element",
    "End",
    "Fatal",
    "Filter",
    "Flow",
    "Internal",
    "InvalidInput",
    "Output",
    "Processor",
    "Router",
    "Signal",
    "Sink",
    "Source",
    "TorvynError",
    "Unavailable",
    "Verdict",
    "aggregator",
    "filter",
    "load",
    "processor",
    "router",
    "sink",
    "source",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name in ("Flow", "load"):
        from torvyn import reactor

        return getattr(reactor, name)
    raise AttributeError(f"module 'torvyn' has no attribute {name!r}")
