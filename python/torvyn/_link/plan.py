"""The Plan: a linked flow, frozen and printable. Nothing in it has been started.

A Plan is data: a component is named by `ComponentRef`, so a Plan can be pickled. Only a flow that a
program built from live objects has them in its Plan (`ComponentRef.instance`), which then cannot
leave its process. The native core reads the attributes of a Plan's nodes and edges as they are.

The parts of a flow that only durable edges connect are its segments. The nodes of a segment are
always in one process, and a segment has the name of its first node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from torvyn._contract.inspection import class_name
from torvyn._contract.units import render_duration, render_size
from torvyn._io.broker_login import NO_LOGIN, BrokerLogin
from torvyn._io.safe_text import redact, without_credentials
from torvyn._manifest.records import EDGE, NODE, ON_ERROR, PLACE
from torvyn._manifest.setting_records import CLUSTER
from torvyn.errors import Diagnostic, Location

_LAST_MOMENTS_S: Final = 10.0
"""For the end of the process, after the flow has ended."""


@dataclass(frozen=True, slots=True)
class ComponentRef:
    """How to create a component.

    `target` is `module:Class`, for a component of a project `folder/file.py:Class`, and for a
    sandboxed one the path of its `.wasm`.
    """

    kind: str
    """`builtin`, `project`, `entry-point`, `wasm` or `object`; `carrier` for an end of an edge."""
    name: str
    target: str
    instance: Any = field(default=None, compare=False, repr=False)
    cache_dir: str = ""
    """The folder of a sandboxed component's compiled code; empty means the user's cache."""


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """What happens to an element whose call failed."""

    policy: str = "fail-fast"
    """`fail-fast`, `set-aside`, `skip`, `retry` or `dead-letter`."""
    max: int = ON_ERROR.default("max")
    backoff_s: float = ON_ERROR.default("backoff")
    then: str = ON_ERROR.default("then")
    """What follows the last retry: `fail-fast`, `set-aside`, `skip` or `dead-letter`."""
    to: str | None = None
    """The node or file that receives dead letters; None means the store of the flow."""
    max_backoff_s: float = ON_ERROR.default("max_backoff")

    @property
    def retries(self) -> int:
        return self.max if self.policy == "retry" else 0

    @property
    def recovery(self) -> str:
        """What happens once no retry is left."""
        last = self.then if self.policy == "retry" else self.policy
        return "store" if last == "dead-letter" and self.to is None else last

    @property
    def stores_letters(self) -> bool:
        """Whether elements may go to the dead letters of the flow."""
        return self.recovery in ("store", "set-aside")


@dataclass(frozen=True, slots=True)
class PlacePlan:
    """What the group of a node needs on a cluster."""

    replicas: int = PLACE.default("replicas")
    cpus: float = PLACE.default("cpus")
    gpus: float = PLACE.default("gpus")
    memory: int | None = None
    """In bytes."""
    resources: Mapping[str, float] = field(default_factory=dict, hash=False)
    """By the names that the cluster was started with."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    name: str
    role: str
    component: ComponentRef
    config: str = field(repr=False)
    """The text that `init` receives; it may hold secrets."""
    run: str
    unit: str | None
    ports: tuple[str, ...]
    """The output ports, in order. Sinks have none. A node with the policy `dead-letter` has a last
    port `error`, connected like any other."""
    on_error: ErrorPolicy
    max_memory_bytes: int
    call_timeout_s: float
    init_timeout_s: float | None
    cpu_share: float | None = None
    """The CPU time that its calls may use, in CPUs; None means no limit."""
    fuel: int | None = None
    """The instructions that a sandboxed call may execute; None means no limit but its time."""
    seed: int | None = None
    """The seed of a sandboxed component's clocks and random numbers; None means real ones."""
    grants: tuple[str, ...] = ()
    """The capabilities of a sandboxed component, with absolute paths."""
    inputs: tuple[str, ...] = ()
    """The names of its inputs, if it tells them apart."""
    key: Any = None
    """The field or the function by which elements have components of their own; None means that
    one component receives them all."""
    max_keys: int = NODE.default("max_keys")
    place: PlacePlan | None = None
    """What its group needs on a cluster; None if another node of the group says so, or none."""
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class EdgePlan:
    source: str
    port: str
    target: str
    depth: int = EDGE.default("queue_depth")
    bytes: int = EDGE.default("queue_bytes")
    backpressure: str = EDGE.default("backpressure")
    """`block`, `drop-oldest`, `drop-newest` or `error`."""
    low_watermark: float = EDGE.default("low_watermark")
    carrier: str = EDGE.default("carrier")
    """`memory`, `disk` or `nats`."""
    max_bytes: int = EDGE.default("max_bytes")
    max_age_s: float | None = None
    order: str = EDGE.default("order")
    """`oldest-first` or `live-first`."""
    drain_rate: int | None = None
    max_waiting: int = EDGE.default("max_waiting")
    """Batches of one key that may wait on a `nats` edge."""
    input: str = "input"
    """The input of the target that it leads to."""
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RuntimePlan:
    worker_threads: int
    """0 means one per CPU that the process may use."""
    turn_elements: int
    turn_time_s: float
    teardown_timeout_s: float
    drain_timeout_s: float
    max_silence_s: float | None
    """A flow whose sources send nothing for this long has failed; None means no limit."""


