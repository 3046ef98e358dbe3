"""Cases of the package `cluster`."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from unittest import mock

import torvyn
from torvyn._cluster.broker import BackgroundProcess, UpOptions, _only_run, choose_port, find_server
from torvyn._cluster.failures import group_crashes, group_died, no_room, ray_in_use, ray_unavailable
from torvyn._cluster.kubernetes.manifests import make_manifests
from torvyn._cluster.kubernetes.options import KubernetesOptions
from torvyn._cluster.local_cluster import bring_down, bring_up
from torvyn._cluster.placement import place as _place
from torvyn._cluster.project_copy import copy_project
from torvyn._io.local_cluster import Broker, LocalCluster, write_state
from torvyn._io.process_record import ProcessRecord
from torvyn._link.overrides import Overrides
from torvyn._manifest.records import Manifest
from torvyn.errors import TorvynError


def place_a_disk_edge(folder: Path) -> None:
    flow = torvyn.Flow().add("a", torvyn.source(["1"])).add("b", torvyn.sink(print))
    _place(flow.connect("a", "b", carrier="disk").plan)


def _need_camera(folder: Path) -> None:
    place = {"resources": {"camera": 1.0}}
    flow = torvyn.Flow().add("a", torvyn.source(["1"]), place=place).add("b", torvyn.sink(print))
    make_manifests(_place(flow.connect("a", "b").plan), KubernetesOptions("shop", "image"))


def _running(folder: Path) -> None:
    """The state of a broker whose process is this one."""
    process = ProcessRecord.of(os.getpid())
    broker = Broker(process, 0.0, "2.15.1", 4222, "token", "interval", "store", "log")
    write_state(folder, LocalCluster(broker))


def _other_options(folder: Path) -> None:
    _running(folder)
    bring_up(folder, UpOptions(sync="always"))


def _stop(folder: Path) -> None:
    _running(folder)
    with mock.patch.object(ProcessRecord, "end", return_value=False):
        bring_down(folder)


def _take_port(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        choose_port(other.getsockname()[1], 4222, "--nats-port")


def _unusable(folder: Path) -> None:
    (folder / "file").write_text("")
    bring_up(folder / "file" / "cluster", UpOptions())


def _unreadable(folder: Path) -> None:
    (folder / "state.json").write_text("{}")
    bring_down(folder)


def _without_server(folder: Path) -> None:
    with (
        mock.patch.object(sys, "executable", str(folder / "python")),
        mock.patch.dict(os.environ, PATH=str(folder)),
    ):
        find_server()


def raises(error: TorvynError) -> None:
    raise error


def _run_twice(folder: Path) -> None:
    plan = torvyn.Flow(["1"], checkpoint_s=1.0).plan
    with _only_run(plan, folder), _only_run(plan, folder):
        pass


def _send_too_much(folder: Path) -> None:
    (folder / "Torvyn.toml").write_text("x")
    with mock.patch("torvyn._cluster.project_copy.LARGEST_BYTES", 0):
        copy_project(Manifest(), Overrides(), has_archive=True)


CASES = {
    "cluster.flow-runs": _run_twice,
    "cluster.group-crashes": lambda _: raises(group_crashes("replica 0", 6, "it was killed")),
    "cluster.group-died": lambda _: raises(group_died("replica 0", "it was killed")),
    "cluster.no-room": lambda _: raises(no_room("group `a` needs 1 GPU")),
    "cluster.project-too-large": _send_too_much,
    "cluster.ray-in-use": lambda _: raises(ray_in_use()),
    "cluster.ray-unavailable": lambda _: raises(ray_unavailable("local", "2.60", OSError("x"))),
    "cluster.local-edge": place_a_disk_edge,
    "cluster.bad-resource": _need_camera,
    "cluster.folder-unusable": _unusable,
    "cluster.package-missing": _without_server,
    "cluster.port-taken": _take_port,
    "cluster.runs-already": _other_options,
    "cluster.start-failed": lambda folder: BackgroundProcess(
        "nats-server", ["false"], folder / "log"
    ).wait_until(lambda: False, 20),
    "cluster.state-unreadable": _unreadable,
    "cluster.stop-failed": _stop,
}
