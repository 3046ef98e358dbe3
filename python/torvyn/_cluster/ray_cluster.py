"""The Ray cluster of a run: one of this machine for as long as the run takes, or one that exists.

`ray` is the cluster of `torvyn cluster up` if it runs, else that of `RAY_ADDRESS`, else a cluster
of this machine, which ends with the run.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from torvyn._cluster.failures import no_room, package_missing, ray_in_use, ray_unavailable
from torvyn._cluster.placement import Group, Placement
from torvyn._io.local_cluster import ray_environment, running_cluster
from torvyn._io.process import kept_fault_handlers
from torvyn._io.resources import read_resources
from torvyn.errors import UsageError

logger = logging.getLogger("torvyn.cluster")

OBJECT_STORE_BYTES: Final = 80_000_000
"""Ray refuses less than 75 MiB. It carries no elements."""
_CLIENT: Final = "ray://"
_RETRY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class RayTarget:
    """Which cluster a command means."""

    address: str
    """`local`: one for this run."""
    environment: Mapping[str, str]
    """Variables that Ray reads when it connects."""

    @property
    def is_local(self) -> bool:
        return self.address == "local"

    @property
    def attempts(self) -> int:
        """A client server looks at all processes of its machine when a client connects, and fails
        if one of them ends at that moment."""
        return 3 if self.address.startswith(_CLIENT) else 1


def parse_target(on: str) -> RayTarget:
    """`ray`, `ray://HOST:PORT`, or the `HOST:PORT` of a cluster that this machine belongs to."""
    if on != "ray":
        host, colon, port = on.removeprefix(_CLIENT).rpartition(":")
        if not colon or not host or not port.isdecimal():
            raise UsageError(
                "cli.bad-value",
                f"`--on {on}` is not a cluster",
                hint="write `ray`, `ray://HOST:10001`, or the `HOST:PORT` of a cluster that this "
                "machine has joined",
            )
        return RayTarget(on, {})
    head = running_cluster().ray
    if head is not None:
        return RayTarget(head.address, head.environment)
    return RayTarget(os.environ.get("RAY_ADDRESS") or "local", {})


def import_ray() -> ModuleType:
    try:
        import ray
    except ImportError:
        raise package_missing() from None
    module: ModuleType = ray
    return module


@contextmanager
def connected(target: RayTarget, placement: Placement) -> Iterator[ModuleType]:
    """Ray, connected to the cluster. What this process started ends with the block."""
    with _environment(target):
        ray = import_ray()
        _initialize(ray, target, placement)
        try:
            _check_room(ray, target, placement)
            yield ray
        finally:
            # Ray removes the handlers of faults, whoever installed them.
            with kept_fault_handlers():
                ray.shutdown()


@contextmanager
def _environment(target: RayTarget) -> Iterator[None]:
    """Sets what Ray reads when it is imported and when it connects."""
    values = dict(target.environment)
    if target.is_local:
        values = {**ray_environment(""), "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        del values["RAY_AUTH_TOKEN_PATH"]
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _initialize(ray: ModuleType, target: RayTarget, placement: Placement) -> None:
    if ray.is_initialized():
        raise ray_in_use()
    options: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "namespace": "torvyn",
    }
    if target.is_local:
        options |= _local_options(placement)
    for left in reversed(range(target.attempts)):
        try:
            with kept_fault_handlers():
                ray.init(address=target.address, **options)
            return
        except Exception as error:
            if not left:
                raise ray_unavailable(target.address, ray.__version__, error) from error
            time.sleep(_RETRY_S)


def _local_options(placement: Placement) -> dict[str, Any]:
    """A local cluster has every named resource, and as many CPUs as the groups ask for: there they
    share what the machine has."""
    cpus = 0.0
    resources: dict[str, float] = {}
    for group in placement.groups:
        cpus += group.needs.cpus * group.replicas
        for name, amount in group.needs.resources.items():
            resources[name] = resources.get(name, 0.0) + amount * group.replicas
    return {
        "num_cpus": max(math.ceil(cpus), read_resources().cores),
        "resources": resources,
        "object_store_memory": OBJECT_STORE_BYTES,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
    }


def _check_room(ray: ModuleType, target: RayTarget, placement: Placement) -> None:
    """Reports a group that fits no machine. In an existing cluster it waits for a new machine."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for group in placement.groups:
        if any(_fits(group, node) for node in nodes):
            continue
        needs = ", ".join(f"{amount:g} {name}" for name, amount in resources_of(group).items())
        message = f"group `{group.name}` needs {needs}, and no machine of the cluster has that"
        if target.is_local:
            raise no_room(message)
        logger.warning("%s; it waits until one joins", message)


def _fits(group: Group, node: Mapping[str, float]) -> bool:
    return all(node.get(name, 0.0) >= amount for name, amount in resources_of(group).items())


def resources_of(group: Group) -> dict[str, float]:
    """What a replica needs, by Ray's names."""
    needs = group.needs
    own = {"CPU": needs.cpus, "GPU": needs.gpus, "memory": float(needs.memory or 0)}
    return {name: amount for name, amount in (*own.items(), *needs.resources.items()) if amount}


def actor_options(group: Group, *, is_restarted: bool) -> dict[str, Any]:
    """Ray's options of the actor of a replica."""
    needs = group.needs
    return {
        "num_cpus": needs.cpus,
        "num_gpus": needs.gpus,
        "memory": needs.memory,
        "resources": dict(needs.resources),
        "max_restarts": -1 if is_restarted else 0,
        # The command must learn of deaths; Ray would wait for the end again without a word.
        "max_task_retries": 0,
        # `wait` blocks; `drain`, `cancel` and `statistics` are called meanwhile.
        "max_concurrency": 4,
        "scheduling_strategy": "SPREAD",
    }
