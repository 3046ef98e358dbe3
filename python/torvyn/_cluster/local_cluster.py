"""A cluster on one machine, for development: starts what does not run, and stops what was started.

The state file is written as soon as a process exists, so that a command that is killed half-way
leaves nothing behind that `down` does not know. Everything listens on the loopback interface and
requires a token: other users of the machine, and web pages in a browser, can connect to its ports
too.

The Ray cluster has one node. `ray start --block` stays as the parent of Ray's processes and ends
when one of them ends; its dashboard is off.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from torvyn._cluster.broker import (
    HOST,
    OBJECT_STORE_BYTES,
    STOP_S,
    BackgroundProcess,
    UpOptions,
    any_free_port,
    choose_port,
    find_server,
    start_broker,
)
from torvyn._cluster.broker_report import NoAnswer, StreamReport, read_streams
from torvyn._cluster.ray_report import RayReport, read_ray
from torvyn._io.files import FileLock
from torvyn._io.local_cluster import (
    Broker,
    LocalCluster,
    RayHead,
    UnreadableState,
    ray_environment,
    read_state,
    state_file,
    write_state,
)
from torvyn.errors import ClusterError, MissingError, install_hint, os_reason

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


DEFAULT_PORT: Final = 6379
READY_S: Final = 120.0
_RAY_STOP_S: Final = 15.0
_TEMPORARY: Final = Path("/tmp")


def start_ray(folder: Path, options: UpOptions, note: Callable[[RayHead], None]) -> RayHead:
    """Starts it and waits until it answers. `note` is told as soon as the process exists."""
    version = ray_version()
    port = choose_port(options.ray_port, DEFAULT_PORT, "--ray-port")
    log = folder / "logs" / "ray.log"
    session = _session_folder()
    token_file = session / "token"
    token_file.write_text(secrets.token_hex(32))
    environment = {**os.environ, **ray_environment(str(token_file))}
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN"):
        environment.pop(name, None)
    command = _command(port, session, options)
    process = BackgroundProcess("Ray", command, log, environment)
    record = process.record
    ray = RayHead(
        record,
        time.time(),
        version,
        port,
        options.cpus,
        options.object_store_bytes or OBJECT_STORE_BYTES,
        str(token_file),
        str(session),
        str(log),
    )
    try:
        note(ray)
        # Ray writes its address there when all its processes run.
        process.wait_until((session / "ray_current_cluster").exists, READY_S)
    except BaseException:
        stop_ray(ray)
        raise
    return ray


def stop_ray(ray: RayHead) -> bool:
    """Whether all of its processes have ended."""
    has_ended = ray.process.end(_RAY_STOP_S)
    if has_ended:
        shutil.rmtree(ray.folder, ignore_errors=True)
    return has_ended


def ray_version() -> str:
    try:
        return importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        raise MissingError(
            "cluster.package-missing",
            "`torvyn cluster up` needs the package `ray`",
            hint=f"install it: {install_hint('cluster')}; or start the broker alone: --no-ray",
        ) from None


def _command(port: int, session: Path, options: UpOptions) -> list[str]:
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    command += [f"--node-ip-address={HOST}", f"--port={port}", f"--temp-dir={session}"]
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    command += [f"--object-store-memory={options.object_store_bytes or OBJECT_STORE_BYTES}"]
    if options.cpus is not None:
        command.append(f"--num-cpus={options.cpus}")
    if importlib.util.find_spec("grpc") is not None:
        # Ray then also listens for `ray://`, by default on a port that another user's Ray may have.
        command.append(f"--ray-client-server-port={any_free_port()}")
    return command


def _session_folder() -> Path:
    """A folder of the user's own, with a short path: that of a Unix socket has 107 bytes at most,
    and Ray adds 66."""
    parent = _TEMPORARY if os.access(_TEMPORARY, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="torvyn-ray-", dir=parent))


State: TypeAlias = Literal["running", "silent", "crashed"]
"""Of a part: it answers; its process runs and does not answer; its process has ended."""


@dataclass(frozen=True, slots=True)
class PartStatus:
    name: str
    state: State
    address: str
    pid: int
    version: str
    log: str
    uptime_s: float | None = None
    memory_bytes: int | None = None
    reason: str | None = None
    """Why it does not answer."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    folder: Path
    parts: tuple[PartStatus, ...]
    streams: tuple[StreamReport, ...] | None = None
    """None: the broker does not answer."""
    sync: str | None = None
    ray: RayReport | None = None

    @property
    def is_running(self) -> bool:
        """Whether all that was started answers."""
        return bool(self.parts) and all(part.state == "running" for part in self.parts)

    def part(self, name: str) -> PartStatus | None:
        return next((part for part in self.parts if part.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        nats, ray = self.part("nats"), self.part("ray")
        fields: dict[str, Any] = {"running": self.is_running, "folder": str(self.folder)}
        fields["nats"] = nats and {**asdict(nats), "sync": self.sync, **self._stored()}
        fields["ray"] = ray and {**asdict(ray), **(asdict(self.ray) if self.ray else {})}
        return fields

    def _stored(self) -> dict[str, Any]:
        if self.streams is None:
            return {}
        return {
            "consumers": sum(stream.consumers for stream in self.streams),
            "messages": waiting_messages(self.streams),
            "streams": [asdict(stream) for stream in self.streams],
        }


def waiting_messages(streams: Sequence[StreamReport]) -> int:
    """Without the values of buckets, which wait for nobody."""
    return sum(stream.messages for stream in streams if not stream.is_bucket)


def read_status(folder: Path) -> ClusterStatus:
    """Asks each part that was started; takes seconds if there is a Ray."""
    state = state_of(folder)
    parts, streams, report = [], None, None
    broker, ray = state.broker, state.ray
    if broker is not None:
        status, streams = _broker_status(broker)
        parts.append(status)
    if ray is not None:
        status, report = _ray_status(ray)
        parts.append(status)
    sync = None if broker is None else broker.sync
    return ClusterStatus(folder, tuple(parts), streams, sync, report)


def _broker_status(broker: Broker) -> tuple[PartStatus, tuple[StreamReport, ...] | None]:
    if not broker.process.is_running:
        return _part("nats", broker, "crashed"), None
    try:
        return _part("nats", broker, "running"), tuple(read_streams(broker.url))
    except NoAnswer as error:
        return _part("nats", broker, "silent", str(error)), None


def _ray_status(ray: RayHead) -> tuple[PartStatus, RayReport | None]:
    if not ray.process.is_running:
        return _part("ray", ray, "crashed"), None
    try:
        return _part("ray", ray, "running"), read_ray(ray)
    except NoAnswer as error:
        return _part("ray", ray, "silent", str(error)), None


def _part(name: str, part: Broker | RayHead, state: State, reason: str | None = None) -> PartStatus:
    is_running = state != "crashed"
    return PartStatus(
        name,
        state,
        part.address,
        part.process.pid,
        part.version,
        part.log,
        time.time() - part.since_s if is_running else None,
        part.process.resident_bytes() if is_running else None,
        reason,
    )
