"""The one table of keys. It drives parsing, hints, rendering, JSON Schema, reference and `config`.

A key enters with the work that implements it, never before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from torvyn.contract.roles import INTERFACES
from torvyn.manifest import record

KiB, MiB = 1024, 1024 * 1024
_MANY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Key:
    """One key of one table."""

    name: str
    kind: str
    """`string`, `name`, `version`, `integer`, `boolean`, `ratio`, `size`, `duration`, `strings`,
    `config`, `end` or `error`: the name of its reader."""
    doc: str
    required: bool = False
    default: Any = None
    default_doc: str | None = None
    """What the default is in words, when the value does not say it."""
    choices: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """Other spellings that are read as a choice."""
    unsupported: tuple[str, ...] = ()
    """Values that are right but that this build does not run."""
    minimum: float = 0
    maximum: float = _MANY
    attribute: str = ""
    """The record's attribute, where `name` cannot be one."""

    @property
    def field(self) -> str:
        return self.attribute or self.name


@dataclass(frozen=True, slots=True)
class Table:
    """One kind of table: its header as it is written, its keys and the record it becomes."""

    header: str
    doc: str
    keys: tuple[Key, ...]
    record: type[record.Record]
    tables: tuple[str, ...] = ()
    """Keys that hold further tables, parsed on their own."""

    def key(self, name: str) -> Key | None:
        return next((key for key in self.keys if key.name == name), None)

    def names(self) -> Iterator[str]:
        yield from (key.name for key in self.keys)
        yield from self.tables


BACKPRESSURE: Final = ("block", "drop-oldest", "drop-newest", "error")
PRIORITIES: Final = ("critical", "high", "normal", "low", "background")
POLICIES: Final = ("fail-fast", "skip", "retry", "dead-letter")
RUN_MODES: Final = ("inline", "async", "thread")
AUDITS: Final = ("none", "stdout", "file")
EXPORTERS: Final = ("none", "otlp-http")
LEVELS: Final = ("off", "production", "diagnostic")

_DEPTH = Key(
    "queue_depth", "integer", "Elements a queue holds.", default=64, minimum=1, maximum=2**24
)
_BYTES = Key(
    "queue_bytes",
    "size",
    "Bytes a queue holds; a larger element enters an empty queue alone.",
    default=MiB,
    minimum=1,
    maximum=2**50,
)
_BACKPRESSURE = Key(
    "backpressure",
    "string",
    "What happens when a queue is full.",
    default="block",
    choices=BACKPRESSURE,
    aliases=(("block-producer", "block"),),
)
_ON_ERROR = Key(
    "on_error",
    "error",
    "What happens to an element whose call failed: a policy, or a table (see `on_error`).",
    default_doc="`fail-fast`",
)


def _size(name: str, doc: str, default: Any = None, words: str | None = None) -> Key:
    return Key(name, "size", doc, default=default, default_doc=words, minimum=1, maximum=2**50)


def _duration(name: str, doc: str, default: Any = None, words: str | None = None) -> Key:
    return Key(name, "duration", doc, default=default, default_doc=words, minimum=1e-9)


