"""What all pods have: labels, an unprivileged user, a read-only root, what they need."""

from __future__ import annotations

import math
from typing import Any, Final

from torvyn._cluster.kubernetes.names import object_name
from torvyn._cluster.kubernetes.options import KubernetesOptions
from torvyn._link.plan import PlacePlan
from torvyn.errors import LinkError

USER: Final = 10_001
GPU: Final = "nvidia.com/gpu"
_SCRATCH: Final = "tmp"


def labels(flow: str, component: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "torvyn",
        "app.kubernetes.io/instance": flow,
        "app.kubernetes.io/component": component,
    }


def kubernetes_object(
    api: str, kind: str, name: str, options: KubernetesOptions, label: dict[str, str]
) -> dict[str, Any]:
    """An object without its contents."""
    metadata: dict[str, Any] = {"name": name}
    if options.namespace is not None:
        metadata["namespace"] = options.namespace
    metadata["labels"] = {**label, "app.kubernetes.io/managed-by": "torvyn"}
    return {"apiVersion": api, "kind": kind, "metadata": metadata}


def pod_template(
    label: dict[str, str], container: dict[str, Any], grace_s: int, volumes: list[dict[str, Any]]
) -> dict[str, Any]:
    """A pod that may do nothing but run its container."""
    return {
        "metadata": {"labels": label},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": grace_s,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{**container, "securityContext": _container_security()}],
            "volumes": volumes,
        },
    }


def scratch_volume() -> dict[str, Any]:
    """A folder of the pod's own, which is lost with it."""
    return {"name": _SCRATCH, "emptyDir": {"sizeLimit": "1Gi"}}


def scratch_mount() -> dict[str, Any]:
    return {"name": _SCRATCH, "mountPath": "/tmp"}


def disruption_budget(
    name: str, options: KubernetesOptions, label: dict[str, str]
) -> dict[str, Any]:
    """Nodes are drained one pod at a time; a single pod may be moved."""
    return {
        **kubernetes_object("policy/v1", "PodDisruptionBudget", name, options, label),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": label}},
    }


def resources(needs: PlacePlan, group: str) -> dict[str, Any]:
    """What is reserved. Memory is limited to it; CPUs that nobody else uses may be used."""
    whole_cpus = needs.cpus == int(needs.cpus)
    cpus = f"{needs.cpus:.0f}" if whole_cpus else f"{math.ceil(needs.cpus * 1000)}m"
    requests: dict[str, Any] = {"cpu": cpus}
    limits: dict[str, Any] = {}
    if needs.memory is not None:
        requests["memory"] = limits["memory"] = _memory(needs.memory)
    for name, amount in {GPU: needs.gpus, **needs.resources}.items():
        if amount:
            limits[name] = _whole(name, amount, group)
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def _memory(size_bytes: int) -> str:
    whole, rest = divmod(size_bytes, 2**20)
    return str(size_bytes) if rest else f"{whole}Mi"


def _whole(name: str, amount: float, group: str) -> int:
    if "/" not in name:
        raise LinkError(
            "cluster.bad-resource",
            f"`{group}` needs the resource `{name}`, and Kubernetes names resources with a domain",
            hint=f'write `"example.com/{object_name(name)}" = {amount:g}`, as the device plugin '
            "names it",
        )
    if amount != int(amount):
        what = "GPUs" if name == GPU else f"`{name}`"
        raise LinkError(
            "cluster.bad-resource",
            f"`{group}` needs {amount:g} {what}, and Kubernetes gives only whole ones",
            hint="write a whole number, or run the flow on Ray",
        )
    return int(amount)


def _container_security() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
