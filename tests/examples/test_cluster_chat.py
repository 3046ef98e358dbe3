"""`examples/cluster-chat`: two servers, one broker; a client reads on when a server is killed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nats_server import NatsServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster-chat"
FLOW = tomllib.loads((EXAMPLE / "Torvyn.toml").read_text())["flow"]["chat"]
TEXT = FLOW["nodes"]["model"]["config"]["text"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[NatsServer]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    server = NatsServer(port, tmp_path / "broker")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "project", symlinks=True))


@pytest.fixture
def servers(folder: Path, broker: NatsServer) -> Iterator[list[tuple[Any, str]]]:
    command = [sys.executable, "-m", "torvyn", "serve", "--port", "0", "--format", "json"]
    environ = {**os.environ, "NATS_URL": broker.url}
    started = [
        subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE) for _ in range(2)
    ]
    try:
        yield [(one, json.loads(one.stdout.readline())["url"]) for one in started if one.stdout]
    finally:
        for one in started:
            one.kill()
            one.communicate()


def test_the_client_reads_every_word_once_when_a_server_is_killed(
    folder: Path, servers: list[tuple[Any, str]]
) -> None:
    command = [sys.executable, str(folder / "client.py"), *(url for _, url in servers)]
    # Unbuffered: `communicate` does not see what a buffer holds.
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
    client = subprocess.Popen(command, **pipes)
    assert client.stdout is not None
    begun = client.stdout.read(12)
    servers[0][0].kill()
    rest, said = client.communicate(timeout=30)
    assert (begun + rest).decode() == TEXT + "\n"
    assert b"[lost, resuming]" in said
