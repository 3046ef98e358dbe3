"""The nodes of a Ray cluster, and what is free there.

Ray is asked in a process of its own: a process can be connected to one cluster only, and `ray`
takes a second to import.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Final

from torvyn._cluster.broker_report import NoAnswer
from torvyn._io.local_cluster import RayHead

TIMEOUT_S: Final = 20.0
_PROGRAM: Final = """\
import json, sys
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR", configure_logging=False)
print(json.dumps([ray.nodes(), ray.cluster_resources(), ray.available_resources()]))
"""
_INTERNAL: Final = "node:"
"""Ray has a resource of this name for each node."""


@dataclass(frozen=True, slots=True)
class ResourceReport:
    name: str
    total: float
    free: float


@dataclass(frozen=True, slots=True)
class NodeReport:
    address: str
    is_alive: bool
    resources: dict[str, float]


@dataclass(frozen=True, slots=True)
class RayReport:
    nodes: tuple[NodeReport, ...]
    resources: tuple[ResourceReport, ...]


def read_ray(ray: RayHead) -> RayReport:
    """Raises `NoAnswer`."""
    command = [sys.executable, "-c", _PROGRAM, ray.address]
    environment = {**os.environ, **ray.environment, "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT_S, env=environment, check=False
        )
        nodes, total, free = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"no answer within {TIMEOUT_S:.0f} s") from None
    except ValueError:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoAnswer(lines[-1] if lines else f"exit code {done.returncode}") from None
    return RayReport(tuple(map(_node, nodes)), tuple(_resources(total, free)))


def _node(fields: dict[str, Any]) -> NodeReport:
    return NodeReport(
        fields["NodeManagerAddress"], fields["Alive"], _without_internal(fields["Resources"])
    )


def _resources(total: dict[str, float], free: dict[str, float]) -> list[ResourceReport]:
    # A resource that is used up is left out of `free`.
    return [
        ResourceReport(name, amount, free.get(name, 0.0))
        for name, amount in sorted(_without_internal(total).items())
    ]


def _without_internal(resources: dict[str, float]) -> dict[str, float]:
    return {name: amount for name, amount in resources.items() if not name.startswith(_INTERNAL)}
