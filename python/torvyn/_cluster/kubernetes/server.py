"""A Deployment and a Service for a flow that answers requests."""

from __future__ import annotations

from typing import Any, Final

from torvyn._cluster.kubernetes import pod
from torvyn._cluster.kubernetes.environment import Names, flow_environment
from torvyn._cluster.kubernetes.options import KubernetesOptions
from torvyn._cluster.placement import Placement

PORT: Final = 8080
GRACE_S: Final = 60
SESSION_SETTING: Final = "TORVYN_SERVE__SESSION_STORE"
_KEYS: Final = "/etc/torvyn"


def server_objects(
    placement: Placement, names: Names, options: KubernetesOptions
) -> list[dict[str, Any]]:
    label = pod.labels(names.flow, "server")
    name = names.flow
    volumes = [
        pod.scratch_volume(),
        {"name": "keys", "secret": {"secretName": names.keys, "defaultMode": 0o440}},
    ]
    template = pod.pod_template(label, _container(placement, names, options), GRACE_S, volumes)
    deployment = {
        **pod.kubernetes_object("apps/v1", "Deployment", name, options, label),
        "spec": {
            "replicas": placement.groups[0].replicas,
            "selector": {"matchLabels": label},
            # A new server is ready before an old one is stopped.
            "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": template,
        },
    }
    service = {
        **pod.kubernetes_object("v1", "Service", name, options, label),
        "spec": {
            "selector": label,
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    return [service, deployment, pod.disruption_budget(name, options, label)]


def _container(placement: Placement, names: Names, options: KubernetesOptions) -> dict[str, Any]:
    group = placement.groups[0]
    command = ["torvyn", "serve", "--host", "0.0.0.0", "--port", str(PORT)]
    command += ["--keys", f"{_KEYS}/keys.json", "--format", "json", *options.arguments]
    settings = (SESSION_SETTING,) if options.has_stored_sessions else ()
    hosts = ",".join([*options.hosts, *_host_names(names.flow, options.namespace)])
    return {
        "name": "server",
        "image": options.image,
        "command": command,
        "env": [
            *flow_environment(names, options, settings),
            {"name": "TORVYN_SERVE__HOSTS", "value": hosts},
        ],
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": pod.resources(group.needs, group.name),
        # A model may take long to load.
        "startupProbe": _probe("/readyz", period_s=5, failures=120),
        "readinessProbe": _probe("/readyz", period_s=5, failures=1),
        "livenessProbe": _probe("/healthz", period_s=10, failures=3),
        "volumeMounts": [
            pod.scratch_mount(),
            {"name": "keys", "mountPath": _KEYS, "readOnly": True},
        ],
    }


def _host_names(name: str, namespace: str | None) -> list[str]:
    """By which other pods call the service."""
    if namespace is None:
        return [name]
    return [name, *(f"{name}.{namespace}{end}" for end in ("", ".svc", ".svc.cluster.local"))]


def _probe(path: str, period_s: int, failures: int) -> dict[str, Any]:
    # The server accepts only host names that it knows; a probe would send the address of the pod.
    headers = [{"name": "Host", "value": "localhost"}]
    return {
        "httpGet": {"path": path, "port": "http", "httpHeaders": headers},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
