"""The draft: a flow as its author wrote it, before names are resolved.

The manifest and the builder in Python (`Flow.add`, `Flow.connect`) both make drafts, so both are
judged by the same rules and become the same Plan. None means "not said": link fills in the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torvyn.errors import Location


@dataclass(slots=True)
class NodeDraft:
    name: str
    component: Any
    """A name, a path, or a live component."""
    interface: str | None = None
    config: str | Mapping[str, Any] | Sequence[Any] | None = None
    max_memory_bytes: int | None = None
    call_timeout_s: float | None = None
    init_timeout_s: float | None = None
    fuel: int | None = None
    deterministic: bool | None = None
    seed: int | None = None
    run: str | None = None
    on_error: str | Mapping[str, Any] | None = None
    unit: str | None = None
    ignored_ports: Sequence[str] | None = None
    location: Location | None = None
    locations: Mapping[str, Location] = field(default_factory=dict, repr=False)
    """Where each key was written; empty for drafts made in a program."""


@dataclass(slots=True)
class EdgeDraft:
    source: str
    target: str
    port: str | None = None
    target_port: str | None = None
    queue_depth: int | None = None
    queue_bytes: int | None = None
    backpressure: str | None = None
    low_watermark: float | None = None
    location: Location | None = None
    locations: Mapping[str, Location] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class FlowDraft:
    name: str
    nodes: dict[str, NodeDraft] = field(default_factory=dict)
    edges: list[EdgeDraft] = field(default_factory=list)
    description: str = ""
    priority: str | None = None
    deadline_s: float | None = None
    queue_depth: int | None = None
    queue_bytes: int | None = None
    backpressure: str | None = None
    on_error: str | Mapping[str, Any] | None = None
    location: Location | None = None
    locations: Mapping[str, Location] = field(default_factory=dict, repr=False)
