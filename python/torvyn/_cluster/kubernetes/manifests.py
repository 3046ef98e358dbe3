"""The files of a flow on Kubernetes, and the secrets that they refer to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torvyn._cluster.kubernetes.broker import broker_objects
from torvyn._cluster.kubernetes.environment import (
    Names,
    SecretReference,
    broker_secret,
    has_credentials,
    keys_secret,
    variables_secret,
)
from torvyn._cluster.kubernetes.names import FLOW_LENGTH, object_name
from torvyn._cluster.kubernetes.options import KubernetesOptions
from torvyn._cluster.kubernetes.server import server_objects
from torvyn._cluster.kubernetes.workers import worker_files
from torvyn._cluster.kubernetes.yaml_text import render_documents
from torvyn._cluster.placement import Placement
from torvyn._link.plan import Plan
from torvyn.engine.service.flow_parts import service_parts
from torvyn.errors import LinkError


@dataclass(frozen=True, slots=True)
class Manifests:
    files: dict[str, list[dict[str, Any]]]
    """The objects by the name of their file."""
    secrets: tuple[SecretReference, ...]

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [item for objects in self.files.values() for item in objects]

    def texts(self) -> dict[str, str]:
        """The contents of the files."""
        return {name: render_documents(objects) for name, objects in self.files.items()}

    def render(self) -> str:
        """All objects as one text, for `kubectl apply -f -`."""
        return render_documents(self.objects)


def make_manifests(placement: Placement, options: KubernetesOptions) -> Manifests:
    """Raises `LinkError` for what Kubernetes cannot give."""
    names = Names(object_name(options.project, placement.plan.name, limit=FLOW_LENGTH))
    is_served = answers_requests(placement.plan)
    has_edges = any(not edge.is_inside for edge in placement.edges)
    uses_broker = options.has_stored_sessions if is_served else has_edges
    files: dict[str, list[dict[str, Any]]] = {}
    secrets: list[SecretReference] = []
    if options.variables:
        secrets.append(variables_secret(names, options))
    if uses_broker and options.nats is None:
        cluster = placement.plan.cluster
        servers = 1 if cluster is None else cluster.stream_replicas
        files["nats.yaml"] = broker_objects(names, options, servers)
    if uses_broker and (options.nats is None or has_credentials(options)):
        secrets.append(broker_secret(names, options))
    if is_served:
        files["server.yaml"] = server_objects(placement, names, options)
        secrets.append(keys_secret(names, options))
    else:
        files |= worker_files(placement, names, options)
    return Manifests(files, tuple(secrets))


def answers_requests(plan: Plan) -> bool:
    """Whether `torvyn serve` runs the flow, and not `torvyn run`."""
    try:
        service_parts(plan)
    except LinkError:
        return False
    return True
