"""Records: the tables of a manifest. `Flow.add` and `Flow.connect` make the same records.

None means that the author left the key out; link fills in the default. A record from a file knows
the location of each of its keys. Comparisons ignore locations. A program may build a thousand flows
per second: records are not frozen, because that makes them ten times as slow to create.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from torvyn.errors import Location


@dataclass(slots=True, kw_only=True)
class Record:
    location: Location | None = field(default=None, compare=False, repr=False)
    locations: Mapping[str, Location] = field(default_factory=dict, compare=False, repr=False)
    """The locations of the values, by the key in the file."""

    def at(self, key: str) -> Location | None:
        """The location of the key's value, else that of the record."""
        return self.locations.get(key, self.location)


@dataclass(slots=True, kw_only=True)
class ProjectRecord(Record):
    name: str = ""
    version: str = ""
    contract_version: str = ""
    description: str | None = None
    authors: tuple[str, ...] | None = None
    license: str | None = None
    repository: str | None = None


@dataclass(slots=True, kw_only=True)
class ComponentRecord(Record):
    name: str = ""
    path: str = ""
    language: str | None = None
    isolation: str | None = None
    entry: str | None = None
    capabilities: tuple[str, ...] | None = None


@dataclass(slots=True)
class NodeRecord(Record):
    name: str = ""
    component: Any = ""
    """The name or path of a component; in a program also a live component."""
    interface: str | None = None
    config: str | Mapping[str, Any] | Sequence[Any] | None = None
    max_memory_bytes: int | None = None
    call_timeout_s: float | None = None
    init_timeout_s: float | None = None
    cpu_share: float | None = None
    fuel: int | None = None
    deterministic: bool | None = None
    seed: int | None = None
    run: str | None = None
    key: Any = None
    """A field; in a program also a function of an element."""
    max_keys: int | None = None
    on_error: str | Mapping[str, Any] | None = None
    unit: str | None = None
    ignored_ports: Sequence[str] | None = None
    place: Mapping[str, Any] | None = None


class PortRef(NamedTuple):
    """One end of an edge: `"node"`, `"node:port"` or `{ node, port }`."""

    node: str = ""
    port: str | None = None

    @classmethod
    def parse(cls, text: str) -> PortRef:
        node, _, port = text.partition(":")
        return cls(node, port or None)


NO_PORT: Final = PortRef()
"""The end of an edge that could not be read."""


@dataclass(slots=True)
class EdgeRecord(Record):
    source: PortRef = NO_PORT
    target: PortRef = NO_PORT
    queue_depth: int | None = None
    queue_bytes: int | None = None
    backpressure: str | None = None
    low_watermark: float | None = None
    carrier: str | None = None
    max_bytes: int | None = None
    max_age_s: float | None = None
    order: str | None = None
    drain_rate: int | None = None
    max_waiting: int | None = None


@dataclass(slots=True)
class FlowRecord(Record):
    name: str = ""
    description: str | None = None
    priority: str | None = None
    deadline_s: float | None = None
    checkpoint_s: float | None = None
    max_memory_bytes: int | None = None
    cpu_share: float | None = None
    queue_depth: int | None = None
    queue_bytes: int | None = None
    backpressure: str | None = None
    on_error: str | Mapping[str, Any] | None = None
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    edges: list[EdgeRecord] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class RuntimeRecord(Record):
    worker_threads: int | None = None
    turn_elements: int | None = None
    turn_time_s: float | None = None
    max_memory_per_component_bytes: int | None = None
    call_timeout_s: float | None = None
    init_timeout_s: float | None = None
    teardown_timeout_s: float | None = None
    drain_timeout_s: float | None = None
    max_silence_s: float | None = None
    cache_dir: str | None = None
    state_dir: str | None = None


@dataclass(slots=True, kw_only=True)
class ObservabilityRecord(Record):
    level: str | None = None
    exporter: str | None = None
    endpoint: str | None = None
    headers: str | None = None
    metrics_interval_s: float | None = None
    max_spool_bytes: int | None = None
    sample_rate: float | None = None
    latency_promote_s: float | None = None


@dataclass(slots=True, kw_only=True)
class GrantRecord(Record):
    """The capabilities of one sandboxed component."""

    name: str = ""
    capabilities: tuple[str, ...] | None = None


@dataclass(slots=True, kw_only=True)
class SecurityRecord(Record):
    default_capability_policy: str | None = None
    audit: str | None = None
    audit_file: str | None = None
    grants: dict[str, GrantRecord] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ClusterRecord(Record):
    nats: str | None = None
    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    nkey: str | None = None
    nkey_file: str | None = None
    credentials_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    namespace: str | None = None
    stream_replicas: int | None = None
    duplicate_window_s: float | None = None
    start_timeout_s: float | None = None


@dataclass(slots=True, kw_only=True)
class ServeRecord(Record):
    host: str | None = None
    port: int | None = None
    grpc_port: int | None = None
    hosts: tuple[str, ...] | None = None
    cors: tuple[str, ...] | None = None
    heartbeat_s: float | None = None
    first_byte_wait_s: float | None = None
    write_timeout_s: float | None = None
    shutdown_grace_s: float | None = None
    keep_alive_s: float | None = None
    max_connections: int | None = None
    max_connections_per_address: int | None = None
    reserved_connections: int | None = None
    max_body_bytes: int | None = None
    max_streams: int | None = None
    cut_character: str | None = None
    keys: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    audit: str | None = None
    audit_file: str | None = None
    session_store: str | None = None
    session_ttl_s: float | None = None
    session_bytes: int | None = None
    session_memory_bytes: int | None = None
    session_prompt_bytes: int | None = None
    session_room_bytes: int | None = None
    session_share: float | None = None
    max_sessions: int | None = None
    routes: dict[str, str] = field(default_factory=dict)
    """The name that clients use -> the flow that answers."""


@dataclass(slots=True, kw_only=True)
class PackRecord(Record):
    """What `torvyn pack` adds to the files that the project needs, and what it leaves out."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None


@dataclass(slots=True, kw_only=True)
class Manifest(Record):
    """A parsed Torvyn.toml. Link turns its flows into Plans."""

    project: ProjectRecord = field(default_factory=ProjectRecord)
    components: tuple[ComponentRecord, ...] = ()
    flows: dict[str, FlowRecord] = field(default_factory=dict)
    runtime: RuntimeRecord = field(default_factory=RuntimeRecord)
    observability: ObservabilityRecord = field(default_factory=ObservabilityRecord)
    security: SecurityRecord = field(default_factory=SecurityRecord)
    cluster: ClusterRecord = field(default_factory=ClusterRecord)
    serve: ServeRecord = field(default_factory=ServeRecord)
    pack: PackRecord = field(default_factory=PackRecord)
    file: str = field(default="Torvyn.toml", compare=False)
    """The path as the user wrote it; component paths are relative to its folder."""
    secrets: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Values from the environment, which must never be printed."""
    broken_flows: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """The names of the flows with a part that the parser could not read, and has reported."""
    variables: frozenset[str] = field(default=frozenset(), compare=False)
    """The names of the environment variables that the file uses."""
