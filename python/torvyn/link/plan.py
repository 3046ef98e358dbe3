"""The Plan: a linked flow, frozen and printable. Nothing in it has been started.

A Plan is data: a component is named by `ComponentRef`, so a Plan pickles and can travel. Only a
flow that was built in a program from live objects carries them in `ComponentRef.instance`, and
such a Plan stays in its process.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from torvyn.errors import Location


@dataclass(frozen=True, slots=True)
class ComponentRef:
    """How to make a component: `kind` says where it is found.

    `target` is `module:Class`, or for a component of a project `folder/file.py:Class`.
    """

    kind: str
    """`builtin`, `project`, `entry-point` or `object`."""
    name: str
    target: str
    instance: Any = field(default=None, compare=False, repr=False)


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
    config: str = ""
    run: str = "inline"
    unit: str | None = None
    ports: tuple[str, ...] = ("output",)
    """The output ports, in order; the reactor knows them by index. Sinks have none. A node with
    the policy `dead-letter` has a last port `error`, wired like any other."""
    on_error: ErrorPolicy = ErrorPolicy()
    max_memory_bytes: int = 64 * 1024 * 1024
    call_timeout_s: float = 5.0
    init_timeout_s: float | None = 60.0
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
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values that came from the environment: redacted wherever they would be printed."""

    def render(self) -> str:
        """The Plan for people: nodes in order, then edges."""
        from torvyn.link.render import render_plan

        return render_plan(self)

    def node(self, name: str) -> NodePlan:
        return next(node for node in self.nodes if node.name == name)

    def to_dict(self) -> dict[str, Any]:
        """The Plan as JSON-able data, without secrets."""
        plain: dict[str, Any] = asdict(self)
        del plain["secrets"]
        for node in plain["nodes"]:
            del node["component"]["instance"], node["location"]
            node["config"] = self.redact(node["config"])
        for edge in plain["edges"]:
            del edge["location"]
        return plain

    def redact(self, text: str) -> str:
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "[redacted]")
        return text
