"""A process is found and ended after the command that started it is gone; never another one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from torvyn._io.process_record import ProcessRecord

READY = "print(flush=True)\n"
SLEEP = "import time, signal, subprocess, sys\n" + READY + "time.sleep(60)"
STUBBORN = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\n" + READY + "time.sleep(60)"
PARENT = (
    "import subprocess, sys, time\n"
    f"child = subprocess.Popen([sys.executable, '-c', {SLEEP!r}], stdout=subprocess.PIPE)\n"
    "child.stdout.readline()\n" + READY + "time.sleep(60)"
)

Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program in a session of its own, and waits for its first line."""
    started: list[subprocess.Popen[bytes]] = []

    def call(program: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", program]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield call
    for process in started:
        process.kill()
        process.communicate()


def test_a_process_runs_until_it_ends(start: Start) -> None:
    process = start(SLEEP)
    record = ProcessRecord.of(process.pid)
    assert record.is_running

    assert record.end(grace_s=20)

    # Nobody has asked for its exit code yet: the process still has its id.
    assert not record.is_running
    assert process.wait() == -15


def test_another_process_with_the_same_id_is_left_alone(start: Start) -> None:
    process = start(SLEEP)
    earlier = replace(ProcessRecord.of(process.pid), started="a time before")

    assert not earlier.is_running
    assert earlier.members() == []
    assert earlier.end(grace_s=0)
    assert process.poll() is None


def test_a_process_of_an_earlier_boot_is_not_running(start: Start) -> None:
    record = ProcessRecord.of(start(SLEEP).pid)
    earlier = replace(record, started="another-boot " + record.started.partition(" ")[2])

    assert not earlier.is_running
    assert earlier.members() == []


def test_a_process_that_ignores_the_request_is_killed(start: Start) -> None:
    process = start(STUBBORN)

    assert ProcessRecord.of(process.pid).end(grace_s=0.1)

    assert process.wait() == -9


def test_the_children_of_a_killed_process_are_ended_too(start: Start) -> None:
    process = start(PARENT)
    record = ProcessRecord.of(process.pid)
    parent, child = sorted(record.members())
    process.kill()
    process.wait()
    assert record.members() == [{parent, child}.difference({process.pid}).pop()]

    assert record.end(grace_s=0)

    assert record.members() == []


def test_the_memory_is_that_of_the_whole_session(start: Start) -> None:
    alone, parent = start(SLEEP), start(PARENT)

    together = ProcessRecord.of(parent.pid).resident_bytes()

    assert together > ProcessRecord.of(alone.pid).resident_bytes() > 1_000_000


def test_a_process_that_does_not_exist_cannot_be_remembered(start: Start) -> None:
    process = start(SLEEP)
    process.kill()
    process.wait()

    with pytest.raises(ProcessLookupError):
        ProcessRecord.of(process.pid)
