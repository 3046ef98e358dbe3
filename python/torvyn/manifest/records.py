"""The records a manifest is made of. None means "not said"; link fills in the default.

Every record knows where it was written and where each of its keys was; places never take part in
comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torvyn.errors import Location


@dataclass(frozen=True, kw_only=True)
class Record:
    location: Location | None = field(default=None, compare=False, repr=False)
    locations: Mapping[str, Location] = field(default_factory=dict, compare=False, repr=False)
    """Of the values, by key as it is written in the file."""

    def at(self, key: str) -> Location | None:
        """Where the key's value is, else where the record is."""
        return self.locations.get(key, self.location)


@dataclass(frozen=True, kw_only=True)
class ProjectRecord(Record):
    name: str = ""
    version: str = ""
    contract_version: str = ""
    description: str | None = None
    authors: tuple[str, ...] | None = None
    license: str | None = None
    repository: str | None = None


@dataclass(frozen=True, kw_only=True)
class ComponentRecord(Record):
    name: str = ""
    path: str = ""
    language: str | None = None
    isolation: str | None = None
    entry: str | None = None
    capabilities: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ErrorRecord(Record):
    """`on_error`, in its short form (`policy` alone) or as a table."""

    policy: str = "fail-fast"
    max: int | None = None
    backoff: float | None = None
    then: str | None = None
    to: str | None = None


@dataclass(frozen=True, kw_only=True)
class NodeRecord(Record):
    name: str = ""
    component: str = ""
    interface: str | None = None
    config: str | dict[str, Any] | None = None
    max_memory: int | None = None
    call_timeout: float | None = None
    init_timeout: float | None = None
    fuel: int | None = None
    deterministic: bool | None = None
    seed: int | None = None
    run: str | None = None
    on_error: ErrorRecord | None = None
    unit: str | None = None
    ignored_ports: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class EndRecord(Record):
    """One end of an edge: `"node"`, `"node:port"` or `{ node, port }`."""

    node: str = ""
    port: str | None = None


@dataclass(frozen=True, kw_only=True)
class EdgeRecord(Record):
    source: EndRecord = EndRecord()
    target: EndRecord = EndRecord()
    queue_depth: int | None = None
    queue_bytes: int | None = None
    backpressure: str | None = None
    low_watermark: float | None = None


@dataclass(frozen=True, kw_only=True)
class FlowRecord(Record):
    name: str = ""
    description: str | None = None
    priority: str | None = None
    deadline: float | None = None
    queue_depth: int | None = None
    queue_bytes: int | None = None
    backpressure: str | None = None
    on_error: ErrorRecord | None = None
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    edges: tuple[EdgeRecord, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RuntimeRecord(Record):
    worker_threads: int | None = None
    turn_elements: int | None = None
    turn_time: float | None = None
    max_memory_per_component: int | None = None
    call_timeout: float | None = None
    init_timeout: float | None = None
    teardown_timeout: float | None = None
    drain_timeout: float | None = None
    cache_dir: str | None = None


@dataclass(frozen=True, kw_only=True)
class ObservabilityRecord(Record):
    level: str | None = None
    exporter: str | None = None
    endpoint: str | None = None
    sample_rate: float | None = None
    latency_promote: float | None = None


@dataclass(frozen=True, kw_only=True)
class GrantRecord(Record):
    """What one component may do beyond computing."""

    name: str = ""
    capabilities: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class SecurityRecord(Record):
    default_capability_policy: str | None = None
    audit: str | None = None
    audit_file: str | None = None
    grants: dict[str, GrantRecord] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ServeRecord(Record):
    host: str | None = None
    port: int | None = None
    grpc_port: int | None = None
    hosts: tuple[str, ...] | None = None
    heartbeat: float | None = None
    write_timeout: float | None = None
    shutdown_grace: float | None = None
    max_body: int | None = None
    max_streams: int | None = None
    keys: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    audit: str | None = None
    audit_file: str | None = None
    session_store: str | None = None
    session_ttl: float | None = None
    session_bytes: int | None = None
    max_sessions: int | None = None
    routes: dict[str, str] = field(default_factory=dict)
    """What clients call it -> the flow that answers."""


@dataclass(frozen=True, kw_only=True)
class Manifest(Record):
    """A parsed Torvyn.toml. Link makes Plans of its flows."""

    project: ProjectRecord = ProjectRecord()
    components: tuple[ComponentRecord, ...] = ()
    flows: dict[str, FlowRecord] = field(default_factory=dict)
    runtime: RuntimeRecord = RuntimeRecord()
    observability: ObservabilityRecord = ObservabilityRecord()
    security: SecurityRecord = SecurityRecord()
    serve: ServeRecord = ServeRecord()
    file: str = field(default="Torvyn.toml", compare=False)
    """As the user gave it; component paths are relative to its folder."""
    secrets: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Values that came from the environment."""
    variables: frozenset[str] = field(default=frozenset(), compare=False)
    """The names of the environment variables the file asks for."""
