"""The tables of settings. The environment and command lines can set their keys as well."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from torvyn._contract.enums import Observability
from torvyn._manifest.schema import Key, MiB, Record, Table, duration, size

AUDITS: Final = ("none", "stdout", "file")
CUT_CHARACTERS: Final = ("drop", "replace")
EXPORTERS: Final = ("none", "otlp-http", "otlp-grpc")
LEVELS: Final = Observability.texts()
GUEST_INIT_TIMEOUT_S: Final = 5.0
"""The default `init_timeout` of sandboxed components."""


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


RUNTIME: Final = Table(
    "[runtime]",
    "Limits that apply to all flows.",
    (
        Key(
            "worker_threads",
            "integer",
            "Threads that run flows; 0 means one per CPU that the process may use.",
            default=0,
            maximum=4096,
        ),
        Key("turn_elements", "integer", "Elements per turn.", default=32, minimum=1),
        duration("turn_time", "Time per turn.", 100e-6),
        size("max_memory_per_component", "Memory that a component may use.", 64 * MiB),
        duration("call_timeout", "The time limit of a call to an async or sandboxed node.", 5.0),
        duration(
            "init_timeout",
            f"The time limit of `init`; {GUEST_INIT_TIMEOUT_S:g}s in the sandbox unless set.",
            60.0,
        ),
        duration("teardown_timeout", "The time limit of `teardown`.", 2.0),
        duration("drain_timeout", "The time limit of a drain.", 5.0),
        duration(
            "max_silence",
            "How long the sources of a flow that systemd watches may send nothing.",
            words="no limit",
        ),
        Key(
            "cache_dir",
            "string",
            "The folder of compiled components; no other user may write to it.",
            default="",
            default_doc="a folder in the user's cache",
        ),
        Key(
            "state_dir",
            "string",
            "The folder of stored elements and checkpoints, relative to the project.",
            default=".torvyn",
        ),
    ),
    RuntimeRecord,
)


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


OBSERVABILITY: Final = Table(
    "[observability]",
    "Measurements, and where they are sent.",
    (
        Key("level", "string", "How much is measured.", default="production", choices=LEVELS),
        Key(
            "exporter",
            "string",
            "How metrics and spans are sent: as OTLP over HTTP or gRPC.",
            default="none",
            choices=EXPORTERS,
        ),
        Key(
            "endpoint",
            "string",
            "The address of the collector; by default port 4317 for gRPC.",
            default="http://127.0.0.1:4318",
        ),
        Key(
            "headers",
            "string",
            "Headers of each request, as `name=value` pairs with commas between them.",
            default="",
            default_doc="none",
        ),
        duration("metrics_interval", "How often metrics are sent.", 10.0),
        replace(
            size(
                "max_spool",
                "Disk space for what cannot be sent now; above it the oldest is dropped.",
                32 * MiB,
            ),
            # A log for spans and one for metrics; smaller ones have no room for data.
            minimum=2 * MiB,
        ),
        Key(
            "sample_rate",
            "ratio",
            "The share of new traces whose spans are sent.",
            default=0.01,
            maximum=1,
        ),
        duration(
            "latency_promote",
            "The span of an answer is always sent if its engine took this long to start, or if "
            "the answer failed.",
            10e-3,
        ),
    ),
    ObservabilityRecord,
)


@dataclass(slots=True, kw_only=True)
class SecurityRecord(Record):
    default_capability_policy: str | None = None
    audit: str | None = None
    audit_file: str | None = None
    grants: dict[str, GrantRecord] = field(default_factory=dict)


SECURITY: Final = Table(
    "[security]",
    "The capabilities of sandboxed components.",
    (
        Key(
            "default_capability_policy",
            "string",
            "The capabilities of a component without grants.",
            default="deny-all",
            choices=("deny-all",),
        ),
        Key(
            "audit",
            "string",
            "Where grants and denials of sandboxed components are logged.",
            default="none",
            choices=AUDITS,
        ),
        Key(
            "audit_file",
            "string",
            'The file of `audit = "file"`, relative to Torvyn.toml. Lines are appended.',
            default="torvyn-audit.jsonl",
        ),
    ),
    SecurityRecord,
    tables=("grants",),
)


@dataclass(slots=True, kw_only=True)
class GrantRecord(Record):
    """The capabilities of one sandboxed component."""

    name: str = ""
    capabilities: tuple[str, ...] | None = None


GRANT: Final = Table(
    "[security.grants.COMPONENT]",
    "The grants of one component.",
    (Key("capabilities", "strings", "The capabilities that it is granted.", required=True),),
    GrantRecord,
)


def _file(name: str, doc: str, default_doc: str = "none") -> Key:
    return Key(name, "string", doc, default="", default_doc=default_doc)


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


CLUSTER: Final = Table(
    "[cluster]",
    "The broker of `nats` edges.",
    (
        Key(
            "nats",
            "string",
            "The address of a NATS server with JetStream, or several with commas between them: "
            "`nats://` or, with TLS, `tls://`.",
            default="",
            default_doc="none: `nats` edges are kept on the disk",
        ),
        Key(
            "user",
            "string",
            "The user at the broker, with `password_file`. An address may have both, and "
            "`${NAME}` in the place of a secret.",
            default="",
            default_doc="that of the address",
        ),
        _file("password_file", "A file with the password of `user`."),
        _file("token_file", "A file with the token that the broker requires."),
        Key(
            "nkey",
            "string",
            'The seed of an nkey; take it from the environment: `"${NATS_SEED}"`.',
            default="",
            default_doc="none",
        ),
        _file("nkey_file", "A file with the seed of an nkey."),
        _file("credentials_file", "A `.creds` file: a JWT and the seed of its key."),
        _file(
            "ca_file",
            "The certificates that the broker's is checked with.",
            "those of the system",
        ),
        _file("cert_file", "The client's certificate, with `key_file`."),
        _file("key_file", "The private key of `cert_file`."),
        Key(
            "namespace",
            "string",
            "What the names of all streams, subjects and buckets of the project's flows begin with "
            "on the broker, so that no other project, and no other checkout of this one, has the "
            'same. `""` stands for names without one, as earlier versions had them.',
            default=None,
            default_doc="the project's name and a checksum of its state folder",
        ),
        Key(
            "stream_replicas",
            "integer",
            "Servers of the broker that store each element of a `nats` edge, and each frame of a "
            "session at a broker.",
            default=1,
            minimum=1,
            maximum=5,
        ),
        duration(
            "duplicate_window",
            "How long the broker itself recognizes elements that are published again.",
            120.0,
        ),
        duration(
            "start_timeout",
            "How long a flow waits at its start for a broker that is away.",
            words="10 s; a part of a flow (`--segment`, Ray, Kubernetes) waits as long as it takes",
        ),
    ),
    ClusterRecord,
)


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


SERVE: Final = Table(
    "[serve]",
    "The addresses and limits of `torvyn serve`. `[serve.routes]` gives flows the names that "
    'clients use: `NAME = "FLOW"`. Without it, every flow that answers requests is served under '
    "its own name.",
    (
        Key("host", "string", "The address to listen on.", default="127.0.0.1"),
        Key("port", "integer", "The port; 0 means any free port.", default=8080, maximum=65535),
        Key(
            "grpc_port",
            "integer",
            "A second port, for gRPC alone; 0 means any free port. `port` serves gRPC as well.",
            default_doc="no such port",
            maximum=65535,
        ),
        Key(
            "hosts",
            "strings",
            "Accepted values of the `Host` header, in addition to loopback names.",
            default=(),
            default_doc="none",
        ),
        Key(
            "cors",
            "strings",
            "Origins whose pages may use the server from a browser, such as `https://app.example`; "
            "`*` for any, with `keys`.",
            default=(),
            default_doc="none",
        ),
        duration("heartbeat", "A stream sends a heartbeat after this much silence.", 15.0),
        duration(
            "first_byte_wait",
            "How long a stream sends nothing at all while its engine has nothing: what fails until "
            "then is an error with a status.",
            12.0,
        ),
        duration("write_timeout", "How long a client may stop reading a stream.", 30.0),
        duration(
            "shutdown_grace", "How long open streams may continue when the server shuts down.", 10.0
        ),
        duration(
            "keep_alive",
            "How long a connection may stay open between two requests. Keep it longer than that of "
            "a load balancer in front.",
            75.0,
        ),
        Key(
            "max_connections",
            "integer",
            "Open connections. At the limit, the one that has been idle longest is closed.",
            default_doc="twice `max_streams`, at least 1024",
            minimum=1,
            maximum=1_000_000,
        ),
        Key(
            "max_connections_per_address",
            "integer",
            "Open connections of one address that have not sent a valid key.",
            default_doc="half of `max_connections`",
            minimum=1,
            maximum=1_000_000,
        ),
        Key(
            "reserved_connections",
            "integer",
            "Connections that only callers with a key can take, if keys are required.",
            default_doc="a quarter of `max_connections`",
            maximum=1_000_000,
        ),
        size("max_body", "The largest request body.", MiB),
        Key(
            "max_streams",
            "integer",
            "Concurrent answers. Further requests wait briefly and are then rejected.",
            default=1024,
            minimum=1,
            maximum=100_000,
        ),
        Key(
            "cut_character",
            "string",
            "What becomes of a character that the end of an answer cuts, unless the engine's node "
            "says: it is dropped, or replaced by U+FFFD.",
            default="drop",
            choices=CUT_CHARACTERS,
        ),
        Key(
            "session_store",
            "string",
            "The file that stores stateful answers, so that they survive a restart, relative to "
            "Torvyn.toml; or a broker such as `nats://10.0.0.2:4222`, where several servers share "
            "them.",
            default="",
            default_doc="none: answers are kept in memory",
        ),
        duration("session_ttl", "How long a stateful answer is kept for its client.", 300.0),
        size("session_bytes", "Bytes that are kept per stateful answer.", MiB),
        size(
            "session_memory",
            "Bytes that are kept of all stateful answers together. Many of them keep less each; "
            "new ones are rejected while clients have not read that much.",
            32 * MiB,
        ),
        size("session_prompt", "The largest prompt of a stateful answer that is stored.", MiB),
        size(
            "session_room",
            "Bytes that a broker stores of the frames of all stateful answers; of their prompts, "
            "a quarter as many.",
            1024 * MiB,
        ),
        Key(
            "session_share",
            "ratio",
            "The part of `max_sessions`, `session_memory` and `session_room` that one tenant may "
            "take, if the API keys have several tenants.",
            default=0.5,
            minimum=0.001,
            maximum=1,
        ),
        Key(
            "max_sessions",
            "integer",
            "Stateful answers that are kept. The oldest finished one is removed first.",
            default=1024,
            minimum=1,
            maximum=1_000_000,
        ),
        Key(
            "keys",
            "string",
            "The file of API keys, which `torvyn keys` writes; relative to Torvyn.toml.",
            default="",
            default_doc="none: no API key is required",
        ),
        Key(
            "tls_cert",
            "string",
            "The TLS certificate chain, a PEM file relative to Torvyn.toml.",
            default="",
            default_doc="none: no TLS",
        ),
        Key(
            "tls_key",
            "string",
            "The private key of the certificate.",
            default="",
            default_doc="none",
        ),
        Key(
            "audit",
            "string",
            "Where the use and rejection of API keys and the answers per key are logged.",
            default="none",
            choices=AUDITS,
        ),
        Key(
            "audit_file",
            "string",
            'The file of `audit = "file"`, relative to Torvyn.toml. Lines are appended.',
            default="torvyn-audit.jsonl",
        ),
    ),
    ServeRecord,
    tables=("routes",),
)
