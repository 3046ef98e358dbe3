"""A broker that is away when a flow starts."""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from nats_parts import Collected, chain, part, run_parts, texts, wait_until

import torvyn
from nats_server import NatsServer
from torvyn.errors import FlowError


@pytest.fixture
def stopped(server: NatsServer) -> NatsServer:
    server.stop()
    return server


def with_cluster(flow: torvyn.Flow, **changes: object) -> torvyn.Flow:
    plan = flow.plan
    assert plan.cluster is not None
    cluster = replace(plan.cluster, **changes)  # type: ignore[arg-type]
    return torvyn.Flow.from_plan(replace(plan, cluster=cluster))


def run_apart(flow: torvyn.Flow) -> list[BaseException | None]:
    """Runs a flow on a thread of its own; how it has ended is in the list then."""
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            flow.run()
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    threading.Thread(target=run, daemon=True).start()
    return ended


def test_a_segment_waits_for_its_broker(
    stopped: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Collected()
    flow = chain(("a", texts(50)), ("b", sink))
    with caplog.at_level(logging.WARNING):
        ended = [run_apart(part(flow, "a")), run_apart(part(flow, "b"))]
        wait_until(lambda: caplog.text.count("connection refused") == 2)
        time.sleep(0.5)
        assert ended == [[], []]
        # Once per segment, however often it tries.
        assert caplog.text.count("connection refused") == 2
    stopped.start()
    wait_until(lambda: ended == [[None], [None]])
    assert sink.texts == texts(50)


def test_a_whole_flow_gives_up_after_the_timeout(stopped: NatsServer) -> None:
    flow = with_cluster(chain(("a", texts(1)), ("b", Collected())), start_timeout_s=0.2)
    with pytest.raises(FlowError, match="connection refused") as caught:
        flow.run()
    assert caught.value.code == "broker.away"
    assert flow.state == "failed"


def test_a_segment_gives_up_after_a_timeout_that_is_set(stopped: NatsServer) -> None:
    flow = part(chain(("a", texts(1)), ("b", Collected())), "a")
    with pytest.raises(FlowError, match="connection refused"):
        with_cluster(flow, start_timeout_s=0.2).run()


@pytest.mark.parametrize("how", ["cancel", "drain"])
def test_a_segment_that_waits_can_be_stopped(stopped: NatsServer, how: str) -> None:
    flow = part(chain(("a", texts(1)), ("b", Collected())), "a")
    ended = run_apart(flow)
    wait_until(lambda: flow._execution is not None)
    time.sleep(0.2)
    began_s = time.monotonic()
    getattr(flow, how)()
    wait_until(lambda: bool(ended))
    assert time.monotonic() - began_s < 2
    assert flow.state == "cancelled"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:4222", "`http://` is not one of"),
        ("nats://127.0.0.1:99999", "url"),
    ],
)
def test_an_address_that_cannot_work_ends_the_start_at_once(
    server: NatsServer, url: str, reason: str
) -> None:
    flow = part(chain(("a", texts(1)), ("b", Collected())), "a")
    began_s = time.monotonic()
    with pytest.raises(FlowError, match=reason) as caught:
        with_cluster(flow, nats=url).run()
    assert caught.value.code == "broker.away"
    assert time.monotonic() - began_s < 5


def test_a_wrong_password_ends_the_start_at_once(tmp_path: Path, server: NatsServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    closed = NatsServer(port, tmp_path / "closed", ["--user", "u", "--pass", "secret"])
    closed.start()
    flow = part(chain(("a", texts(1)), ("b", Collected())), "a")
    try:
        with pytest.raises(FlowError, match=r"(?i)authorization violation") as caught:
            with_cluster(flow, nats=f"nats://u:wrong@127.0.0.1:{port}").run()
    finally:
        closed.stop()
    assert "wrong" not in str(caught.value)


def test_a_server_without_jetstream_is_waited_for(tmp_path: Path, stopped: NatsServer) -> None:
    bare = NatsServer(stopped.port, tmp_path / "bare")
    bare._command.remove("-js")
    bare.start()
    sink = Collected()
    flow = chain(("a", texts(5)), ("b", sink))
    ended = run_apart(part(flow, "a"))
    time.sleep(0.5)
    assert not ended
    bare.stop()
    stopped.start()
    wait_until(lambda: ended == [None])
    run_parts([part(flow, "b")])
    assert sink.texts == texts(5)


MANIFEST = """
[torvyn]
name = "project"
version = "0.1.0"
contract_version = "0.1.0"

[flow.main.nodes.a]
component = "timer"

[flow.main.nodes.b]
component = "null"

[[flow.main.edges]]
from = "a"
to = "b"
carrier = "nats"
"""


def test_ctrl_c_ends_a_command_that_waits(tmp_path: Path, stopped: NatsServer) -> None:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    command = [sys.executable, "-m", "torvyn", "run", "--segment", "a", "--nats", stopped.url]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "connection refused" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
