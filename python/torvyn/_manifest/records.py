"""Records: the tables of a manifest. Each field carries its key: what it is in the file.

`Flow.add` and `Flow.connect` make the same records. None means that the author left the key out;
link fills in the default. A record from a file knows the location of each of its keys. Comparisons
ignore locations. A program may build a thousand flows per second: records are not frozen, because
that makes them ten times as slow to create.

A new key is a field here, or in `setting_records` for a setting; parser, hints, renderer, JSON
Schema, the reference page and `torvyn config` follow from it. It is added together with the code
that implements it, never before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, get_args

from torvyn._contract.enums import BackpressurePolicy, PriorityClass
from torvyn._contract.options import (
    Carrier,
    LastResort,
    Order,
    PlaceOptions,
    PolicyName,
    RunMode,
)
from torvyn._contract.roles import INTERFACES
from torvyn._manifest.schema import Key, MiB, Record, Table, key_field
from torvyn._manifest.setting_records import (
    CLUSTER,
    GRANT,
    OBSERVABILITY,
    RUNTIME,
    SECURITY,
    SERVE,
    ClusterRecord,
    ObservabilityRecord,
    RuntimeRecord,
    SecurityRecord,
    ServeRecord,
)

BACKPRESSURE: Final = BackpressurePolicy.texts()
PRIORITIES: Final = PriorityClass.texts()
POLICIES: Final[tuple[str, ...]] = get_args(PolicyName)
RUN_MODES: Final[tuple[str, ...]] = get_args(RunMode)

_DEPTH: Final = Key(
    "queue_depth",
    "integer",
    "Elements that a queue can hold.",
    default=64,
    minimum=1,
    maximum=2**24,
)
_BYTES: Final = Key(
    "queue_bytes",
    "size",
    "Bytes that a queue can hold. A larger element enters only an empty queue.",
    default=MiB,
    minimum=1,
    maximum=2**50,
)
_BACKPRESSURE: Final = Key(
    "backpressure",
    "string",
    "What happens when a queue is full.",
    default="block",
    choices=BACKPRESSURE,
    aliases=(("block-producer", "block"),),
)
_ON_ERROR: Final = Key(
    "on_error",
    "error",
    "What happens to an element when a call fails: a policy, or a table (see `on_error`).",
    default_doc="`set-aside` in a flow that keeps state, else `fail-fast`",
)
_CPU_SHARE: Final = Key(
    "cpu_share",
    "ratio",
    "CPU time that it may use, in CPUs: 0.5 is half of one. The sources wait when it uses more.",
    default_doc="no limit",
    minimum=0.001,
    maximum=4096,
)


@dataclass(slots=True, kw_only=True)
class ProjectRecord(Record):
    name: str = key_field("string", "The project's name.", required=True, missing="")
    version: str = key_field("version", "The project's version.", required=True, missing="")
    contract_version: str = key_field(
        "version",
        "The version of the component contract that the project uses.",
        required=True,
        choices=("0.1.0",),
        missing="",
    )
    description: str | None = key_field("string", "What the project does.")
    authors: tuple[str, ...] | None = key_field("strings", "The authors.")
    license: str | None = key_field("string", "The license.")
    repository: str | None = key_field("string", "The URL of the source code.")


PROJECT: Final = Table.of(ProjectRecord, "[torvyn]", "The project.")


@dataclass(slots=True, kw_only=True)
class ComponentRecord(Record):
    name: str = key_field("name", "The name that nodes use.", required=True, missing="")
    path: str = key_field(
        "string",
        "The component's folder or `.wasm` file, relative to Torvyn.toml.",
        required=True,
        missing="",
    )
    language: str | None = key_field(
        "string",
        "The programming language; `wasm` means that the component is already built.",
        choices=("python", "c", "rust", "wasm"),
        unsupported=("zig", "js", "go"),
        default_doc="detected from the folder",
    )
    isolation: str | None = key_field(
        "string",
        "Where the component runs: in this process, trusted, or in the sandbox.",
        choices=("in-process", "wasm"),
        default_doc="`in-process` for Python, else `wasm`",
    )
    entry: str | None = key_field(
        "string",
        "A file in the folder, or `module:Class`.",
        default_doc="the only class with a role in `component.py`",
    )
    capabilities: tuple[str, ...] | None = key_field(
        "strings", "The capabilities that it requests in the sandbox; `?` marks an optional one."
    )


COMPONENT: Final = Table.of(
    ComponentRecord, "[[component]]", "A component of the project. Nodes refer to it by name."
)


@dataclass(slots=True)
class NodeRecord(Record):
    name: str = ""
    component: Any = key_field(
        "string",
        "The name of a declared, built-in or installed component.",
        required=True,
        missing="",
    )
    """The name or path of a component; in a program also a live component."""
    interface: str | None = key_field(
        "string",
        "The role that the component must have.",
        choices=tuple(INTERFACES),
        default_doc="the component's",
    )
    config: str | Mapping[str, Any] | Sequence[Any] | None = key_field(
        "config",
        "The component's config: a string or a table, as it takes. For a built-in component, "
        "also the value of its main option.",
        default="",
    )
    max_memory_bytes: int | None = key_field(
        "size", "Memory that it may use.", default_doc="`max_memory_per_component`"
    )
    call_timeout_s: float | None = key_field(
        "duration",
        "The time limit of a call to an async or sandboxed node.",
        default_doc="the runtime's",
    )
    init_timeout_s: float | None = key_field(
        "duration", "The time limit of `init`.", default_doc="the runtime's"
    )
    cpu_share: float | None = _CPU_SHARE.field()
    fuel: int | None = key_field(
        "integer",
        "Instructions that one call may execute in the sandbox.",
        minimum=1,
        maximum=2**62,
        default_doc="no limit except time",
    )
    deterministic: bool | None = key_field(
        "boolean",
        "Whether clocks and random numbers are derived from `seed`, in the sandbox.",
        default=False,
    )
    seed: int | None = key_field(
        "integer", "The seed of a deterministic node.", default=0, maximum=2**62
    )
    run: str | None = key_field(
        "string",
        "Where the component is called: in the turn, on an event loop or on its own thread.",
        choices=RUN_MODES,
        default_doc="detected from the component",
    )
    key: Any = key_field(
        "string",
        "A field, or `attribute:NAME`: each of its values has a component of its own. For "
        "processors and aggregators.",
        default_doc="one component for all elements",
    )
    """A field; in a program also a function of an element."""
    max_keys: int | None = key_field(
        "integer",
        "Keys that have a component. Beyond it, or beyond `max_memory`, the key that was used "
        "least recently is flushed and forgotten. Where only `max_keys` is set, the node may "
        "use 2 KiB per key.",
        default=10_000,
        minimum=1,
        maximum=2**24,
    )
    on_error: str | Mapping[str, Any] | None = _ON_ERROR.field(default_doc="the flow's")
    unit: str | None = key_field(
        "string",
        "The name of its outputs in summaries. A component's name may say it, such as "
        "`token-source`; a sink takes that of the aggregator before it.",
        default_doc="the component's, else `elements`",
    )
    ignored_ports: Sequence[str] | None = key_field(
        "strings",
        "Ports of a router that need no edge. Their elements are counted and dropped.",
        default_doc="none",
    )
    place: Mapping[str, Any] | None = key_field(
        "place",
        "What the group of this node needs on a cluster (see `place`). A group is the nodes "
        "that no `nats` edge separates; `torvyn link --on ray` shows them.",
        default_doc="1 replica with 1 CPU",
    )


NODE: Final = Table.of(
    NodeRecord, "[flow.NAME.nodes.NODE]", "A node: a component's place in the flow."
)


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
    source: PortRef = key_field(
        "end",
        'The start: `"node"`, `"node:port"` or `{ node, port }`.',
        name="from",
        required=True,
        missing=NO_PORT,
    )
    target: PortRef = key_field(
        "end", "The end, in the same forms.", name="to", required=True, missing=NO_PORT
    )
    queue_depth: int | None = _DEPTH.field(default_doc="the flow's")
    queue_bytes: int | None = _BYTES.field(default_doc="the flow's")
    backpressure: str | None = _BACKPRESSURE.field(default_doc="the flow's")
    low_watermark: float | None = key_field(
        "ratio",
        "The fill level at which a full queue accepts elements again.",
        default=0.5,
        maximum=1,
    )
    carrier: str | None = key_field(
        "string",
        "Where its elements wait: in memory, or until the next node has settled them, also "
        "through a crash, on the disk or in a NATS server, which other machines can reach.",
        default="memory",
        choices=get_args(Carrier),
    )
    max_bytes: int | None = key_field(
        "size",
        "Space of a `disk` edge, with all of its files, or `nats` edge.",
        name="max_bytes",
        default=256 * MiB,
        minimum=MiB,  # Below it, the database itself leaves no room for elements.
    )
    max_age_s: float | None = key_field(
        "duration",
        "How old an element on the disk or the broker may become.",
        default_doc="no limit",
    )
    order: str | None = key_field(
        "string",
        "What a `disk` edge delivers first after an outage: the oldest elements, or new ones.",
        default="oldest-first",
        choices=get_args(Order),
    )
    drain_rate: int | None = key_field(
        "integer",
        "Elements per second that are read back from the disk.",
        minimum=1,
        maximum=10**9,
        default_doc="no limit",
    )
    max_waiting: int | None = key_field(
        "integer",
        "Batches of one key that may wait on a `nats` edge. With one more, the elements wait "
        "in front of the edge.",
        default=256,
        minimum=1,
        maximum=10**6,
    )


EDGE: Final = Table.of(
    EdgeRecord,
    "[[flow.NAME.edges]]",
    "An edge: a bounded queue from a node's output port to another node.",
)


@dataclass(slots=True)
class FlowRecord(Record):
    name: str = ""
    description: str | None = key_field("string", "What the flow does.")
    priority: str | None = key_field(
        "string", "The flow's share of processor time.", default="normal", choices=PRIORITIES
    )
    deadline_s: float | None = key_field(
        "duration", "The time limit of the flow.", default_doc="none"
    )
    checkpoint_s: float | None = key_field(
        "duration",
        "How often the states of its components are saved, so that a new run continues where "
        "the last one ended.",
        default_doc="1s with a `disk` edge, else never",
    )
    max_memory_bytes: int | None = key_field(
        "size", "Memory that its nodes and queues may use together.", default_doc="no limit"
    )
    cpu_share: float | None = _CPU_SHARE.field(
        doc="CPU time that its nodes may use together, in CPUs."
    )
    queue_depth: int | None = _DEPTH.field()
    queue_bytes: int | None = _BYTES.field()
    backpressure: str | None = _BACKPRESSURE.field()
    on_error: str | Mapping[str, Any] | None = _ON_ERROR.field()
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    edges: list[EdgeRecord] = field(default_factory=list)


FLOW: Final = Table.of(
    FlowRecord,
    "[flow.NAME]",
    "A flow: nodes and the edges between them.",
    tables=("nodes", "edges"),
)


@dataclass(slots=True, kw_only=True)
class PackRecord(Record):
    """What `torvyn pack` adds to the files that the project needs, and what it leaves out."""

    include: tuple[str, ...] | None = key_field(
        "strings",
        'Patterns such as `"models/**"`, relative to Torvyn.toml: files that are added to the '
        "components and to the files that the configs of nodes name.",
    )
    exclude: tuple[str, ...] | None = key_field("strings", "Patterns of files that are left out.")


PACK: Final = Table.of(PackRecord, "[pack]", "The files that `torvyn pack` puts into an artifact.")


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


PLACE: Final = Table(
    "place",
    "What a group of nodes needs on a cluster. One process ignores it.",
    (
        Key(
            "replicas",
            "integer",
            "Processes that share the keys of the group, or its elements if it keeps no state.",
            default=1,
            minimum=1,
            maximum=1024,
        ),
        Key("cpus", "ratio", "CPUs of each replica.", default=1.0, maximum=4096),
        Key("gpus", "ratio", "GPUs of each replica.", default=0.0, maximum=4096),
        Key(
            "memory",
            "size",
            "Memory of each replica.",
            default_doc="none reserved",
            minimum=1,
            maximum=2**50,
        ),
        Key(
            "resources",
            "amounts",
            "Resources of each replica that you named when you started the cluster: "
            "`{ camera = 1 }`.",
            default_doc="none",
        ),
    ),
    PlaceOptions,
)
ON_ERROR: Final = Table(
    "on_error",
    "What happens to an element when a call fails.",
    (
        Key("policy", "string", "The policy.", required=True, choices=POLICIES),
        Key("max", "integer", "The most retries.", default=3, minimum=1, maximum=10**6),
        Key(
            "backoff",
            "duration",
            "The longest first pause; each retry doubles it. The pause itself is random.",
            default=0.1,
        ),
        Key("max_backoff", "duration", "The longest pause of all.", default=30.0),
        Key(
            "then",
            "string",
            "What happens after the last retry.",
            default="fail-fast",
            default_doc="`set-aside` in a flow that keeps state, else `fail-fast`",
            choices=get_args(LastResort),
        ),
        Key(
            "to",
            "string",
            'Where dead letters go: `"node"`, `"node:port"` or a file.',
            default_doc="the dead letters of a flow that keeps state (`torvyn store`)",
        ),
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
    PortRef,
)
SETTINGS: Final = {
    "runtime": RUNTIME,
    "observability": OBSERVABILITY,
    "security": SECURITY,
    "cluster": CLUSTER,
    "serve": SERVE,
}
"""The tables that flags, the environment and the user's config can override. Grants cannot be
overridden."""
REMOVED: Final = {
    "security.default_capability_policy": "remove it: everything is denied unless "
    "`[security.grants]` grants it",
}
"""Settings that earlier versions had, with hints for those who still write them."""
TOP_LEVEL: Final = ("torvyn", "component", "flow", *SETTINGS, "pack")
ALL: Final = (
    *(PROJECT, COMPONENT, FLOW, NODE, PLACE, EDGE, END, ON_ERROR),
    *(RUNTIME, OBSERVABILITY, SECURITY, GRANT, CLUSTER, SERVE, PACK),
)