PROJECT: Final = Table(
    "[torvyn]",
    "The project.",
    (
        Key("name", "string", "The project's name.", required=True),
        Key("version", "version", "The project's version.", required=True),
        Key(
            "contract_version",
            "version",
            "The version of the component contract the project was written for.",
            required=True,
            choices=("0.1.0",),
        ),
        Key("description", "string", "What it is for."),
        Key("authors", "strings", "Who wrote it."),
        Key("license", "string", "Its license."),
        Key("repository", "string", "Where its source is."),
    ),
    record.ProjectRecord,
)
COMPONENT: Final = Table(
    "[[component]]",
    "A component of the project, for nodes to name.",
    (
        Key("name", "name", "What nodes call it.", required=True),
        Key(
            "path",
            "string",
            "Its folder or its `.wasm`, relative to Torvyn.toml.",
            required=True,
        ),
        Key(
            "language",
            "string",
            "What it is written in; `wasm`: a component that is built already.",
            choices=("python", "c", "wasm"),
            unsupported=("zig", "js", "rust", "go"),
            default_doc="found from the folder",
        ),
        Key(
            "isolation",
            "string",
            "Where it runs: in this process, trusted, or in the sandbox.",
            choices=("in-process", "wasm"),
            default_doc="`in-process` for Python, `wasm` for all others",
        ),
        Key(
            "entry",
            "string",
            "A file of the folder, or `module:Class`.",
            default_doc="the only class with a role in `component.py`",
        ),
        Key(
            "capabilities",
            "strings",
            "What it asks for, in the sandbox; with a leading `?`, what it can do without.",
        ),
    ),
    record.ComponentRecord,
)
FLOW: Final = Table(
    "[flow.NAME]",
    "A flow: nodes and the edges between them.",
    (
        Key("description", "string", "What it does."),
        Key("priority", "string", "Its share of turns.", default="normal", choices=PRIORITIES),
        _duration("deadline", "How long the flow may run.", words="none"),
        _DEPTH,
        _BYTES,
        _BACKPRESSURE,
        _ON_ERROR,
    ),
    record.FlowRecord,
    tables=("nodes", "edges"),
)
NODE: Final = Table(
    "[flow.NAME.nodes.NODE]",
    "A node: one component at its place in the flow.",
    (
        Key(
            "component",
            "string",
            "The name of a declared, built-in or installed component.",
            required=True,
        ),
        Key(
            "interface",
            "string",
            "The role it must have; checked when given.",
            choices=tuple(INTERFACES),
            default_doc="the component's",
        ),
        Key("config", "config", "A string, or a table that is handed over as JSON.", default=""),
        _size("max_memory", "Memory it may hold.", words="`max_memory_per_component`"),
        _duration(
            "call_timeout",
            "How long a call of an async or sandboxed node may take.",
            words="the runtime's",
        ),
        _duration("init_timeout", "How long `init` may take.", words="the runtime's"),
        Key(
            "fuel",
            "integer",
            "Instructions that one call may execute, in the sandbox.",
            minimum=1,
            maximum=2**62,
            default_doc="as many as its time allows",
        ),
        Key(
            "deterministic",
            "boolean",
            "Whether its clocks and random numbers follow from `seed`, in the sandbox.",
            default=False,
        ),
        Key("seed", "integer", "What they follow from.", default=0, maximum=2**62),
        Key(
            "run",
            "string",
            "How it is called.",
            choices=RUN_MODES,
            default_doc="found from the component",
        ),
        replace(_ON_ERROR, default_doc="the flow's"),
        Key(
            "unit",
            "string",
            "What its outputs are called in summaries.",
            default_doc="the component's, else `elements`",
        ),
    ),
    record.NodeRecord,
)
EDGE: Final = Table(
    "[[flow.NAME.edges]]",
    "An edge: a bounded queue from a node's output port to another node.",
    (
        Key(
            "from",
            "end",
            'Where it starts: `"node"`, `"node:port"` or `{ node, port }`.',
            required=True,
            attribute="source",
        ),
        Key("to", "end", "Where it leads, in the same forms.", required=True, attribute="target"),
        replace(_DEPTH, default_doc="the flow's"),
        replace(_BYTES, default_doc="the flow's"),
        replace(_BACKPRESSURE, default_doc="the flow's"),
        Key(
            "low_watermark",
            "ratio",
            "The fill at which a full queue counts as free again.",
            default=0.5,
            maximum=1,
        ),
    ),
    record.EdgeRecord,
)
ON_ERROR: Final = Table(
    "on_error",
    "What happens to an element whose call failed.",
    (
        Key("policy", "string", "What to do.", required=True, choices=POLICIES),
        Key("max", "integer", "Retries at most.", default=3, minimum=1, maximum=1000),
        _duration("backoff", "The first pause; it doubles.", 0.1),
        Key(
            "then",
            "string",
            "What follows the last retry.",
            default="fail-fast",
            choices=("fail-fast", "skip", "dead-letter"),
        ),
        Key("to", "string", 'Where dead letters go: `"node"`, `"node:port"` or a file.'),
    ),
    record.ErrorRecord,
)
END: Final = Table(
    "from, to",
    "One end of an edge.",
    (
        Key("node", "string", "The node's name.", required=True),
        Key("port", "string", "Its port.", default_doc="`output` in `from`, `input` in `to`"),
    ),
    record.EndRecord,
)
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
        _duration("turn_time", "Time of a turn.", 100e-6),
        _size("max_memory_per_component", "Memory a component may hold.", 64 * MiB),
        _duration("call_timeout", "How long a call of an async or sandboxed node may take.", 5.0),
        _duration(
            "init_timeout", "How long `init` may take; in the sandbox 5s unless it is set.", 60.0
        ),
        _duration("teardown_timeout", "How long `teardown` may take.", 2.0),
        _duration("drain_timeout", "How long a flow may drain.", 5.0),
        Key(
            "cache_dir",
            "string",
            "Where compiled components are kept; nobody else may write there.",
            default="",
            default_doc="a folder of the user's cache",
        ),
    ),
    record.RuntimeRecord,
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
        _duration(
            "latency_promote",
            "An answer that waited so long for its engine to begin has its span sent in any case, "
            "as has one that failed.",
            10e-3,
        ),
    ),
    record.ObservabilityRecord,
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
    record.SecurityRecord,
    tables=("grants",),
)
GRANT: Final = Table(
    "[security.grants.COMPONENT]",
    "What is granted to one component.",
    (Key("capabilities", "strings", "What it may do.", required=True),),
    record.GrantRecord,
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
        _duration("heartbeat", "After so long without a byte a stream says that it lives.", 15.0),
        _duration("write_timeout", "How long a client may leave a stream unread.", 30.0),
        _duration("shutdown_grace", "How long streams have when the server ends.", 10.0),
        _size("max_body", "Bytes a request may have.", MiB),
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
        _duration("session_ttl", "How long a stateful answer waits for its client.", 300.0),
        _size("session_bytes", "Bytes of a stateful answer that are kept.", MiB),
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
    record.ServeRecord,
    tables=("routes",),
)
SETTINGS: Final = {
    "runtime": RUNTIME,
    "observability": OBSERVABILITY,
    "security": SECURITY,
    "serve": SERVE,
}
"""The tables that flags, the environment and the user's config may override, by their keys alone:
grants stand in the manifest."""
TOP_LEVEL: Final = ("torvyn", "component", "flow", *SETTINGS)
ALL: Final = (
    *(PROJECT, COMPONENT, FLOW, NODE, EDGE, END, ON_ERROR),
    *(RUNTIME, OBSERVABILITY, SECURITY, GRANT, SERVE),
)
