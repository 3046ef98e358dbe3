"""The state file of `torvyn cluster up`, as other packages read it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from torvyn._io import local_cluster
from torvyn._io.local_cluster import (
    Broker,
    LocalCluster,
    RayHead,
    UnreadableState,
    read_state,
    write_state,
)
from torvyn._io.process_record import ProcessRecord


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = local_cluster.state_folder()
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def cluster() -> LocalCluster:
    """Of parts whose process runs: this one."""
    process = ProcessRecord.of(os.getpid())
    return LocalCluster(
        Broker(process, 1.0, "2.15.1", 4222, "secret", "always", "/store", "/log"),
        RayHead(process, 1.0, "2.60.0", 6379, 2, 10**8, "/token", "/folder", "/log"),
    )


def test_a_state_is_read_as_it_was_written(folder: Path, cluster: LocalCluster) -> None:
    write_state(folder, cluster)

    assert read_state(folder) == cluster
    assert local_cluster.address() == "nats://secret@127.0.0.1:4222"


def test_only_the_owner_can_read_the_token(folder: Path, cluster: LocalCluster) -> None:
    write_state(folder, cluster)

    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]


def test_without_a_cluster_there_is_no_address(folder: Path) -> None:
    assert local_cluster.address() is None
    assert read_state(folder) == LocalCluster()


def test_the_address_of_a_broker_that_has_ended_is_not_given(
    folder: Path, cluster: LocalCluster
) -> None:
    assert cluster.broker is not None
    ended = replace(cluster.broker, process=ProcessRecord(os.getpid(), "earlier"))
    write_state(folder, replace(cluster, broker=ended))

    assert local_cluster.address() is None
    assert local_cluster.running_cluster() == replace(cluster, broker=None)


def test_a_state_without_parts_leaves_no_file(folder: Path, cluster: LocalCluster) -> None:
    write_state(folder, cluster)
    write_state(folder, LocalCluster())

    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', '{"version": 1, "ray": 3}', "\udcff"])
def test_a_file_that_is_no_state_is_told_from_none(folder: Path, text: str) -> None:
    local_cluster.state_file(folder).write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(UnreadableState):
        read_state(folder)
    assert local_cluster.address() is None
