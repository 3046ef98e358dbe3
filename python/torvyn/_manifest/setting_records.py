"""The tables of settings. The environment and command lines can set their keys as well.

A new setting is a field here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from torvyn._contract.enums import Observability
from torvyn._manifest.schema import Key, MiB, Record, Table, key_field

AUDITS: Final = ("none", "stdout", "file")
CUT_CHARACTERS: Final = ("drop", "replace")
EXPORTERS: Final = ("none", "otlp-http", "otlp-grpc")
LEVELS: Final = Observability.texts()
GUEST_INIT_TIMEOUT_S: Final = 5.0
"""The default `init_timeout` of sandboxed components."""
_AUDIT_FILE: Final = Key(
    "audit_file",
    "string",
    'The file of `audit = "file"`, relative to Torvyn.toml. Lines are appended.',
    default="torvyn-audit.jsonl",
)


@dataclass(slots=True, kw_only=True)
class RuntimeRecord(Record):
    worker_threads: int | None = key_field(
        "integer",
        "Threads that run flows; 0 means one per CPU that the process may use.",
        default=0,
        maximum=4096,
    )
    turn_elements: int | None = key_field("integer", "Elements per turn.", default=32, minimum=1)
    turn_time_s: float | None = key_field("duration", "Time per turn.", default=100e-6)
    max_memory_per_component_bytes: int | None = key_field(
        "size", "Memory that a component may use.", default=64 * MiB
    )
    call_timeout_s: float | None = key_field(
        "duration", "The time limit of a call to an async or sandboxed node.", default=5.0
    )
    init_timeout_s: float | None = key_field(
        "duration",
        f"The time limit of `init`; {GUEST_INIT_TIMEOUT_S:g}s in the sandbox unless set.",
        default=60.0,
    )
    teardown_timeout_s: float | None = key_field(
        "duration", "The time limit of `teardown`.", default=2.0
    )
    drain_timeout_s: float | None = key_field("duration", "The time limit of a drain.", default=5.0)
    max_silence_s: float | None = key_field(
        "duration",
        "How long the sources of a flow that systemd watches may send nothing.",
        default_doc="no limit",
    )
    cache_dir: str | None = key_field(
        "string",
        "The folder of compiled components; no other user may write to it.",
        default="",
        default_doc="a folder in the user's cache",
    )
    state_dir: str | None = key_field(
        "string",
        "The folder of stored elements and checkpoints, relative to the project.",
        default=".torvyn",
    )


RUNTIME: Final = Table.of(RuntimeRecord, "[runtime]", "Limits that apply to all flows.")


@dataclass(slots=True, kw_only=True)
class ObservabilityRecord(Record):
    level: str | None = key_field(
        "string", "How much is measured.", default="production", choices=LEVELS
    )
    exporter: str | None = key_field(
        "string",
        "How metrics and spans are sent: as OTLP over HTTP or gRPC.",
        default="none",
        choices=EXPORTERS,
    )
    endpoint: str | None = key_field(
        "string",
        "The address of the collector; by default port 4317 for gRPC.",
        default="http://127.0.0.1:4318",
    )
    headers: str | None = key_field(
        "string",
        "Headers of each request, as `name=value` pairs with commas between them.",
        default="",
        default_doc="none",
    )
    metrics_interval_s: float | None = key_field(
        "duration", "How often metrics are sent.", default=10.0
    )
    max_spool_bytes: int | None = key_field(
        "size",
        "Disk space for what cannot be sent now; above it the oldest is dropped.",
        default=32 * MiB,
        # A log for spans and one for metrics; smaller ones have no room for data.
        minimum=2 * MiB,
    )
    sample_rate: float | None = key_field(
        "ratio", "The share of new traces whose spans are sent.", default=0.01, maximum=1
    )
    latency_promote_s: float | None = key_field(
        "duration",
        "The span of an answer is always sent if its engine took this long to start, or if "
        "the answer failed.",
        default=10e-3,
    )


OBSERVABILITY: Final = Table.of(
    ObservabilityRecord, "[observability]", "Measurements, and where they are sent."
)


@dataclass(slots=True, kw_only=True)
class SecurityRecord(Record):
    audit: str | None = key_field(
        "string",
        "Where grants and denials of sandboxed components are logged.",
        default="none",
        choices=AUDITS,
    )
    audit_file: str | None = _AUDIT_FILE.field()
    grants: dict[str, GrantRecord] = field(default_factory=dict)


SECURITY: Final = Table.of(
    SecurityRecord, "[security]", "The capabilities of sandboxed components.", tables=("grants",)
)


@dataclass(slots=True, kw_only=True)
class GrantRecord(Record):
    """The capabilities of one sandboxed component."""

    name: str = ""
    capabilities: tuple[str, ...] | None = key_field(
        "strings", "The capabilities that it is granted.", required=True
    )


GRANT: Final = Table.of(GrantRecord, "[security.grants.COMPONENT]", "The grants of one component.")


def _file(doc: str, default_doc: str = "none") -> Any:
    return key_field("string", doc, default="", default_doc=default_doc)


@dataclass(slots=True, kw_only=True)
class ClusterRecord(Record):
    nats: str | None = key_field(
        "string",
        "The address of a NATS server with JetStream, or several with commas between them: "
        "`nats://` or, with TLS, `tls://`.",
        default="",
        default_doc="none: `nats` edges are kept on the disk",
    )
    user: str | None = key_field(
        "string",
        "The user at the broker, with `password_file`. An address may have both, and "
        "`${NAME}` in the place of a secret.",
        default="",
        default_doc="that of the address",
    )
    password_file: str | None = _file("A file with the password of `user`.")
    token_file: str | None = _file("A file with the token that the broker requires.")
    nkey: str | None = key_field(
        "string",
        'The seed of an nkey; take it from the environment: `"${NATS_SEED}"`.',
        default="",
        default_doc="none",
    )
    nkey_file: str | None = _file("A file with the seed of an nkey.")
    credentials_file: str | None = _file("A `.creds` file: a JWT and the seed of its key.")
    ca_file: str | None = _file(
        "The certificates that the broker's is checked with.", "those of the system"
    )
    cert_file: str | None = _file("The client's certificate, with `key_file`.")
    key_file: str | None = _file("The private key of `cert_file`.")
    namespace: str | None = key_field(
        "string",
        "What the names of all streams, subjects and buckets of the project's flows begin with "
        "on the broker, so that no other project, and no other checkout of this one, has the "
        'same. `""` stands for names without one, as earlier versions had them.',
        default_doc="the project's name and a checksum of its state folder",
    )
    stream_replicas: int | None = key_field(
        "integer",
        "Servers of the broker that store each element of a `nats` edge, and each frame of a "
        "session at a broker.",
        default=1,
        minimum=1,
        maximum=5,
    )
    duplicate_window_s: float | None = key_field(
        "duration",
        "How long the broker itself recognizes elements that are published again.",
        default=120.0,
    )
    start_timeout_s: float | None = key_field(
        "duration",
        "How long a flow waits at its start for a broker that is away.",
        default_doc="10 s; a part of a flow (`--segment`, Ray, Kubernetes) waits as long as it "
        "takes",
    )


CLUSTER: Final = Table.of(ClusterRecord, "[cluster]", "The broker of `nats` edges.")


@dataclass(slots=True, kw_only=True)
class ServeRecord(Record):
    host: str | None = key_field("string", "The address to listen on.", default="127.0.0.1")
    port: int | None = key_field(
        "integer", "The port; 0 means any free port.", default=8080, maximum=65535
    )
    grpc_port: int | None = key_field(
        "integer",
        "A second port, for gRPC alone; 0 means any free port. `port` serves gRPC as well.",
        default_doc="no such port",
        maximum=65535,
    )
    hosts: tuple[str, ...] | None = key_field(
        "strings",
        "Accepted values of the `Host` header, in addition to loopback names.",
        default=(),
        default_doc="none",
    )
    cors: tuple[str, ...] | None = key_field(
        "strings",
        "Origins whose pages may use the server from a browser, such as `https://app.example`; "
        "`*` for any, with `keys`.",
        default=(),
        default_doc="none",
    )
    heartbeat_s: float | None = key_field(
        "duration", "A stream sends a heartbeat after this much silence.", default=15.0
    )
    first_byte_wait_s: float | None = key_field(
        "duration",
        "How long a stream sends nothing at all while its engine has nothing: what fails until "
        "then is an error with a status.",
        default=12.0,
    )
    write_timeout_s: float | None = key_field(
        "duration", "How long a client may stop reading a stream.", default=30.0
    )
    shutdown_grace_s: float | None = key_field(
        "duration", "How long open streams may continue when the server shuts down.", default=10.0
    )
    keep_alive_s: float | None = key_field(
        "duration",
        "How long a connection may stay open between two requests. Keep it longer than that of "
        "a load balancer in front.",
        default=75.0,
    )
    max_connections: int | None = key_field(
        "integer",
        "Open connections. At the limit, the one that has been idle longest is closed.",
        default_doc="twice `max_streams`, at least 1024",
        minimum=1,
        maximum=1_000_000,
    )
    max_connections_per_address: int | None = key_field(
        "integer",
        "Open connections of one address that have not sent a valid key.",
        default_doc="half of `max_connections`",
        minimum=1,
        maximum=1_000_000,
    )
    reserved_connections: int | None = key_field(
        "integer",
        "Connections that only callers with a key can take, if keys are required.",
        default_doc="a quarter of `max_connections`",
        maximum=1_000_000,
    )
    max_body_bytes: int | None = key_field("size", "The largest request body.", default=MiB)
    max_streams: int | None = key_field(
        "integer",
        "Concurrent answers. Further requests wait briefly and are then rejected.",
        default=1024,
        minimum=1,
        maximum=100_000,
    )
    cut_character: str | None = key_field(
        "string",
        "What becomes of a character that the end of an answer cuts, unless the engine's node "
        "says: it is dropped, or replaced by U+FFFD.",
        default="drop",
        choices=CUT_CHARACTERS,
    )
    session_store: str | None = key_field(
        "string",
        "The file that stores stateful answers, so that they survive a restart, relative to "
        "Torvyn.toml; or a broker such as `nats://10.0.0.2:4222`, where several servers share "
        "them.",
        default="",
        default_doc="none: answers are kept in memory",
    )
    session_ttl_s: float | None = key_field(
        "duration", "How long a stateful answer is kept for its client.", default=300.0
    )
    session_bytes: int | None = key_field(
        "size", "Bytes that are kept per stateful answer.", name="session_bytes", default=MiB
    )
    session_memory_bytes: int | None = key_field(
        "size",
        "Bytes that are kept of all stateful answers together. Many of them keep less each; "
        "new ones are rejected while clients have not read that much.",
        default=32 * MiB,
    )
    session_prompt_bytes: int | None = key_field(
        "size", "The largest prompt of a stateful answer that is stored.", default=MiB
    )
    session_room_bytes: int | None = key_field(
        "size",
        "Bytes that a broker stores of the frames of all stateful answers; of their prompts, "
        "a quarter as many.",
        default=1024 * MiB,
    )
    session_share: float | None = key_field(
        "ratio",
        "The part of `max_sessions`, `session_memory` and `session_room` that one tenant may "
        "take, if the API keys have several tenants.",
        default=0.5,
        minimum=0.001,
        maximum=1,
    )
    max_sessions: int | None = key_field(
        "integer",
        "Stateful answers that are kept. The oldest finished one is removed first.",
        default=1024,
        minimum=1,
        maximum=1_000_000,
    )
    keys: str | None = key_field(
        "string",
        "The file of API keys, which `torvyn keys` writes; relative to Torvyn.toml.",
        default="",
        default_doc="none: no API key is required",
    )
    tls_cert: str | None = key_field(
        "string",
        "The TLS certificate chain, a PEM file relative to Torvyn.toml.",
        default="",
        default_doc="none: no TLS",
    )
    tls_key: str | None = key_field(
        "string", "The private key of the certificate.", default="", default_doc="none"
    )
    audit: str | None = key_field(
        "string",
        "Where the use and rejection of API keys and the answers per key are logged.",
        default="none",
        choices=AUDITS,
    )
    audit_file: str | None = _AUDIT_FILE.field()
    routes: dict[str, str] = field(default_factory=dict)
    """The name that clients use -> the flow that answers."""


SERVE: Final = Table.of(
    ServeRecord,
    "[serve]",
    "The addresses and limits of `torvyn serve`. `[serve.routes]` gives flows the names that "
    'clients use: `NAME = "FLOW"`. Without it, every flow that answers requests is served under '
    "its own name.",
    tables=("routes",),
)
