"""The tables whose keys are settings: they may also stand in the environment and on command
lines."""

from __future__ import annotations

from typing import Final

from torvyn.manifest import records
from torvyn.manifest.schema.keys import Key, MiB, Table, duration, size

AUDITS: Final = ("none", "stdout", "file")
EXPORTERS: Final = ("none", "otlp-http")
LEVELS: Final = ("off", "production", "diagnostic")
GUEST_INIT_TIMEOUT_S: Final = 5.0
"""The default `init_timeout` of sandboxed components."""

RUNTIME: Final = Table(
    "[runtime]",
    "Limits and times of all flows.",
    (
        Key(
            "worker_threads",
            "integer",
            "Threads that run flows; 0: as many as there are cores.",
            default=0,
            maximum=4096,
        ),
        Key("turn_elements", "integer", "Elements of a turn.", default=32, minimum=1),
        duration("turn_time", "Time of a turn.", 100e-6),
        size("max_memory_per_component", "Memory a component may hold.", 64 * MiB),
        duration("call_timeout", "How long a call of an async or sandboxed node may take.", 5.0),
        duration(
            "init_timeout",
            f"The time limit of `init`; {GUEST_INIT_TIMEOUT_S:g}s in the sandbox unless set.",
            60.0,
        ),
        duration("teardown_timeout", "How long `teardown` may take.", 2.0),
        duration("drain_timeout", "How long a flow may drain.", 5.0),
        Key(
            "cache_dir",
            "string",
            "Where compiled components are kept; nobody else may write there.",
            default="",
            default_doc="a folder of the user's cache",
        ),
    ),
    records.RuntimeRecord,
)
OBSERVABILITY: Final = Table(
    "[observability]",
    "What is measured, and who is told of it.",
    (
        Key("level", "string", "How much.", default="production", choices=LEVELS),
        Key(
            "exporter",
            "string",
            "How `torvyn serve` tells of answers: a span each, as OTLP in JSON over HTTP.",
            default="none",
            choices=EXPORTERS,
        ),
        Key("endpoint", "string", "The collector's address.", default="http://127.0.0.1:4318"),
        Key(
            "sample_rate",
            "ratio",
            "The share of traces that begin here of which spans are sent.",
            default=0.01,
            maximum=1,
        ),
        duration(
            "latency_promote",
            "An answer that waited so long for its engine to begin has its span sent in any case, "
            "as has one that failed.",
            10e-3,
        ),
    ),
    records.ObservabilityRecord,
)
SECURITY: Final = Table(
    "[security]",
    "What sandboxed components may reach.",
    (
        Key(
            "default_capability_policy",
            "string",
            "What a component may do that nothing is granted to.",
            default="deny-all",
            choices=("deny-all",),
        ),
        Key(
            "audit",
            "string",
            "Where it is written down what sandboxed components were granted and denied.",
            default="none",
            choices=AUDITS,
        ),
        Key(
            "audit_file",
            "string",
            'The file of `audit = "file"`, relative to Torvyn.toml; lines are appended.',
            default="torvyn-audit.jsonl",
        ),
    ),
    records.SecurityRecord,
    tables=("grants",),
)
GRANT: Final = Table(
    "[security.grants.COMPONENT]",
    "What is granted to one component.",
    (Key("capabilities", "strings", "What it may do.", required=True),),
    records.GrantRecord,
)
SERVE: Final = Table(
    "[serve]",
    "What `torvyn serve` listens on, and its limits. `[serve.routes]` says what clients call a "
    'flow, as `NAME = "FLOW"`; without it, every flow that answers requests has its own name.',
    (
        Key("host", "string", "The address it listens on.", default="127.0.0.1"),
        Key("port", "integer", "The port; 0: any that is free.", default=8080, maximum=65535),
        Key(
            "grpc_port",
            "integer",
            "The port of gRPC; 0: any that is free.",
            default_doc="no gRPC",
            maximum=65535,
        ),
        Key(
            "hosts",
            "strings",
            "The names it answers to in `Host`, besides those of this machine alone.",
            default=(),
            default_doc="none",
        ),
        duration("heartbeat", "After so long without a byte a stream says that it lives.", 15.0),
        duration("write_timeout", "How long a client may leave a stream unread.", 30.0),
        duration("shutdown_grace", "How long streams have when the server ends.", 10.0),
        size("max_body", "Bytes a request may have.", MiB),
        Key(
            "max_streams",
            "integer",
            "Answers made at a time; more wait shortly, then are refused.",
            default=1024,
            minimum=1,
            maximum=100_000,
        ),
        Key(
            "session_store",
            "string",
            "The file that keeps stateful answers, from the manifest's folder on, so that they "
            "outlive the process.",
            default="",
            default_doc="none: they are kept in memory",
        ),
        duration("session_ttl", "How long a stateful answer waits for its client.", 300.0),
        size("session_bytes", "Bytes of a stateful answer that are kept.", MiB),
        Key(
            "max_sessions",
            "integer",
            "Stateful answers kept at a time; the oldest that has ended makes room.",
            default=1024,
            minimum=1,
            maximum=1_000_000,
        ),
        Key(
            "keys",
            "string",
            "The file of those who may ask, which `torvyn keys` writes, relative to Torvyn.toml.",
            default="",
            default_doc="none: nobody is asked for a key",
        ),
        Key(
            "tls_cert",
            "string",
            "The certificate and those that vouch for it, a PEM file relative to Torvyn.toml.",
            default="",
            default_doc="none: no TLS",
        ),
        Key("tls_key", "string", "Its private key.", default="", default_doc="none"),
        Key(
            "audit",
            "string",
            "Where it is written down which keys were used and refused, and what ran for whom.",
            default="none",
            choices=AUDITS,
        ),
        Key(
            "audit_file",
            "string",
            'The file of `audit = "file"`, relative to Torvyn.toml; lines are appended.',
            default="torvyn-audit.jsonl",
        ),
    ),
    records.ServeRecord,
    tables=("routes",),
)
