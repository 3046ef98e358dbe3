"""Torvyn: a streaming runtime. Components in a flow pass elements through bounded queues.

    Flow, load                                              a flow in a program, or from a project
    run                                                     a flow of a project on a cluster
    Source, Processor, Filter, Router, Aggregator, Sink     base classes, one per role
    source, processor, filter, router, aggregator, sink     functions as components
    stream                                                  a generator over the whole input
    Element, Batch, Output, End                             the data, and the end of a stream
    Verdict, Signal, PENDING                                return values that are not data
    TorvynError, InvalidInput, Unavailable, Internal, DeadlineExceeded, Fatal    the errors

Public modules, which are attributes as well:

components   the built-in components
engine       language models: a Request to an Answer
serve        a server, as an application and as a program
client       clients of a server
text         token ids to text, text to sentences
protocol     frames of an answer to bytes, and back
telemetry    spans and metrics of a program, for a collector
testing      the test kit
typing       types for annotations
errors       the exception tree

Everything else is not for programs; its names may change:

_contract    what a component is: elements, roles, verdicts, signals
_io          one of each: files, delays, loops, the process and the machine
_manifest    Torvyn.toml to a Manifest
_link        a Manifest or a program to a Plan
_durable     what of a flow outlives its process, on disk or on a NATS server
_flow        a Plan to a running Flow
_sandbox     WebAssembly components: build, compile, describe
_artifact    a project as an OCI artifact: pack, sign, publish, pull, unpack
_observe     logs, spans, metrics
transport    services over HTTP and gRPC
_deploy      deployments on a gateway, and their updates
_cluster     flows on several machines
_cli         the `torvyn` command
_lazy        names that are imported when they are first used
v1           the gRPC messages

A module is imported when one of its names is first used, so `torvyn --help` starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torvyn._lazy import attach

if TYPE_CHECKING:
    from torvyn import client as client
    from torvyn import components as components
    from torvyn import engine as engine
    from torvyn import errors as errors
    from torvyn import protocol as protocol
    from torvyn import serve as serve
    from torvyn import telemetry as telemetry
    from torvyn import testing as testing
    from torvyn import text as text
    from torvyn import typing as typing
    from torvyn._cluster.session import run
    from torvyn._contract.element import Batch, Element, Output
    from torvyn._contract.functions import (
        aggregator,
        filter,
        processor,
        router,
        sink,
        source,
        stream,
    )
    from torvyn._contract.roles import Aggregator, Filter, Processor, Router, Sink, Source
    from torvyn._contract.signals import PENDING, End, Signal, Verdict
    from torvyn._flow.flow import Flow
    from torvyn._flow.project import load
    from torvyn.errors import (
        DeadlineExceeded,
        Fatal,
        Internal,
        InvalidInput,
        TorvynError,
        Unavailable,
    )

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
    "run",
    "sink",
    "source",
    "stream",
]


# Hidden from type checkers: with a `__getattr__` they would accept misspelt names.
if not TYPE_CHECKING:
    _HOMES = {
        "torvyn._contract.element": "Batch Element Output",
        "torvyn._contract.functions": "aggregator filter processor router sink source stream",
        "torvyn._contract.roles": "Aggregator Filter Processor Router Sink Source",
        "torvyn._contract.signals": "End PENDING Signal Verdict",
        "torvyn._cluster.session": "run",
        "torvyn.errors": "DeadlineExceeded Fatal Internal InvalidInput TorvynError Unavailable",
        "torvyn._flow.flow": "Flow",
        "torvyn._flow.project": "load",
    }
    _ROOMS = "client components engine errors protocol serve telemetry testing text typing"
    __getattr__, __dir__ = attach(
        __name__,
        {name: home for home, names in _HOMES.items() for name in names.split()}
        | {room: f"torvyn.{room}" for room in _ROOMS.split()},
    )
