"""The options of flows, nodes and edges, as types.

A type checker reports a misspelt value or key in the source; `link` reports it again. The manifest
accepts the same values: a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Required, TypeAlias, TypedDict

from torvyn._contract.element import Element

Priority: TypeAlias = Literal["critical", "high", "normal", "low", "background"]
Backpressure: TypeAlias = Literal["block", "drop-oldest", "drop-newest", "error"]
Carrier: TypeAlias = Literal["memory", "disk", "nats"]
Order: TypeAlias = Literal["oldest-first", "live-first"]
RunMode: TypeAlias = Literal["inline", "async", "thread"]
PolicyName: TypeAlias = Literal["fail-fast", "set-aside", "skip", "retry", "dead-letter"]
LastResort: TypeAlias = Literal["fail-fast", "set-aside", "skip", "dead-letter"]
"""The policies that may follow the last retry."""


class PolicyOptions(TypedDict, total=False):
    """`on_error` as a table. Only `retry` takes `max`, `backoff`, `max_backoff` and `then`."""

    policy: Required[PolicyName]
    max: int
    backoff: str | float
    max_backoff: str | float
    then: LastResort
    to: str
    """The target of dead letters: `"node"`, `"node:port"` or a file."""


OnError: TypeAlias = PolicyName | PolicyOptions


class PlaceOptions(TypedDict, total=False):
    """`place`: what the group of a node needs on a cluster."""

    replicas: int
    cpus: float
    gpus: float
    memory: str | int
    resources: Mapping[str, float]


class NodeOptions(TypedDict, total=False):
    """The keywords of `Flow.add`, which are those of `[flow.N.nodes.X]`."""

    interface: str | None
    config: str | Mapping[str, Any] | Sequence[Any] | None
    max_memory_bytes: int | None
    call_timeout_s: float | None
    init_timeout_s: float | None
    cpu_share: float | None
    fuel: int | None
    deterministic: bool | None
    seed: int | None
    run: RunMode | None
    key: str | Callable[[Element], Any] | None
    max_keys: int | None
    on_error: OnError | None
    unit: str | None
    ignored_ports: Sequence[str] | None
    place: PlaceOptions | None


class EdgeOptions(TypedDict, total=False):
    """The keywords of `Flow.connect`, which are those of `[[flow.N.edges]]`."""

    queue_depth: int | None
    queue_bytes: int | None
    backpressure: Backpressure | None
    low_watermark: float | None
    carrier: Carrier | None
    max_bytes: int | None
    max_age_s: float | None
    order: Order | None
    drain_rate: int | None
    max_waiting: int | None


class FlowOptions(TypedDict, total=False):
    """The keywords of `Flow` that `torvyn.testing.run_flow` passes on."""

    name: str
    priority: Priority | None
    deadline_s: float | None
    checkpoint_s: float | None
    max_memory_bytes: int | None
    cpu_share: float | None
    queue_bytes: int | None
    backpressure: Backpressure | None
    on_error: OnError | None
