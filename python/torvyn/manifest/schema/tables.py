"""The one table of keys. It drives parsing, hints, rendering, JSON Schema, reference and `config`.

A key enters with the work that implements it, never before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from torvyn.contract.roles import INTERFACES
from torvyn.manifest import records
from torvyn.manifest.schema.keys import Key, MiB, Table, duration, size
from torvyn.manifest.schema.settings_tables import GRANT, OBSERVABILITY, RUNTIME, SECURITY, SERVE

BACKPRESSURE: Final = ("block", "drop-oldest", "drop-newest", "error")
PRIORITIES: Final = ("critical", "high", "normal", "low", "background")
POLICIES: Final = ("fail-fast", "skip", "retry", "dead-letter")
RUN_MODES: Final = ("inline", "async", "thread")

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
    records.ProjectRecord,
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
            choices=("python", "c", "rust", "wasm"),
            unsupported=("zig", "js", "go"),
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
    records.ComponentRecord,
)
FLOW: Final = Table(
    "[flow.NAME]",
    "A flow: nodes and the edges between them.",
    (
        Key("description", "string", "What it does."),
        Key("priority", "string", "Its share of turns.", default="normal", choices=PRIORITIES),
        duration("deadline", "How long the flow may run.", words="none"),
        _DEPTH,
        _BYTES,
        _BACKPRESSURE,
        _ON_ERROR,
    ),
    records.FlowRecord,
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
        size("max_memory", "Memory it may hold.", words="`max_memory_per_component`"),
        duration(
            "call_timeout",
            "How long a call of an async or sandboxed node may take.",
            words="the runtime's",
        ),
        duration("init_timeout", "How long `init` may take.", words="the runtime's"),
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
        Key(
            "ignored_ports",
            "strings",
            "Ports of a router without an edge, on purpose: their elements are only counted.",
            default_doc="none",
        ),
    ),
    records.NodeRecord,
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
    records.EdgeRecord,
)
ON_ERROR: Final = Table(
    "on_error",
    "What happens to an element whose call failed.",
    (
        Key("policy", "string", "What to do.", required=True, choices=POLICIES),
        Key("max", "integer", "Retries at most.", default=3, minimum=1, maximum=1000),
        Key("backoff", "duration", "The first pause; each retry doubles it.", default=0.1),
        Key(
            "then",
            "string",
            "What follows the last retry.",
            default="fail-fast",
            choices=("fail-fast", "skip", "dead-letter"),
        ),
        Key("to", "string", 'Where dead letters go: `"node"`, `"node:port"` or a file.'),
    ),
    dict,
)
END: Final = Table(
    "from, to",
    "One end of an edge.",
    (
        Key("node", "string", "The node's name.", required=True),
        Key("port", "string", "Its port.", default_doc="`output` in `from`, `input` in `to`"),
    ),
    records.PortRef,
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
