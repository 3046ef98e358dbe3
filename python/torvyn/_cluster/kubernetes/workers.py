"""A StatefulSet for each group: its pods have numbers, and one number never runs twice. A flow that
ends is a Job for each group instead: its pods have numbers, too, and each succeeds once."""

from __future__ import annotations

from typing import Any, Final

from torvyn._cluster.kubernetes import pod
from torvyn._cluster.kubernetes.environment import Names, flow_environment
from torvyn._cluster.kubernetes.names import group_name, object_name
from torvyn._cluster.kubernetes.options import KubernetesOptions
from torvyn._cluster.placement import Group, Placement

BROKER_SETTING: Final = "TORVYN_CLUSTER__NATS"
GRACE_S: Final = 60
_ORDINAL: Final = "metadata.labels['apps.kubernetes.io/pod-index']"
_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
RETRIES: Final = 1000
"""A pod that has died continues where it was: a Job gives up only if that never helps."""
_CHECK: Final = ["torvyn", "top", "--check"]


def worker_files(
    placement: Placement, names: Names, options: KubernetesOptions
) -> dict[str, list[dict[str, Any]]]:
    """The objects of each group, by the name of their file."""
    files = {}
    for group in placement.groups:
        name = object_name(options.project, placement.plan.name, group_name(group.name))
        label = pod.labels(names.flow, group_name(group.name))
        if options.job is not None:
            name = object_name(name, options.job)
            job = _job(placement, group, name, label, names, options)
            files[f"{group_name(group.name)}.yaml"] = [job]
            continue
        files[f"{group_name(group.name)}.yaml"] = [
            _service(name, label, options),
            _stateful_set(placement, group, name, label, names, options),
            pod.disruption_budget(name, options, label),
        ]
    return files


def _service(name: str, label: dict[str, str], options: KubernetesOptions) -> dict[str, Any]:
    """Nobody calls the pods of a group; a StatefulSet needs the name."""
    return {
        **pod.kubernetes_object("v1", "Service", name, options, label),
        "spec": {"clusterIP": "None", "selector": label},
    }


def _stateful_set(
    placement: Placement,
    group: Group,
    name: str,
    label: dict[str, str],
    names: Names,
    options: KubernetesOptions,
) -> dict[str, Any]:
    container = _container(placement, group, names, options)
    template = pod.pod_template(label, container, GRACE_S, [pod.scratch_volume()])
    return {
        **pod.kubernetes_object("apps/v1", "StatefulSet", name, options, label),
        "spec": {
            "replicas": group.replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": label},
            "template": template,
        },
    }


def _job(
    placement: Placement,
    group: Group,
    name: str,
    label: dict[str, str],
    names: Names,
    options: KubernetesOptions,
) -> dict[str, Any]:
    container = _container(placement, group, names, options)
    template = pod.pod_template(label, container, GRACE_S, [pod.scratch_volume()])
    template["spec"]["restartPolicy"] = "OnFailure"
    return {
        **pod.kubernetes_object("batch/v1", "Job", name, options, label),
        "spec": {
            "completionMode": "Indexed",
            "completions": group.replicas,
            "parallelism": group.replicas,
            "backoffLimit": RETRIES,
            "template": template,
        },
    }


def _container(
    placement: Placement, group: Group, names: Names, options: KubernetesOptions
) -> dict[str, Any]:
    has_broker = any(not edge.is_inside for edge in placement.edges)
    command = ["torvyn", "run", f"flow.{placement.plan.name}", "--format", "json"]
    if has_broker:
        command += ["--segment", group.name, "--replica", "$(REPLICA)"]
        command += ["--run", options.job] if options.job is not None else []
    command += options.arguments
    settings = (BROKER_SETTING,) if has_broker else ()
    number = _ORDINAL if options.job is None else _INDEX
    replica = {"name": "REPLICA", "valueFrom": {"fieldRef": {"fieldPath": number}}}
    return {
        "name": "worker",
        "image": options.image,
        "command": command,
        "env": [replica, *flow_environment(names, options, settings)],
        "resources": pod.resources(group.needs, group.name),
        "startupProbe": _probe(period_s=10, failures=30),
        "livenessProbe": _probe(period_s=30, failures=3),
        "volumeMounts": [pod.scratch_mount()],
    }


def _probe(period_s: int, failures: int) -> dict[str, Any]:
    return {
        "exec": {"command": _CHECK},
        "periodSeconds": period_s,
        "timeoutSeconds": 10,
        "failureThreshold": failures,
    }
