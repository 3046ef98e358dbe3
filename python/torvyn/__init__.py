"""Torvyn: a streaming runtime. Components in a flow pass elements through bounded queues.

    Flow, load                                              a flow in a program, or from a project
    Source, Processor, Filter, Router, Aggregator, Sink     base classes, one per role
    source, processor, filter, router, aggregator, sink     functions as components
    stream                                                  a generator over the whole input
    Element, Batch, Output, End                             the data, and the end of a stream
    Verdict, Signal, PENDING                                return values that are not data
    TorvynError, InvalidInput, Unavailable, Internal, DeadlineExceeded, Fatal    the errors

errors       the exception tree
catalogue    the error codes
contract     what a component is: elements, roles, verdicts, signals
concurrency  event loops, threads, and what crosses between them
machine      limits of memory and CPUs, messages to systemd
text         token ids to text, text to sentences
v1           the gRPC messages
protocol     frames of an answer to bytes, and back
client       clients of a server
components   the built-in components
manifest     Torvyn.toml to a Manifest
sandbox      WebAssembly components: build, compile, describe
durable      logs of batches, and checkpoints, on disk
jetstream    messages and entries that a NATS server stores
artifact     a project as an OCI artifact: pack, sign, publish, pull, unpack
link         a Manifest or a program to a Plan
reactor      a Plan to a running Flow
engine       language models: a Request to an Answer
observe      logs, spans, statistics
transport    services over HTTP and gRPC
edge         deployments on a gateway, and their updates
cluster      flows on several machines
testing      the test kit
cli          the `torvyn` command

A package is imported when one of its names is first used, so `torvyn --help` starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torvyn import client as client
    from torvyn import engine as engine
    from torvyn.contract import (
        PENDING,
        Aggregator,
        Batch,
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
    "Batch",
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


_MODULES = {"Flow": "reactor", "load": "reactor"} | dict.fromkeys(
    ("DeadlineExceeded", "Fatal", "Internal", "InvalidInput", "TorvynError", "Unavailable"),
    "errors",
)


_SUBPACKAGES = frozenset({"client", "engine"})
"""Packages that are attributes too: `torvyn.engine.open("local")`."""


# Hidden from type checkers: with a `__getattr__` they would accept misspelt names.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__ and name not in _SUBPACKAGES:
            raise AttributeError(f"module 'torvyn' has no attribute {name!r}")
        from importlib import import_module

        if name in _SUBPACKAGES:
            return import_module(f"torvyn.{name}")
        module = import_module(f"torvyn.{_MODULES.get(name, 'contract')}")
        value = globals()[name] = getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
