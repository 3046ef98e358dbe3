"""Signals: the first Ctrl-C or SIGTERM drains, the second cancels, the third ends the process.

Pipes tell when the flow runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Start = Callable[..., "subprocess.Popen[str]"]

# Each prints a line when it has started, so that the test knows when to send a signal.
ENDLESS = """
    class Endless(torvyn.Source):
        def pull(self):
            print("begun", flush=True)
            return torvyn.PENDING
        def teardown(self):
            print("torn down", flush=True)
"""
ENDLESS_THREAD = ENDLESS.replace("PENDING", "PENDING.after(60)") + '        run = "thread"\n'
ENDLESS_ASYNC = """
    import asyncio
    class Endless(torvyn.Source):
        async def pull(self):
            print("begun", flush=True)
            await asyncio.sleep(3600)
        async def teardown(self):
            print("torn down", flush=True)
"""
BUSY = """
    class Endless(torvyn.Source):
        count = 0
        def pull(self):
            self.count += 1
            if self.count == 1000:
                print("begun", flush=True)
            return "x"
        def teardown(self):
            print("torn down", flush=True)
"""
STUCK = """
    import threading
    class Endless(torvyn.Source):
        def pull(self):
            print("begun", flush=True)
            threading.Event().wait()
        def teardown(self):
            print("torn down", flush=True)
"""
STUCK_IN_INIT = """
    import threading
    class Endless(torvyn.Source):
        def init(self, config):
            print("begun", flush=True)
            threading.Event().wait()
        def pull(self):
            return None
"""
STUCK_IN_TEARDOWN = """
    class Endless(torvyn.Source):
        def pull(self):
            return None
        def teardown(self):
            print("begun", flush=True)
            while True:
                pass
"""
TALKATIVE = """
    class Talkative(torvyn.Source):
        def pull(self):
            print("x" * 1_000_000)
            return "x"
"""
TEN = """
    class Endless(torvyn.Source):
        count = 0
        def pull(self):
            self.count += 1
            if self.count == 11:
                print("begun", flush=True)
            return "x" if self.count <= 10 else torvyn.PENDING
"""
HOLDING = """
    class Holding(torvyn.Aggregator):
        count = 0
        def ingest(self, element):
            self.count += 1
        def flush(self):
            return [f"{self.count} flushed"]
"""
PAUSED = """
    class Paused(torvyn.Sink):
        def push(self, element):
            return torvyn.Signal.PAUSE
        def teardown(self):
            print("torn down", flush=True)
"""

Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def run(start: Start, project: Callable[..., Path]) -> Run:
    """A running flow in its own process."""

    def begin(
        source: str, *arguments: str, then: dict[str, str] | None = None, **parts: str
    ) -> subprocess.Popen[str]:
        nodes = {"source": 'component = "endless"', **(then or {"sink": 'component = "null"'})}
        process = start("run", *arguments, cwd=project(nodes, endless=source, **parts))
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        return process

    return begin


@pytest.mark.parametrize("source", [ENDLESS, ENDLESS_THREAD, ENDLESS_ASYNC, BUSY])
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_ends_the_flow_with_its_summary(
    run: Run, source: str, number: int, code: int, word: str
) -> None:
    process = run(source)
    process.send_signal(number)

    out, err = process.communicate()

    assert process.returncode == code
    assert out.endswith("torn down\n")
    assert f"\n[torvyn] Flow 'main' {word}.\n[torvyn] " in err
    assert "elements produced" in err
    assert "error" not in err


def test_elements_in_the_flow_reach_the_sink_before_it_ends(run: Run) -> None:
    then = {"held": 'component = "holding"', "sink": 'component = "console"'}
    process = run(TEN, then=then, holding=HOLDING)
    process.send_signal(signal.SIGINT)

    out, err = process.communicate()

    assert (process.returncode, out) == (130, "10 flushed\n")
    assert err.endswith("[torvyn] 10 elements produced | 1 element emitted\n")


def test_a_second_signal_cancels_and_counts_the_elements_in_the_flow(run: Run) -> None:
    process = run(TEN, then={"sink": 'component = "paused"'}, paused=PAUSED)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    while "Draining" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)

    out, err = process.communicate()

    # The sink processes the first; the others wait in its queue.
    assert (process.returncode, out) == (143, "torn down\n")
    assert "Flow 'main' terminated." in err
    assert "10 elements produced | 1 element emitted | 9 unread" in err


def test_a_component_that_does_not_return_is_reported_and_left_behind(run: Run) -> None:
    process = run(STUCK, "--set", "runtime.drain_timeout=100ms")
    process.send_signal(signal.SIGINT)

    out, err = process.communicate()

    assert (process.returncode, out) == (130, "")
    assert "node `source` in `pull` did not return and was abandoned" in err
    assert "threading.Event().wait()" in err
    assert "Flow 'main' interrupted." in err


@pytest.mark.parametrize(
    ("source", "phase"), [(STUCK_IN_INIT, "init"), (STUCK_IN_TEARDOWN, "teardown")]
)
def test_one_signal_ends_a_command_that_is_stuck(run: Run, source: str, phase: str) -> None:
    process = run(source, "--set", "runtime.teardown_timeout=1h")
    process.send_signal(signal.SIGINT)

    err = process.communicate()[1]

    assert process.returncode == 130
    assert f"node `source` in `{phase}` did not return and was abandoned" in err
    assert "Flow 'main' interrupted." in err


def test_a_third_signal_ends_the_process_at_once(run: Run) -> None:
    process = run(STUCK, "--set", "runtime.drain_timeout=1h")
    while process.poll() is None:
        process.send_signal(signal.SIGINT)

    assert process.returncode == 130
    assert "Flow 'main'" not in process.communicate()[1].replace("Running flow", "")


def test_a_signal_ends_a_run_whose_reader_of_both_streams_has_stopped(
    start: Start, project: Callable[..., Path]
) -> None:
    nodes = {"source": 'component = "talkative"', "sink": 'component = "null"'}
    limit = ("--set", "runtime.drain_timeout=1ms")
    folder = project(nodes, talkative=TALKATIVE)
    process = start("run", *limit, cwd=folder, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    # The source is inside a write that is larger than the pipe.
    while os.read(process.stdout.fileno(), 1) != b"x":
        pass

    process.send_signal(signal.SIGINT)

    assert process.wait(30) == 130
