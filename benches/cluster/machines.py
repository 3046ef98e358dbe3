"""A Ray cluster with a head and two more raylets, and a broker that is started again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from torvyn._cluster.broker import RunBroker

_STORE_BYTES: Final = 80_000_000
_BYTECODE: Final = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
QUICK_CHECKS: Final = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 3,
}
"""Ray's own ones find a lost machine after 14 s."""


def missing() -> str | None:
    """Why the cluster cannot run here."""
    try:
        import ray.cluster_utils  # noqa: F401

        from torvyn._cluster.broker import find_server

        find_server()
    except Exception as error:
        return f"needs ray and nats-server: {error}"
    return None


class Machines:
    """Two workers with room for both replicas each, so that one suffices."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        head: dict[str, Any] = {
            "num_cpus": 0,
            "resources": {"head": 8},
            "object_store_memory": _STORE_BYTES,
            "include_dashboard": False,
            "_system_config": QUICK_CHECKS,
        }
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._workers = [self._add_worker(), self._add_worker()]
        self.address: str = self._cluster.address
        self.broker = RunBroker(folder)

    def _add_worker(self) -> Any:
        return self._cluster.add_node(
            num_cpus=2, resources={"worker": 2}, object_store_memory=_STORE_BYTES
        )

    def kill_raylet(self, worker_pid: int) -> None:
        """Kills that of the machine on which a process of a group runs."""
        stat = Path(f"/proc/{worker_pid}/stat").read_text()
        raylet_pid = int(stat.rpartition(") ")[2].split()[1])
        self._workers.sort(key=lambda worker: _raylet_pid(worker) != raylet_pid)
        assert _raylet_pid(self._workers[0]) == raylet_pid, "the process runs on another machine"
        os.kill(raylet_pid, signal.SIGKILL)

    def kill_broker(self) -> None:
        os.kill(self.broker.pid, signal.SIGKILL)

    def repair(self) -> None:
        """Replaces the machine whose raylet was killed."""
        self._cluster.remove_node(self._workers.pop(0), allow_graceful=False)
        self._workers.append(self._add_worker())

    def close(self) -> None:
        self.broker.stop()
        self._cluster.shutdown()


def _raylet_pid(worker: Any) -> int:
    [raylet] = worker.all_processes["raylet"]
    return int(raylet.process.pid)


@contextmanager
def machines(folder: Path) -> Iterator[Machines]:
    with _compiled_modules(folder / "bytecode"):
        started = Machines(folder)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def _compiled_modules(folder: Path) -> Iterator[None]:
    """Processes keep compiled modules, as they find them where torvyn is installed."""
    before = {name: os.environ.pop(name, None) for name in _BYTECODE}
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)
    try:
        yield
    finally:
        os.environ.update({name: value for name, value in before.items() if value is not None})
        if before["PYTHONPYCACHEPREFIX"] is None:
            del os.environ["PYTHONPYCACHEPREFIX"]
