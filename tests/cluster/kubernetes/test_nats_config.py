"""The configuration in the manifests, read by a real nats-server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from torvyn._cluster.broker import find_server
from torvyn._cluster.kubernetes.broker import server_config
from torvyn._cluster.kubernetes.environment import Names


def check(folder: Path, servers: int, token: str) -> subprocess.CompletedProcess[str]:
    server = find_server()
    config = folder / "nats.conf"
    config.write_text(server_config(Names("shop-main"), servers))
    environment = {**os.environ, "POD_NAME": "shop-main-nats-0", "NATS_TOKEN": token}
    command = [server, "-t", "-c", str(config)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("token", ["t" + "0" * 48, "t1e5", "tfff"])
def test_the_server_accepts_it(tmp_path: Path, servers: int, token: str) -> None:
    done = check(tmp_path, servers, token)

    assert done.returncode == 0, done.stderr


def test_a_token_that_looks_like_a_number_would_not_do(tmp_path: Path) -> None:
    assert check(tmp_path, 1, "1234").returncode != 0