@dataclass(frozen=True, slots=True)
class TelemetryPlan:
    """Where spans and metrics are sent."""

    protocol: str
    """`http` or `grpc`."""
    endpoint: str
    headers: str = field(repr=False)
    """Of each request; they may be secret."""
    sample_rate: float
    latency_promote_s: float
    metrics_interval_s: float
    max_spool_bytes: int
    folder: str
    """The folder of what could not be sent yet."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The broker of `nats` edges, and the part of the flow that runs here."""

    nats: str = field(default="", repr=False)
    """Its addresses, with their passwords; empty if there is none."""
    login: BrokerLogin = NO_LOGIN
    namespace: str = ""
    """What the names of the project's flows begin with on the broker; empty if it has none."""
    stream_replicas: int = CLUSTER.default("stream_replicas")
    duplicate_window_s: float = CLUSTER.default("duplicate_window")
    start_timeout_s: float | None = None
    """How long a start waits for the broker; None means 10 s, and without a limit for segments."""
    project: str = ""
    """The name of the project; empty in a program that has none."""
    segments: tuple[str, ...] = ()
    """The segments that run in this process; empty means all of them."""
    replica: int = 0
    """Which of the replicas of its segments this process is."""
    run: str = ""
    """The run that the segments belong to, for whoever starts them again: a segment that has ended
    in it does not begin anew. Empty: a start after the end is a new run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One flow, ready for the reactor. `nodes` are in topological order, sources first."""

    name: str
    nodes: tuple[NodePlan, ...]
    edges: tuple[EdgePlan, ...]
    description: str
    priority: str
    deadline_s: float | None
    runtime: RuntimePlan
    observability: str
    """`off`, `production` or `diagnostic`."""
    audit: str
    """`none`, `stdout` or `file`."""
    audit_file: str
    checkpoint_s: float | None = None
    """How often the states of components are saved; None means never."""
    state_dir: str = ""
    """The folder of stored elements and checkpoints, whether or not the flow has any now."""
    telemetry: TelemetryPlan | None = None
    """None if nothing is exported."""
    cluster: ClusterPlan | None = None
    """None if the flow has no `nats` edge."""
    max_memory_bytes: int | None = None
    """The memory that its nodes and queues may use together; None means no limit."""
    cpu_share: float | None = None
    """The CPU time that its nodes may use together, in CPUs; None means no limit."""
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False, repr=False)
    """Problems of the flow that do not stop it."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values from the environment, redacted wherever they would be printed."""

    def render(self) -> str:
        """The Plan as text for people: nodes in order, then edges."""
        return render_plan(self)

    def node(self, name: str) -> NodePlan:
        return next(node for node in self.nodes if node.name == name)

    def part(self, names: Set[str]) -> Plan:
        """The Plan of some nodes and the edges between them."""
        nodes = tuple(node for node in self.nodes if node.name in names)
        inner = [edge for edge in self.edges if edge.source in names and edge.target in names]
        return replace(self, nodes=nodes, edges=tuple(inner))

    @property
    def stop_limit_s(self) -> float:
        """How long a drain, all teardowns and the end of the process may take."""
        runtime = self.runtime
        teardowns_s = runtime.teardown_timeout_s * len(self.nodes)
        return runtime.drain_timeout_s + teardowns_s + _LAST_MOMENTS_S

    @property
    def head(self) -> str | None:
        """The node that the caller feeds: it has no input and is not a source."""
        fed = {edge.target for edge in self.edges}
        heads = (n.name for n in self.nodes if n.role != "source" and n.name not in fed)
        return next(heads, None)

    @property
    def tail(self) -> str | None:
        """The node that the caller iterates: not a sink, and only dead letters leave it."""
        sending = {edge.source for edge in self.edges if edge.port != "error"}
        tails = (n.name for n in self.nodes if n.role != "sink" and n.name not in sending)
        return next(tails, None)

    def to_dict(self) -> dict[str, Any]:
        """The Plan as JSON-able data, without secrets."""
        # `asdict` copies what it finds, and a live object may not be copyable.
        bare = [replace(n, component=replace(n.component, instance=None)) for n in self.nodes]
        plain: dict[str, Any] = asdict(replace(self, nodes=tuple(bare)))
        del plain["secrets"], plain["warnings"]
        for node in plain["nodes"]:
            del node["component"]["instance"], node["location"]
            if not node["inputs"]:
                del node["inputs"]
            if node["key"] is None:
                del node["key"], node["max_keys"]
            elif not isinstance(node["key"], str):
                node["key"] = class_name(node["key"])
            if node["place"] is None:
                del node["place"]
            if not node["component"]["cache_dir"]:
                del node["component"]["cache_dir"]
        for edge in plain["edges"]:
            del edge["location"]
            if edge["input"] == "input":
                del edge["input"]
            if edge["carrier"] != "nats":
                del edge["max_waiting"]
        if self.cluster is None:
            del plain["cluster"]
        else:
            plain["cluster"]["nats"] = without_credentials(self.cluster.nats)
            del plain["cluster"]["login"]
        redacted: dict[str, Any] = self._without_secrets(plain)
        return redacted

    def _without_secrets(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {key: self._without_secrets(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._without_secrets(item) for item in value]
        return value

    def redact(self, text: str) -> str:
        """The text without secrets."""
        return redact(text, self.secrets)


@dataclass(frozen=True, slots=True)
class Segment:
    name: str
    nodes: tuple[NodePlan, ...]
    """In topological order."""
    inputs: tuple[EdgePlan, ...]
    """The durable edges that lead into it."""
    outputs: tuple[EdgePlan, ...]

    @property
    def replicas(self) -> int:
        """How many processes share its input."""
        places = [node.place for node in self.nodes if node.place is not None]
        return places[0].replicas if places else 1


def segments_of(plan: Plan) -> tuple[Segment, ...]:
    """The segments in the order of their first nodes."""
    root = {node.name: node.name for node in plan.nodes}
    for edge in plan.edges:
        if edge.carrier == "memory":
            old, new = root[edge.target], root[edge.source]
            root = {name: new if own == old else own for name, own in root.items()}
    parts: dict[str, list[NodePlan]] = {}
    for node in plan.nodes:
        parts.setdefault(root[node.name], []).append(node)
    durable = [edge for edge in plan.edges if edge.carrier != "memory"]
    return tuple(_segment(nodes, durable) for nodes in parts.values())


def _segment(nodes: list[NodePlan], durable: Iterable[EdgePlan]) -> Segment:
    names = {node.name for node in nodes}
    return Segment(
        nodes[0].name,
        tuple(nodes),
        tuple(edge for edge in durable if edge.target in names),
        tuple(edge for edge in durable if edge.source in names),
    )


def render_plan(plan: Plan) -> str:
    """The text of `torvyn link`, without secrets."""
    head = f"flow {plan.name}, priority {plan.priority}"
    if plan.deadline_s is not None:
        head += f", deadline {render_duration(plan.deadline_s)}"
    if plan.max_memory_bytes is not None:
        head += f", memory {render_size(plan.max_memory_bytes)}"
    if plan.cpu_share is not None:
        head += f", CPU share {plan.cpu_share:g}"
    lines = [head, *([f"  {plan.description}"] if plan.description else [])]
    lines += ["", "nodes", *columns([_node(plan, node) for node in plan.nodes])]
    if plan.edges:
        lines += ["", "edges", *columns([_edge(edge) for edge in plan.edges])]
    if plan.cluster is not None and plan.cluster.nats:
        lines += ["", "broker", f"  namespace  {plan.cluster.namespace or 'none'}"]
    return plan.redact("\n".join(lines) + "\n")


def _node(plan: Plan, node: NodePlan) -> tuple[str, ...]:
    source = "" if node.component.kind == "project" else f" ({node.component.kind})"
    # Redact before shortening: half of a secret must not be printed either.
    notes = [f"config {_short(plan.redact(node.config))}"] if node.config else []
    if node.role == "router":
        notes.append(f"ports {', '.join(node.ports)}")
    if node.cpu_share is not None:
        notes.append(f"CPU share {node.cpu_share:g}")
    if node.on_error.policy != "fail-fast":
        notes.append(f"on error {node.on_error.policy}")
    return (node.name, node.role, f"{node.component.name}{source}", node.run, "; ".join(notes))


def _edge(edge: EdgePlan) -> tuple[str, ...]:
    return (
        f"{edge.source}:{edge.port}",
        "->",
        edge.target if edge.input == "input" else f"{edge.target}:{edge.input}",
        f"{edge.depth} elements",
        render_size(edge.bytes),
        edge.backpressure,
    )


def _short(text: str, limit: int = 48) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= limit else f"{one_line[: limit - 3]}..."


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows as indented lines with aligned cells."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
