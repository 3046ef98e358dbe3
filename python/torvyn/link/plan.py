"""The Plan: a linked flow, frozen and printable. Nothing in it has been started.

A Plan is data: a component is named by `ComponentRef`, so a Plan pickles and can travel. Only a
flow that was built in a program from live objects carries them in `ComponentRef.instance`, and
such a Plan stays in its process.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torvyn.errors import Diagnostic, Location
from torvyn.text.redaction import redact


@dataclass(frozen=True, slots=True)
class ComponentRef:
    """How to make a component: `kind` says where it is found.

    `target` is `module:Class`, for a component of a project `folder/file.py:Class`, and for a
    sandboxed one the path of its `.wasm`.
    """

    kind: str
    """`builtin`, `project`, `entry-point`, `wasm` or `object`."""
    name: str
    target: str
    instance: Any = field(default=None, compare=False, repr=False)
    cache_dir: str = ""
    """Where a sandboxed component's compiled code is kept; empty: in the user's cache."""


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """What happens to an element whose call failed."""

    policy: str = "fail-fast"
    """`fail-fast`, `skip`, `retry` or `dead-letter`."""
    max: int = 3
    backoff_s: float = 0.1
    then: str = "fail-fast"
    """What follows the last retry: `fail-fast`, `skip` or `dead-letter`."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    name: str
    role: str
    component: ComponentRef
    config: str = field(default="", repr=False)
    """As `init` gets it; it may hold secrets."""
    run: str = "inline"
    unit: str | None = None
    ports: tuple[str, ...] = ("output",)
    """The output ports, in order; the reactor knows them by index. Sinks have none. A node with
    the policy `dead-letter` has a last port `error`, wired like any other."""
    on_error: ErrorPolicy = ErrorPolicy()
    max_memory_bytes: int = 64 * 1024 * 1024
    call_timeout_s: float = 5.0
    init_timeout_s: float | None = 60.0
    fuel: int | None = None
    """Instructions a sandboxed call may execute; None: as many as its time allows."""
    seed: int | None = None
    """What a sandboxed component's clocks and random numbers follow from; None: from the world."""
    grants: tuple[str, ...] = ()
    """The capabilities of a sandboxed component, their paths absolute."""
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class EdgePlan:
    source: str
    port: str
    target: str
    depth: int = 64
    bytes: int = 1024 * 1024
    backpressure: str = "block"
    """`block`, `drop-oldest`, `drop-newest` or `error`."""
    low_watermark: float = 0.5
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RuntimePlan:
    worker_threads: int = 0
    """0: as many as there are cores."""
    turn_elements: int = 32
    turn_time_s: float = 100e-6
    teardown_timeout_s: float = 2.0
    drain_timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One flow, ready for the reactor. `nodes` are in topological order, sources first."""

    name: str
    nodes: tuple[NodePlan, ...]
    edges: tuple[EdgePlan, ...]
    description: str = ""
    priority: str = "normal"
    deadline_s: float | None = None
    runtime: RuntimePlan = RuntimePlan()
    observability: str = "production"
    audit: str = "none"
    """`none`, `stdout` or `file`."""
    audit_file: str = ""
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False, repr=False)
    """What is worth saying of the flow before it runs, and stops nothing."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values that came from the environment: redacted wherever they would be printed."""

    def render(self) -> str:
        """The Plan for people: nodes in order, then edges."""
        from torvyn.link.render import render_plan

        return render_plan(self)

    def node(self, name: str) -> NodePlan:
        return next(node for node in self.nodes if node.name == name)

    @property
    def head(self) -> str | None:
        """The node the caller feeds: the one without input that is no source."""
        fed = {edge.target for edge in self.edges}
        heads = (n.name for n in self.nodes if n.role != "source" and n.name not in fed)
        return next(heads, None)

    @property
    def tail(self) -> str | None:
        """The node whose outputs the caller iterates: no sink, and only dead letters leave it."""
        sending = {edge.source for edge in self.edges if edge.port != "error"}
        tails = (n.name for n in self.nodes if n.role != "sink" and n.name not in sending)
        return next(tails, None)

    def to_dict(self) -> dict[str, Any]:
        """The Plan as JSON-able data, without secrets."""
        # A live object is no data, and may be one that cannot be copied.
        bare = [replace(n, component=replace(n.component, instance=None)) for n in self.nodes]
        plain: dict[str, Any] = asdict(replace(self, nodes=tuple(bare)))
        del plain["secrets"], plain["warnings"]
        for node in plain["nodes"]:
            del node["component"]["instance"], node["location"]
            if not node["component"]["cache_dir"]:
                del node["component"]["cache_dir"]
        for edge in plain["edges"]:
            del edge["location"]
        redacted: dict[str, Any] = self._without_secrets(plain)
        return redacted

    def _without_secrets(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {key: self._without_secrets(held) for key, held in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._without_secrets(item) for item in value]
        return value

    def redact(self, text: str) -> str:
        """The text with what came from the environment blotted out."""
        return redact(text, self.secrets)
