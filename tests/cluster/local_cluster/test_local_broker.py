"""`torvyn cluster up --no-ray`: a real broker is started, found, repaired and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from cluster_parts import listening

from torvyn._cluster.broker import UpOptions
from torvyn._cluster.local_cluster import bring_down, bring_up, read_status
from torvyn._io.local_cluster import Broker, address, read_state
from torvyn.errors import ClusterError

ALONE = UpOptions(has_ray=False)

Call = Callable[[Any], Coroutine[Any, Any, Any]]


def ask(url: str, call: Call) -> Any:
    """Runs a coroutine function with a JetStream context."""

    async def run() -> Any:
        import nats

        async def ignore(error: Exception) -> None:
            pass

        client = await nats.connect(url, allow_reconnect=False, error_cb=ignore)
        try:
            return await call(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


def store(url: str, *texts: str) -> None:
    async def call(js: Any) -> None:
        await js.add_stream(name="S", subjects=["s"])
        for text in texts:
            await js.publish("s", text.encode())

    ask(url, call)


def broker_of(folder: Path) -> Broker:
    broker = read_state(folder).broker
    assert broker is not None
    return broker


def kill(broker: Broker) -> None:
    os.kill(broker.process.pid, signal.SIGKILL)
    while broker.process.is_running:
        time.sleep(0.001)


def test_a_broker_runs_until_it_is_stopped(folder: Path) -> None:
    assert bring_up(folder, ALONE).parts == ("nats",)
    url = address()
    assert url is not None
    store(url, "a", "b")

    assert bring_down(folder).parts == ("nats",)

    assert address() is None
    assert bring_down(folder).parts == ()


def test_a_second_up_changes_nothing(folder: Path) -> None:
    first = bring_up(folder, ALONE).cluster

    again = bring_up(folder, ALONE)

    assert again.parts == ()
    assert again.cluster == first


def test_the_broker_keeps_its_data_and_its_token(folder: Path) -> None:
    bring_up(folder, ALONE)
    before = broker_of(folder)
    store(before.url, "a", "b")
    bring_down(folder)

    bring_up(folder, UpOptions(has_ray=False, nats_port=before.port))

    assert address() == before.url
    assert [stream.messages for stream in read_status(folder).streams or ()] == [2]


def test_purge_deletes_the_data(folder: Path) -> None:
    bring_up(folder, ALONE)
    store(broker_of(folder).url, "a")

    bring_down(folder, is_purge=True)

    assert [path.name for path in folder.iterdir()] == ["lock"]


@pytest.mark.parametrize("credentials", ["", "wrong@"])
def test_nobody_gets_in_without_the_token(folder: Path, credentials: str) -> None:
    import nats

    bring_up(folder, ALONE)
    url = f"nats://{credentials}127.0.0.1:{broker_of(folder).port}"

    with pytest.raises(nats.errors.Error, match="Authorization"):
        store(url, "a")


def test_the_token_is_where_other_users_cannot_read_it(folder: Path) -> None:
    bring_up(folder, ALONE)
    broker = broker_of(folder)

    assert folder.stat().st_mode & 0o077 == 0
    files = [path for path in folder.iterdir() if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    arguments = Path(f"/proc/{broker.process.pid}/cmdline").read_bytes()
    assert broker.token.encode() not in arguments


def test_the_broker_listens_on_the_loopback_interface_only(folder: Path) -> None:
    bring_up(folder, ALONE)
    broker = broker_of(folder)

    assert listening([broker.process.pid]) == {("127.0.0.1", broker.port)}


def test_a_broker_that_was_killed_is_started_again_as_it_was(folder: Path) -> None:
    bring_up(folder, UpOptions(has_ray=False, sync="always"))
    before = broker_of(folder)
    store(before.url, "a", "b", "c")
    kill(before)
    assert [part.state for part in read_status(folder).parts] == ["crashed"]

    assert bring_up(folder, ALONE).parts == ("nats",)

    status = read_status(folder)
    assert (status.sync, broker_of(folder).url) == ("always", before.url)
    assert [stream.messages for stream in status.streams or ()] == [3]


def test_a_broker_that_hangs_is_called_silent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torvyn._cluster.broker_report.TIMEOUT_S", 0.2)
    bring_up(folder, ALONE)
    pid = broker_of(folder).process.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        status = read_status(folder)
    finally:
        os.kill(pid, signal.SIGCONT)

    assert [part.state for part in status.parts] == ["silent"]
    assert not status.is_running


def test_a_port_that_is_taken_is_refused_if_it_was_asked_for(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ClusterError, match=str(port)) as caught:
            bring_up(folder, UpOptions(has_ray=False, nats_port=port))

    assert caught.value.code == "cluster.port-taken"
    assert read_state(folder).broker is None


def test_a_broker_that_cannot_start_leaves_its_reason_and_nothing_else(folder: Path) -> None:
    (folder / "nats").mkdir(parents=True)
    (folder / "nats" / "jetstream").write_text("not a folder")

    with pytest.raises(ClusterError, match="not a directory") as caught:
        bring_up(folder, ALONE)

    assert caught.value.code == "cluster.start-failed"
    assert read_state(folder).broker is None


def test_other_options_for_a_broker_that_runs_are_refused(folder: Path) -> None:
    bring_up(folder, ALONE)

    with pytest.raises(ClusterError, match="--sync interval") as caught:
        bring_up(folder, UpOptions(has_ray=False, sync="always"))

    assert caught.value.code == "cluster.runs-already"
