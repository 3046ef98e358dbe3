"""Starts what does not run, and stops what was started.

The state file is written as soon as a process exists, so that a command that is killed half-way
leaves nothing behind that `down` does not know.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from torvyn._io.files import FileLock
from torvyn._io.local_cluster import (
    Broker,
    LocalCluster,
    RayHead,
    UnreadableState,
    read_state,
    state_file,
    write_state,
)
from torvyn.cluster.local.broker import STOP_S, find_server, start_broker
from torvyn.cluster.local.options import UpOptions
from torvyn.cluster.local.ray_head import ray_version, start_ray, stop_ray
from torvyn.errors import ClusterError, os_reason

Step: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Shows that something that takes a while is being done."""

_DATA: Final = ("nats", "logs", "nats.token", "nats.conf")


@dataclass(frozen=True, slots=True)
class Change:
    cluster: LocalCluster
    parts: tuple[str, ...]
    """What was started or stopped."""


def bring_up(folder: Path, options: UpOptions, step: Step = nullcontext) -> Change:
    """Starts the parts that do not run."""
    with _locked(folder):
        state = state_of(folder)
        running = state.running
        _check_options(running, options)
        started = []
        if running.broker is None:
            find_server()
        if options.has_ray and running.ray is None:
            ray_version()
        cluster = Recorder(folder, state)
        if running.broker is None:
            with step("Starting nats-server"):
                cluster.start_broker(options)
            started.append("nats")
        if options.has_ray and running.ray is None:
            with step("Starting Ray"):
                cluster.start_ray(options)
            started.append("ray")
        return Change(cluster.state, tuple(started))


def bring_down(folder: Path, *, is_purge: bool = False, step: Step = nullcontext) -> Change:
    """Stops what `bring_up` started and nothing else; `is_purge` deletes the broker's data."""
    with _locked(folder):
        state = state_of(folder)
        running = state.running
        stopped = [name for name, part in _parts(running) if part is not None]
        cluster = Recorder(folder, state)
        if state.ray is not None:
            with step("Stopping Ray") if running.ray else nullcontext():
                cluster.stop_ray()
        if state.broker is not None:
            with step("Stopping nats-server") if running.broker else nullcontext():
                cluster.stop_broker()
        if is_purge:
            _purge(folder)
        return Change(cluster.state, tuple(stopped))


def state_of(folder: Path) -> LocalCluster:
    try:
        return read_state(folder)
    except UnreadableState as error:
        raise ClusterError(
            "cluster.state-unreadable",
            f"{state_file(folder)} {error}",
            hint="use the version of torvyn that wrote it; or end nats-server and Ray by hand, "
            "then delete the file",
        ) from error


class Recorder:
    """Starts and stops parts, and writes each change to the state file."""

    def __init__(self, folder: Path, state: LocalCluster) -> None:
        self.folder = folder
        self.state = state

    def start_broker(self, options: UpOptions) -> None:
        before = self.state.broker
        self.stop_broker()
        try:
            wanted = options.like_broker(before)
            start_broker(self.folder, wanted, lambda broker: self._write(broker=broker))
        except BaseException:
            self._write(broker=None)
            raise

    def start_ray(self, options: UpOptions) -> None:
        before = self.state.ray
        self.stop_ray()
        try:
            wanted = options.like_ray(before)
            start_ray(self.folder, wanted, lambda ray: self._write(ray=ray))
        except BaseException:
            self._write(ray=None)
            raise

    def stop_broker(self) -> None:
        broker = self.state.broker
        if broker is not None and not broker.process.end(STOP_S):
            raise _does_not_end("nats-server", broker.process.pid)
        self._write(broker=None)

    def stop_ray(self) -> None:
        """Also ends the processes that a Ray that has crashed left behind."""
        ray = self.state.ray
        if ray is not None and not stop_ray(ray):
            raise _does_not_end("Ray", ray.process.pid)
        self._write(ray=None)

    def _write(self, **parts: Broker | RayHead | None) -> None:
        self.state = replace(self.state, **parts)  # type: ignore[arg-type]
        write_state(self.folder, self.state)


def _parts(cluster: LocalCluster) -> tuple[tuple[str, Broker | RayHead | None], ...]:
    return ("nats", cluster.broker), ("ray", cluster.ray)


def _check_options(running: LocalCluster, options: UpOptions) -> None:
    """What runs cannot be given other options."""
    broker, ray = running.broker, running.ray
    asked: list[tuple[str, object, object]] = []
    if broker is not None:
        asked += [("--nats-port", options.nats_port, broker.port)]
        asked += [("--sync", options.sync, broker.sync)]
    if ray is not None:
        asked += [("--ray-port", options.ray_port, ray.port), ("--cpus", options.cpus, ray.cpus)]
        asked += [("--object-store", options.object_store_bytes, ray.object_store_bytes)]
    for option, wanted, found in asked:
        if wanted not in (None, found):
            raise ClusterError(
                "cluster.runs-already",
                f"the cluster runs already, with `{option} {found}`",
                hint="stop it first: torvyn cluster down",
            )


def _does_not_end(name: str, pid: int) -> ClusterError:
    message = f"{name} (process {pid}) does not end, although it was killed"
    return ClusterError("cluster.stop-failed", message, hint="look at it with `ps`, then try again")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One command at a time; a second one waits."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(folder / "lock", create=0o600)
    except OSError as error:
        reason = os_reason(error)
        raise ClusterError(
            "cluster.folder-unusable",
            f"cannot use the folder {folder}: {reason}",
            hint="XDG_STATE_HOME names another one",
        ) from error
    with lock.acquire(wait_s=None):
        yield


def _purge(folder: Path) -> None:
    for name in _DATA:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
