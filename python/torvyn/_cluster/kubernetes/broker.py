"""nats-server with JetStream: a StatefulSet with a volume for each server."""

from __future__ import annotations

from typing import Any, Final

from torvyn._cluster.kubernetes import pod
from torvyn._cluster.kubernetes.environment import TOKEN, TOKEN_KEY, Names, secret_variable
from torvyn._cluster.kubernetes.options import KubernetesOptions

GRACE_S: Final = 60
_CLIENTS: Final = 4222
_ROUTES: Final = 6222
_MONITOR: Final = 8222
_CONFIG: Final = "/etc/nats"
_DATA: Final = "/data"


def broker_objects(names: Names, options: KubernetesOptions, servers: int) -> list[dict[str, Any]]:
    """`servers`: how many store each element; they need a majority, so their number is odd."""
    servers += 1 - servers % 2
    label = pod.labels(names.flow, "nats")
    return [
        _config_map(names, options, label, servers),
        _service(names, options, label),
        _stateful_set(names, options, label, servers),
        pod.disruption_budget(names.broker, options, label),
        _network_policy(names, options, label),
    ]


def server_config(names: Names, servers: int) -> str:
    """The configuration of each server, with the variables of its pod."""
    lines = [
        "server_name: $POD_NAME",
        f"listen: 0.0.0.0:{_CLIENTS}",
        f"http: 0.0.0.0:{_MONITOR}",
        f"authorization {{ token: ${TOKEN} }}",
        f'jetstream {{ store_dir: "{_DATA}" }}',
    ]
    if servers > 1:
        routes = ", ".join(
            f'"nats://{names.broker}-{number}.{names.broker}:{_ROUTES}"'
            for number in range(servers)
        )
        lines.append("cluster {")
        lines += [f"  name: {names.broker}", f"  listen: 0.0.0.0:{_ROUTES}"]
        lines += [f"  routes: [{routes}]", "}"]
    return "\n".join(lines) + "\n"


def _config_map(
    names: Names, options: KubernetesOptions, label: dict[str, str], servers: int
) -> dict[str, Any]:
    return {
        **pod.kubernetes_object("v1", "ConfigMap", names.broker, options, label),
        "data": {"nats.conf": server_config(names, servers)},
    }


def _service(names: Names, options: KubernetesOptions, label: dict[str, str]) -> dict[str, Any]:
    return {
        **pod.kubernetes_object("v1", "Service", names.broker, options, label),
        "spec": {
            "clusterIP": "None",
            "selector": label,
            # The servers of a cluster must find each other before they are ready.
            "publishNotReadyAddresses": True,
            "ports": [{"name": "clients", "port": _CLIENTS}],
        },
    }


def _stateful_set(
    names: Names, options: KubernetesOptions, label: dict[str, str], servers: int
) -> dict[str, Any]:
    volumes = [{"name": "config", "configMap": {"name": names.broker}}]
    template = pod.pod_template(label, _container(names, options), GRACE_S, volumes)
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": options.nats_storage}},
        },
    }
    return {
        **pod.kubernetes_object("apps/v1", "StatefulSet", names.broker, options, label),
        "spec": {
            "replicas": servers,
            "serviceName": names.broker,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": label},
            "template": template,
            "volumeClaimTemplates": [claim],
        },
    }


def _container(names: Names, options: KubernetesOptions) -> dict[str, Any]:
    return {
        "name": "nats",
        "image": options.nats_image,
        "command": ["nats-server", "-c", f"{_CONFIG}/nats.conf"],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            secret_variable(TOKEN, names.broker, TOKEN_KEY),
        ],
        "ports": [
            {"name": "clients", "containerPort": _CLIENTS},
            {"name": "routes", "containerPort": _ROUTES},
            {"name": "monitor", "containerPort": _MONITOR},
        ],
        "resources": {
            "requests": {"cpu": "500m", "memory": "256Mi"},
            "limits": {"memory": "1Gi"},
        },
        # It reads its store first.
        "startupProbe": _probe("/healthz?js-enabled-only=true", period_s=5, failures=120),
        "readinessProbe": _probe("/healthz?js-server-only=true", period_s=5, failures=1),
        "livenessProbe": _probe("/healthz?js-enabled-only=true", period_s=30, failures=3),
        "volumeMounts": [
            {"name": "config", "mountPath": _CONFIG, "readOnly": True},
            {"name": "data", "mountPath": _DATA},
        ],
    }


def _network_policy(
    names: Names, options: KubernetesOptions, label: dict[str, str]
) -> dict[str, Any]:
    """Only the pods of the flow reach the broker."""
    flow = {"matchLabels": {"app.kubernetes.io/instance": names.flow}}
    ports = [{"port": _CLIENTS}, {"port": _ROUTES}]
    return {
        **pod.kubernetes_object(
            "networking.k8s.io/v1", "NetworkPolicy", names.broker, options, label
        ),
        "spec": {
            "podSelector": {"matchLabels": label},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": flow}], "ports": ports},
                # Probes come from the node.
                {"ports": [{"port": _MONITOR}]},
            ],
        },
    }


def _probe(path: str, period_s: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "monitor"},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
