"""A Ray cluster of one node, as processes of their own.

`ray start --block` stays as the parent of Ray's processes and ends when one of them ends. Ray is
told to use the loopback interface and to require a token; its dashboard is off.
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
from collections.abc import Callable
from pathlib import Path
from typing import Final

from torvyn._io.local_cluster import RayHead, ray_environment
from torvyn.cluster.local.background import BackgroundProcess
from torvyn.cluster.local.options import OBJECT_STORE_BYTES, UpOptions
from torvyn.cluster.local.ports import HOST, any_free_port, choose_port
from torvyn.errors import MissingError, install_hint

DEFAULT_PORT: Final = 6379
READY_S: Final = 120.0
STOP_S: Final = 15.0
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
    has_ended = ray.process.end(STOP_S)
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
