"""What `torvyn cluster up` is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from torvyn._io.local_cluster import Broker, RayHead
from torvyn.cluster.local.ports import is_free

MiB: Final = 1024 * 1024

Sync: TypeAlias = Literal["interval", "always"]
"""When the broker makes its files safe from a power failure: every two minutes, or before it
confirms a message."""
SYNCS: Final[tuple[Sync, ...]] = get_args(Sync)

OBJECT_STORE_BYTES: Final = 200 * MiB
"""Ray carries no elements, so a small one will do."""
LEAST_OBJECT_STORE_BYTES: Final = 80 * MiB
"""Ray refuses less than 75 MiB."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """None: not asked for, so any value will do."""

    nats_port: int | None = None
    sync: Sync | None = None
    has_ray: bool = True
    ray_port: int | None = None
    cpus: int | None = None
    object_store_bytes: int | None = None

    def like_broker(self, crashed: Broker | None) -> UpOptions:
        """The broker that is started again is the one before, unless it is asked for another."""
        if crashed is None:
            return self
        sync: Sync = "always" if crashed.sync == "always" else "interval"
        port = crashed.port if is_free(crashed.port) else None
        return replace(self, nats_port=self.nats_port or port, sync=self.sync or sync)

    def like_ray(self, crashed: RayHead | None) -> UpOptions:
        if crashed is None:
            return self
        port = crashed.port if is_free(crashed.port) else None
        return replace(
            self,
            ray_port=self.ray_port or port,
            cpus=self.cpus or crashed.cpus,
            object_store_bytes=self.object_store_bytes or crashed.object_store_bytes,
        )
