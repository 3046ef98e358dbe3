"""`torvyn cluster up` with a real Ray: one cluster for all tests, because it takes seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_parts import listening, needs_ray

from torvyn._cluster.broker import LEAST_OBJECT_STORE_BYTES, UpOptions
from torvyn._cluster.local_cluster import bring_down, bring_up, read_status
from torvyn._cluster.ray_report import read_ray
from torvyn._io.local_cluster import RayHead

pytestmark = [needs_ray, pytest.mark.timeout(180)]
OPTIONS = UpOptions(cpus=2, object_store_bytes=LEAST_OBJECT_STORE_BYTES)

DRIVER = """\
import os, ray
ray.init(address={address!r}, log_to_driver=False, logging_level="ERROR")

@ray.remote(num_cpus=1)
class Group:
    def pid(self):
        return os.getpid()

group = Group.remote()
print(ray.get(group.pid.remote()), flush=True)
input()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cluster")
    yield folder
    bring_down(folder)


@pytest.fixture
def ray(folder: Path) -> RayHead:
    ray = bring_up(folder, OPTIONS).cluster.ray
    assert ray is not None
    return ray


def drive(ray: RayHead, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(address=ray.address)],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ray_tells_its_nodes_and_what_is_free(ray: RayHead) -> None:
    report = read_ray(ray)

    assert [(node.address, node.is_alive) for node in report.nodes] == [("127.0.0.1", True)]
    amounts = {resource.name: (resource.total, resource.free) for resource in report.resources}
    assert amounts["CPU"] == (2, 2)
    assert amounts["object_store_memory"][0] == LEAST_OBJECT_STORE_BYTES


def test_ray_listens_on_the_loopback_interface_only(ray: RayHead) -> None:
    hosts = {host for host, _ in listening(ray.process.members())}

    assert hosts == {"127.0.0.1"}


def test_nobody_gets_in_without_the_token(ray: RayHead, tmp_path: Path) -> None:
    loopback = {**ray.environment, "RAY_AUTH_MODE": "disabled", "HOME": str(tmp_path)}
    loopback.pop("RAY_AUTH_TOKEN_PATH")
    with drive(ray, loopback) as process:
        assert process.stderr is not None
        # Ray tries for half a minute; the first answer says it all.
        assert "InvalidAuthToken" in process.stderr.readline()
        process.kill()


def test_a_ray_that_lost_a_process_is_shown_and_started_again(ray: RayHead, folder: Path) -> None:
    with drive(ray, ray.environment) as driver:
        assert driver.stdout is not None
        worker = int(driver.stdout.readline())
        assert worker in ray.process.members()
        os.kill(ray.process.pid, signal.SIGKILL)
        while ray.process.is_running:
            time.sleep(0.01)
        assert [part.state for part in read_status(folder).parts] == ["running", "crashed"]
        assert ray.process.members() != []

        assert bring_up(folder, OPTIONS).parts == ("ray",)

        # What was left of the one before would keep its ports and its memory.
        assert ray.process.members() == []
        assert not Path(ray.folder).exists()
        driver.kill()


def test_down_ends_every_process_and_removes_the_folder(folder: Path, ray: RayHead) -> None:
    bring_down(folder)

    assert ray.process.members() == []
    assert not Path(ray.folder).exists()
