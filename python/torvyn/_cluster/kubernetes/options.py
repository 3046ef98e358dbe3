"""What the manifests are made for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

NATS_IMAGE: Final = "nats:2.15-alpine"
NATS_STORAGE: Final = "10Gi"


@dataclass(frozen=True, slots=True)
class KubernetesOptions:
    project: str
    """The name of the project, which begins the name of every object."""
    image: str
    """An image with torvyn, whose working directory is the project."""
    namespace: str | None = None
    broker_namespace: str | None = None
    """What the flows are called on the broker; None: what Torvyn.toml says."""
    nats: str | None = None
    """The address of a broker that exists; None: the manifests have one."""
    nats_image: str = NATS_IMAGE
    nats_storage: str = NATS_STORAGE
    variables: Sequence[str] = ()
    """The environment variables that Torvyn.toml reads."""
    arguments: Sequence[str] = ()
    """Of `torvyn run` and `torvyn serve`, besides those that name the flow and the segment."""
    hosts: Sequence[str] = ()
    """The names by which clients call a server."""
    job: str | None = None
    """The name of a run: the groups are Jobs, which run once. None: they run for ever."""
    has_stored_sessions: bool = False
    """Whether the server keeps its sessions in the broker."""
