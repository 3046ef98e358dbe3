"""How other programs connect to the broker and to Ray that `torvyn cluster up` runs."""

from __future__ import annotations

import shlex
from typing import Final

from torvyn._io.local_cluster import LocalCluster

ADVICE: Final = (
    "Flows of this user find the broker by themselves. For other programs and settings:",
    '  eval "$(torvyn cluster up -q)"    sets TORVYN_CLUSTER__NATS and the variables of Ray',
)


def variables(cluster: LocalCluster) -> dict[str, str]:
    """The variables that hold the addresses and the tokens."""
    found: dict[str, str] = {}
    if cluster.broker is not None:
        found["TORVYN_CLUSTER__NATS"] = cluster.broker.url
    if cluster.ray is not None:
        found["RAY_ADDRESS"] = cluster.ray.address
        found |= cluster.ray.environment
    return found


def export_lines(cluster: LocalCluster) -> str:
    """The variables as commands for a shell."""
    lines = (f"export {name}={shlex.quote(value)}" for name, value in variables(cluster).items())
    return "\n".join(lines) + "\n"


def running_lines(cluster: LocalCluster) -> list[str]:
    """What runs and where, without tokens."""
    lines = []
    if cluster.broker is not None:
        broker = cluster.broker
        lines.append(f"nats-server {broker.version} at {broker.address}, `--sync {broker.sync}`")
    if cluster.ray is not None:
        lines.append(f"Ray {cluster.ray.version} at {cluster.ray.address}")
    return lines
