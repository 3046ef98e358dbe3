"""Which broker a flow with `nats` edges uses: that of the settings, else that of `cluster up`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torvyn._io import local_cluster
from torvyn._io.process_record import ProcessRecord
from torvyn._link.overrides import Overrides
from torvyn._link.plan import Plan
from torvyn._link.project_linker import ProjectLinker
from torvyn.errors import LinkError

MANIFEST = """
[torvyn]
name = "project"
version = "0.1.0"
contract_version = "0.1.0"

[flow.main.nodes.a]
component = "lines"
config = { path = "x" }

[flow.main.nodes.b]
component = "null"

[[flow.main.edges]]
from = "a"
to = "b"
carrier = "nats"
"""
REPLICAS = MANIFEST.replace(
    'component = "null"',
    'component = "json-map"\nkey = "key"\nplace = { replicas = 2 }',
).replace(
    "[[flow.main.edges]]",
    """[flow.main.nodes.c]
component = "null"

[[flow.main.edges]]
from = "b"
to = "c"
carrier = "nats"

[[flow.main.edges]]""",
)


@pytest.fixture
def local_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The state of a broker whose process is this one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = local_cluster.state_folder()
    folder.mkdir(parents=True)
    process = ProcessRecord.of(os.getpid())
    broker = local_cluster.Broker(process, 0.0, "2.15.1", 4333, "hidden", "always", "store", "log")
    local_cluster.write_state(folder, local_cluster.LocalCluster(broker))
    return broker.url


def linked(folder: Path, **settings: str) -> Plan:
    (folder / "Torvyn.toml").write_text(MANIFEST)
    overrides = Overrides(settings={f"cluster.{name}": value for name, value in settings.items()})
    return ProjectLinker.open(folder / "Torvyn.toml", overrides).plan()


def replica(folder: Path, number: int, *segments: str) -> Plan:
    """The plan of one of the two replicas of `b`."""
    (folder / "Torvyn.toml").write_text(REPLICAS)
    settings = {"cluster.nats": "nats://10.0.0.2", "cluster.namespace": "shop"}
    overrides = Overrides(settings=settings, segments=segments, replica=number)
    return ProjectLinker.open(folder / "Torvyn.toml", overrides).plan()


def broker_of(plan: Plan) -> str:
    assert plan.cluster is not None
    return plan.cluster.nats


def test_a_flow_uses_the_broker_of_cluster_up(tmp_path: Path, local_broker: str) -> None:
    assert broker_of(linked(tmp_path)) == local_broker


def test_a_setting_comes_first(tmp_path: Path, local_broker: str) -> None:
    assert broker_of(linked(tmp_path, nats="nats://10.0.0.2")) == "nats://10.0.0.2"


def test_the_token_is_not_shown(tmp_path: Path, local_broker: str) -> None:
    plan = linked(tmp_path)

    assert "hidden" not in plan.render() + repr(plan) + str(plan.to_dict())


def test_without_a_broker_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    assert broker_of(linked(tmp_path)) == ""


def test_a_process_is_one_of_the_replicas_that_its_segment_has(tmp_path: Path) -> None:
    plan = replica(tmp_path, 1, "b")
    assert plan.cluster is not None
    assert plan.cluster.replica == 1
    with pytest.raises(LinkError, match="segment `b` has no replica 2") as caught:
        replica(tmp_path, 2, "b")
    assert "0 to 1" in str(caught.value.diagnostics[0].hint)
    with pytest.raises(LinkError, match="segment `c` has no replica 1"):
        replica(tmp_path, 1, "b", "c")


def test_a_replica_is_one_of_a_segment(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="without `--segment`"):
        replica(tmp_path, 1)


def namespace_of(plan: Plan) -> str:
    assert plan.cluster is not None
    return plan.cluster.namespace


def test_each_checkout_has_a_namespace_of_its_own(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    one, two = (namespace_of(linked(folder)) for folder in folders)

    assert one != two
    assert one == namespace_of(linked(folders[0]))
    assert one.startswith("project-")
    # Generations of a deployment are in folders of their own, and have one state folder.
    state = {"runtime.state_dir": str(tmp_path / "state")}
    named = [
        namespace_of(ProjectLinker.open(each / "Torvyn.toml", Overrides(settings=state)).plan())
        for each in folders
    ]
    assert named[0] == named[1]


@pytest.mark.parametrize("namespace", ["shop", ""])
def test_a_namespace_that_is_set_is_that_of_all_checkouts(tmp_path: Path, namespace: str) -> None:
    plan = linked(tmp_path, nats="nats://10.0.0.2", namespace=namespace)

    assert namespace_of(plan) == namespace
    assert f"namespace  {namespace or 'none'}" in plan.render()


@pytest.mark.parametrize(
    ("nats", "is_refused"),
    [
        ("nats://10.0.0.2", True),
        ("nats://127.0.0.1:4222,nats://broker.example", True),
        ("nats://localhost:4222", False),
        ("127.0.0.1:4222,[::1]:4222", False),
    ],
)
def test_segments_on_several_machines_need_a_namespace(
    tmp_path: Path, nats: str, is_refused: bool
) -> None:
    (tmp_path / "Torvyn.toml").write_text(REPLICAS)
    overrides = Overrides(settings={"cluster.nats": nats}, segments=("b",))
    linker = ProjectLinker.open(tmp_path / "Torvyn.toml", overrides)
    if not is_refused:
        linker.plan()
        return
    with pytest.raises(LinkError, match="would not find each other") as caught:
        linker.plan()
    assert caught.value.code == "link.no-namespace"
