"""The broker of a run: it keeps its address and its data when it dies, and ends with the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import torvyn
from torvyn._cluster.broker import RunBroker, run_broker
from torvyn.errors import ClusterError

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunBroker]:
    broker = RunBroker(tmp_path)
    yield broker
    broker.stop()


def eventually(is_so: Callable[[], bool]) -> None:
    waiting, until_s = threading.Event(), time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until_s
        waiting.wait(0.02)


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except OSError:
        return True


def test_a_broker_that_dies_is_started_again_at_its_address(broker: RunBroker) -> None:
    first, url = broker.pid, broker.url
    os.kill(first, signal.SIGKILL)

    eventually(lambda: broker.pid != first)

    assert broker.url == url
    assert not has_ended(broker.pid)


def test_a_broker_ends_with_its_run(tmp_path: Path) -> None:
    broker = RunBroker(tmp_path)
    broker.stop()

    assert has_ended(broker.pid)


PROCESS = """
import sys, time
from pathlib import Path
from torvyn._cluster.broker import RunBroker

print(RunBroker(Path(sys.argv[1])).pid, flush=True)
time.sleep(100)
"""


def test_a_broker_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROCESS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()

    eventually(lambda: has_ended(pid))


def test_a_flow_runs_once_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORVYN_RUNTIME__STATE_DIR", str(tmp_path))
    flow = torvyn.Flow(["1"], checkpoint_s=1.0)
    with run_broker(flow.plan), pytest.raises(ClusterError) as caught, run_broker(flow.plan):
        pass

    assert caught.value.code == "cluster.flow-runs"
