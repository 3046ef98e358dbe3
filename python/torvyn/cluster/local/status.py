"""What runs of a local cluster, and how much it uses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from torvyn._io.local_cluster import Broker, RayHead
from torvyn.cluster.local.broker_report import NoAnswer, StreamReport, read_streams
from torvyn.cluster.local.lifecycle import state_of
from torvyn.cluster.local.ray_report import RayReport, read_ray

State: TypeAlias = Literal["running", "silent", "crashed"]
"""Of a part: it answers; its process runs and does not answer; its process has ended."""


@dataclass(frozen=True, slots=True)
class PartStatus:
    name: str
    state: State
    address: str
    pid: int
    version: str
    log: str
    uptime_s: float | None = None
    memory_bytes: int | None = None
    reason: str | None = None
    """Why it does not answer."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    folder: Path
    parts: tuple[PartStatus, ...]
    streams: tuple[StreamReport, ...] | None = None
    """None: the broker does not answer."""
    sync: str | None = None
    ray: RayReport | None = None

    @property
    def is_running(self) -> bool:
        """Whether all that was started answers."""
        return bool(self.parts) and all(part.state == "running" for part in self.parts)

    def part(self, name: str) -> PartStatus | None:
        return next((part for part in self.parts if part.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        nats, ray = self.part("nats"), self.part("ray")
        fields: dict[str, Any] = {"running": self.is_running, "folder": str(self.folder)}
        fields["nats"] = nats and {**asdict(nats), "sync": self.sync, **self._stored()}
        fields["ray"] = ray and {**asdict(ray), **(asdict(self.ray) if self.ray else {})}
        return fields

    def _stored(self) -> dict[str, Any]:
        if self.streams is None:
            return {}
        return {
            "consumers": sum(stream.consumers for stream in self.streams),
            "messages": waiting_messages(self.streams),
            "streams": [asdict(stream) for stream in self.streams],
        }


def waiting_messages(streams: Sequence[StreamReport]) -> int:
    """Without the values of buckets, which wait for nobody."""
    return sum(stream.messages for stream in streams if not stream.is_bucket)


def read_status(folder: Path) -> ClusterStatus:
    """Asks each part that was started; takes seconds if there is a Ray."""
    state = state_of(folder)
    parts, streams, report = [], None, None
    broker, ray = state.broker, state.ray
    if broker is not None:
        status, streams = _broker_status(broker)
        parts.append(status)
    if ray is not None:
        status, report = _ray_status(ray)
        parts.append(status)
    sync = None if broker is None else broker.sync
    return ClusterStatus(folder, tuple(parts), streams, sync, report)


def _broker_status(broker: Broker) -> tuple[PartStatus, tuple[StreamReport, ...] | None]:
    if not broker.process.is_running:
        return _part("nats", broker, "crashed"), None
    try:
        return _part("nats", broker, "running"), tuple(read_streams(broker.url))
    except NoAnswer as error:
        return _part("nats", broker, "silent", str(error)), None


def _ray_status(ray: RayHead) -> tuple[PartStatus, RayReport | None]:
    if not ray.process.is_running:
        return _part("ray", ray, "crashed"), None
    try:
        return _part("ray", ray, "running"), read_ray(ray)
    except NoAnswer as error:
        return _part("ray", ray, "silent", str(error)), None


def _part(name: str, part: Broker | RayHead, state: State, reason: str | None = None) -> PartStatus:
    is_running = state != "crashed"
    return PartStatus(
        name,
        state,
        part.address,
        part.process.pid,
        part.version,
        part.log,
        time.time() - part.since_s if is_running else None,
        part.process.resident_bytes() if is_running else None,
        reason,
    )
