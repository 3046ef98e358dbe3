"""`torvyn run` under systemd: its messages, and which flows the watchdog restarts."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from service_manager import ServiceManager, service_manager

Start = Callable[..., "subprocess.Popen[str]"]
Run = Callable[..., "subprocess.Popen[str]"]

IDLE = """
    class Feed(torvyn.Source):
        def pull(self):
            return torvyn.PENDING
"""
ONE = """
    class Feed(torvyn.Source):
        count = 0
        def pull(self):
            self.count += 1
            return "x" if self.count == 1 else torvyn.PENDING
"""
SLOW = """
    class Feed(torvyn.Source):
        def pull(self):
            return "x"
"""
NULL = """
    class Deliver(torvyn.Sink):
        def push(self, element):
            pass
"""
PACED = """
    import time
    class Deliver(torvyn.Sink):
        run = "thread"
        def push(self, element):
            time.sleep(0.05)
"""
HANGING = """
    import threading
    class Deliver(torvyn.Sink):
        run = "{run}"
        def push(self, element):
            threading.Event().wait()
"""
WITHOUT_UPLINK = """
    import threading
    from torvyn._io.connection import Connection
    class Deliver(torvyn.Sink):
        run = "thread"
        def init(self, config):
            self.connection = Connection("deliver", "collector:443")
        def push(self, element):
            self.connection.lost("connection refused")
            threading.Event().wait()
"""
CONNECTING = """
    from torvyn._io.connection import Connection
    class Feed(torvyn.Source):
        def init(self, config):
            self.connection = Connection("feed", "plc:502")
        def pull(self):
            return torvyn.PENDING
"""
"""Whoever makes its first connection hangs."""
WATCHDOG_S = 1.0


@pytest.fixture
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceManager]:
    with service_manager(tmp_path_factory.mktemp("manager")) as made:
        yield made


@pytest.fixture
def run(start: Start, project: Callable[..., Path], manager: ServiceManager) -> Run:
    def begin(feed: str, deliver: str, *arguments: str) -> subprocess.Popen[str]:
        nodes = {"feed": 'component = "feed"', "deliver": 'component = "deliver"'}
        folder = project(nodes, feed=feed, deliver=deliver)
        process = start("run", *arguments, cwd=folder, env=manager.environ(WATCHDOG_S))
        assert manager.receive() == {"READY": "1", "STATUS": "running flow main"}
        return process

    return begin


def test_a_flow_reports_that_it_is_ready_and_that_it_stops(
    run: Run, manager: ServiceManager
) -> None:
    process = run(IDLE, NULL)
    process.send_signal(signal.SIGTERM)
    last = manager.receive_until(lambda message: "STOPPING" in message)[-1]

    assert process.wait(30) == 143
    assert last == {"STOPPING": "1", "STATUS": "draining flow main"}


def test_an_idle_source_keeps_the_watchdog_fed(run: Run, manager: ServiceManager) -> None:
    run(IDLE, NULL)
    messages = [manager.receive() for _ in range(4)]

    assert {message["WATCHDOG"] for message in messages} == {"1"}
    assert messages[-1]["STATUS"] == "idle: 0 produced, 0 emitted"


def test_a_slow_flow_keeps_the_watchdog_fed(run: Run, manager: ServiceManager) -> None:
    run(SLOW, PACED)
    messages = [manager.receive() for _ in range(5)]

    assert {message["WATCHDOG"] for message in messages} == {"1"}
    assert messages[-1]["STATUS"].startswith("moving: ")


@pytest.mark.parametrize("mode", ["inline", "thread"])
def test_health_check_fails_when_nothing_moves(
    run: Run, manager: ServiceManager, mode: str
) -> None:
    process = run(ONE, HANGING.format(run=mode))
    last = manager.receive_until(lambda message: message.get("WATCHDOG") == "trigger")[-1]
    process.kill()

    assert last["STATUS"].startswith("stalled: node `deliver` has moved no element for ")
    err = process.communicate()[1]
    assert "the watchdog of systemd ends the process; node `deliver` in `push`" in err
    assert "threading.Event().wait()" in err


def test_a_lost_connection_is_no_reason_for_a_restart(run: Run, manager: ServiceManager) -> None:
    run(ONE, WITHOUT_UPLINK)
    messages = [manager.receive() for _ in range(6)]

    assert {message["WATCHDOG"] for message in messages} == {"1"}
    assert messages[-1]["STATUS"].startswith("waiting: 1 produced, 0 emitted, node `deliver` has ")


def test_a_source_whose_first_connection_hangs_is_named_and_restarted(
    run: Run, manager: ServiceManager
) -> None:
    run(CONNECTING, NULL)
    last = manager.receive_until(lambda message: message.get("WATCHDOG") == "trigger")[-1]

    assert last["STATUS"].startswith("stalled: node `feed` has moved no element for ")


def test_sources_that_are_silent_for_too_long_fail(run: Run, manager: ServiceManager) -> None:
    run(ONE, NULL, "--set", "runtime.max_silence=300ms")
    last = manager.receive_until(lambda message: message.get("WATCHDOG") == "trigger")[-1]

    assert last["STATUS"].startswith("silent: the sources have sent nothing for ")
