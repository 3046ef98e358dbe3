"""Torvyn: flows of small components through which elements stream.

    contract   what a component is            manifest   Torvyn.toml -> Manifest
    components the built-in parts             link       Manifest -> Plan
    reactor    Plan -> Flow                   text       token bytes -> text, sentences
    observe    statistics, logs               testing    the test kit
    cli        the `torvyn` command           errors     the exception tree

A name's room is loaded when the name is first used: `torvyn --help` needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torvyn import client as client
    from torvyn import engine as engine
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


_LATE = {"Flow": "reactor", "load": "reactor"} | dict.fromkeys(
    ("DeadlineExceeded", "Fatal", "Internal", "InvalidInput", "TorvynError", "Unavailable"),
    "errors",
)


_ROOMS = frozenset({"client", "engine"})
"""Rooms that are names of their own: `torvyn.engine.open("local")`."""


# A type checker that sees a `__getattr__` takes every misspelt name for one that may exist.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__ and name not in _ROOMS:
            raise AttributeError(f"module 'torvyn' has no attribute {name!r}")
        from importlib import import_module

        if name in _ROOMS:
            return import_module(f"torvyn.{name}")
        room = import_module(f"torvyn.{_LATE.get(name, 'contract')}")
        value = globals()[name] = getattr(room, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
