"""A Ray cluster with one machine, for all tests of this folder, and projects to run on it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import missing
import pytest
from cluster_project import ClusterProject

from torvyn._cluster.broker import RunBroker

needs_ray = missing.needs_package("ray")


@pytest.fixture(scope="package")
def ray_client_port() -> int:
    """Where the cluster takes commands of machines outside of it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture(scope="package")
def ray_address(ray_client_port: int) -> Iterator[str]:
    """The address of a cluster of one machine."""
    if not missing.is_installed("ray"):
        missing.skip("ray")
    from ray.cluster_utils import Cluster

    head = {
        "num_cpus": 8,
        "object_store_memory": 80_000_000,
        "include_dashboard": False,
        "ray_client_server_port": ray_client_port,
    }
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster.address
    cluster.shutdown()


@pytest.fixture
def ray_client(ray_address: str, ray_client_port: int) -> str:
    """The address of that cluster, for commands on other machines."""
    return f"ray://127.0.0.1:{ray_client_port}"


@pytest.fixture
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a broker of the test's own."""
    pytest.importorskip("ray", reason=missing.why("ray"))
    broker = RunBroker(tmp_path_factory.mktemp("broker"))
    yield broker.url
    broker.stop()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterProject:
    monkeypatch.chdir(tmp_path)
    return ClusterProject(tmp_path)
