"""Real registries for tests, on free ports of the loopback interface.

Debian's docker-registry does not list referrers, olareg does.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import missing

import oci_tools
from open_port import is_open

DOCKER_REGISTRY = shutil.which("docker-registry")
OLAREG = oci_tools.program("olareg")
PROGRAMS = {"docker-registry": DOCKER_REGISTRY, "olareg": OLAREG}
USER, PASSWORD = "plant", "open sesame"
HTPASSWD = "plant:$2b$05$aW99RkruvrPMQJ09irMHrOsUXfNtVJPDE/LjKueFwhkh76BrtCaSy"


def require(name: str) -> None:
    if PROGRAMS[name] is None:
        missing.skip(name)


class RegistryServer:
    """A process that serves artifacts until it is stopped."""

    def __init__(self, command: list[str], ready: str, port: int | None = None) -> None:
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._is_ready = threading.Event()
        self._port = port
        self._log: list[str] = []
        self._reader = threading.Thread(target=self._read_log, args=(ready,), daemon=True)
        self._reader.start()
        assert self._is_ready.wait(20), self._log
        self.host = f"127.0.0.1:{self._port}"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(20)
        self._reader.join(20)

    def _read_log(self, ready: str) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._log.append(line)
            if found := re.search(ready, line):
                self._port = self._port or int(found[1])
                self._is_ready.set()


def start_docker_registry(
    folder: Path, *, with_login: bool = False, certificate: Path | None = None
) -> RegistryServer:
    folder.mkdir()
    config: dict[str, object] = {
        "version": "0.1",
        "log": {"level": "info"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": "127.0.0.1:0"} | _docker_tls(certificate),
    }
    if with_login:
        (folder / "htpasswd").write_text(HTPASSWD)
        config["auth"] = {"htpasswd": {"realm": "plant", "path": str(folder / "htpasswd")}}
    (folder / "config.yml").write_text(json.dumps(config))  # JSON is YAML
    command = [str(DOCKER_REGISTRY), "serve", str(folder / "config.yml")]
    return RegistryServer(command, r"listening on 127\.0\.0\.1:(\d+)")


def _docker_tls(certificate: Path | None) -> dict[str, object]:
    if certificate is None:
        return {}
    return {"tls": {"certificate": str(certificate), "key": str(certificate)}}


def start_olareg(_folder: Path, *, certificate: Path | None = None) -> RegistryServer:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address = ["--addr", "127.0.0.1", "--port", str(port), "--store-type", "mem"]
    if certificate is not None:
        address += ["--tls-cert", str(certificate), "--tls-key", str(certificate)]
    server = RegistryServer([str(OLAREG), "serve", "-v", "info", *address], "launching", port)
    # It says so before it listens.
    while not is_open(port):
        time.sleep(0.005)
    return server


STARTS = {"docker-registry": start_docker_registry, "olareg": start_olareg}


@contextlib.contextmanager
def running(name: str, folder: Path, **options: Any) -> Iterator[RegistryServer]:
    server = STARTS[name](folder / name, **options)
    try:
        yield server
    finally:
        server.stop()
