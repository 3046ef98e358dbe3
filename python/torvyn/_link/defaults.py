"""Defaults: the values that the settings give to flows and nodes that set none of their own.

A program that builds many flows has one `Settings` for all of them, so the last result is cached.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from torvyn._io.broker_login import BrokerLogin
from torvyn._link.plan import ClusterPlan, ComponentRef, EdgePlan, RuntimePlan, TelemetryPlan
from torvyn._manifest.setting_records import GUEST_INIT_TIMEOUT_S, RUNTIME
from torvyn._manifest.settings import Settings
from torvyn.components import ENGINES

DEFAULT_CHECKPOINT_S: Final = 1.0
"""How often a flow with a durable edge saves the states of its components, unless it says so."""
UNLIMITED_S: Final = 1e9
"""The `call_timeout` of components whose calls may wait without limit: thirty years."""
PROGRAM: Final = "program"
"""Stands for the name of the project in a program that has none."""
GRPC_ENDPOINT: Final = "http://127.0.0.1:4317"
"""The default for gRPC: collectors have a port per protocol."""
_RUNTIME_FIELDS: Final = {field.name for field in fields(RuntimePlan)}


@dataclass(frozen=True, slots=True)
class Defaults:
    settings: Settings
    runtime: RuntimePlan
    _limits: Mapping[str, Any]
    """The `max_memory`, `call_timeout` and `init_timeout` of nodes."""
    _has_init_timeout: bool
    """Whether somebody set `init_timeout`; if not, guests and engines have their own."""
    is_memory_default: bool = True
    """Whether nobody set `max_memory_per_component`."""

    def limits(self, ref: ComponentRef) -> Mapping[str, Any]:
        """The limits of a node with this component, by the keys of its table."""
        if self._has_init_timeout:
            return self._limits
        if ref.kind == "wasm":
            return {**self._limits, "init_timeout": GUEST_INIT_TIMEOUT_S}
        if ref.name in ENGINES:
            # The time to load a model cannot be known.
            return {**self._limits, "init_timeout": None}
        return self._limits


_last: Defaults | None = None


def defaults_of(settings: Settings) -> Defaults:
    global _last
    known = _last
    if known is None or known.settings is not settings:
        known = _last = _read(settings)
    return known


def _read(settings: Settings) -> Defaults:
    limits = {
        "max_memory": settings["runtime.max_memory_per_component"],
        "call_timeout": settings["runtime.call_timeout"],
        "init_timeout": settings["runtime.init_timeout"],
    }
    values = {key.attribute: settings[f"runtime.{key.name}"] for key in RUNTIME.keys}
    runtime = RuntimePlan(**{name: values[name] for name in _RUNTIME_FIELDS})
    has_init_timeout = settings.values["runtime.init_timeout"].origin != "default"
    is_memory_default = settings.values["runtime.max_memory_per_component"].origin == "default"
    return Defaults(settings, runtime, limits, has_init_timeout, is_memory_default)


def audit_file(settings: Settings, folder: Path) -> str:
    """The absolute path of the audit file; the process may change its folder later."""
    return _absolute(os.getcwd(), str(folder), settings["security.audit_file"])


def state_dir(settings: Settings, folder: Path) -> str:
    """The absolute path of the folder for stored elements and checkpoints."""
    return _absolute(os.getcwd(), str(folder), settings["runtime.state_dir"])


def telemetry_plan(settings: Settings, folder: Path) -> TelemetryPlan | None:
    """None if nothing is exported."""
    exporter = settings["observability.exporter"]
    if exporter == "none" or settings["observability.level"] == "off":
        return None
    endpoint, protocol = settings["observability.endpoint"], exporter.removeprefix("otlp-")
    if protocol == "grpc" and settings.values["observability.endpoint"].origin == "default":
        endpoint = GRPC_ENDPOINT
    return TelemetryPlan(
        protocol=protocol,
        endpoint=endpoint,
        headers=settings["observability.headers"],
        sample_rate=settings["observability.sample_rate"],
        latency_promote_s=settings["observability.latency_promote"],
        metrics_interval_s=settings["observability.metrics_interval"],
        max_spool_bytes=settings["observability.max_spool"],
        folder=_absolute(
            os.getcwd(), str(folder), str(Path(settings["runtime.state_dir"], "telemetry"))
        ),
    )


def namespace_of(settings: Settings, project: str, folder: Path) -> str:
    """What the project's flows are called on the broker. Without a setting, a checkout has the
    namespace of its state folder, which stays where it is when a deployment is updated."""
    namespace: str | None = settings["cluster.namespace"]
    if namespace is not None:
        return namespace
    state = state_dir(settings, folder).encode("utf-8", "surrogateescape")
    return f"{project}-{blake2b(state, digest_size=4).hexdigest()}"


def broker_login(settings: Settings, folder: Path) -> BrokerLogin:
    """Files are relative to Torvyn.toml."""
    found = {each.name: settings[f"cluster.{each.name}"] for each in fields(BrokerLogin)}
    files = {name: file for name, file in found.items() if name.endswith("_file") and file}
    absolute = {name: _absolute(os.getcwd(), str(folder), file) for name, file in files.items()}
    return BrokerLogin(**{**found, **absolute})


def cluster_plan(settings: Settings, edges: Iterable[EdgePlan], folder: Path) -> ClusterPlan | None:
    """None if no edge leaves the process."""
    has_nats = any(edge.carrier == "nats" for edge in edges)
    return broker_plan(settings, "", folder) if has_nats else None


def broker_plan(settings: Settings, project: str, folder: Path) -> ClusterPlan:
    """The broker of a project, whatever its flows have. Without a setting, it is that of `torvyn
    cluster up`, if it runs."""
    from torvyn._io import local_cluster

    return ClusterPlan(
        nats=settings["cluster.nats"] or local_cluster.address() or "",
        login=broker_login(settings, folder),
        namespace=namespace_of(settings, project or PROGRAM, folder),
        project=project,
        stream_replicas=settings["cluster.stream_replicas"],
        duplicate_window_s=settings["cluster.duplicate_window"],
        start_timeout_s=settings["cluster.start_timeout"],
    )


@lru_cache
def _absolute(current: str, folder: str, file: str) -> str:
    return str(Path(current, folder, file))
