"""Signals: Ctrl-C and SIGTERM end a flow in good order, twice at once. Pipes tell when it runs."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Start = Callable[..., "subprocess.Popen[str]"]

# Each prints a line when it has begun, so that the test knows when to send a signal.
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


@pytest.fixture
def run(start: Start, project: Callable[..., Path]) -> Callable[[str], subprocess.Popen[str]]:
    """A flow that has begun, in its own process."""

    def begin(source: str) -> subprocess.Popen[str]:
        nodes = {"source": 'component = "endless"', "sink": 'component = "null"'}
        process = start("run", cwd=project(nodes, endless=source))
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
    run: Callable[[str], subprocess.Popen[str]], source: str, number: int, code: int, word: str
) -> None:
    process = run(source)
    process.send_signal(number)

    out, err = process.communicate()

    assert process.returncode == code
    assert out.endswith("torn down\n")
    assert f"\n[torvyn] Flow 'main' {word}.\n[torvyn] " in err
    assert "elements produced" in err
    assert "error" not in err


def test_a_component_that_does_not_come_back_is_broken_off(
    run: Callable[[str], subprocess.Popen[str]],
) -> None:
    process = run(STUCK)
    process.send_signal(signal.SIGINT)

    out, err = process.communicate()

    assert (process.returncode, out) == (130, "torn down\n")
    assert "Flow 'main' interrupted." in err


def test_a_signal_while_components_start_ends_the_command(
    run: Callable[[str], subprocess.Popen[str]],
) -> None:
    process = run(STUCK_IN_INIT)
    process.send_signal(signal.SIGINT)

    assert "Flow 'main' interrupted." in process.communicate()[1]
    assert process.returncode == 130


def test_a_second_signal_ends_the_process_at_once(
    run: Callable[[str], subprocess.Popen[str]],
) -> None:
    stubborn = ENDLESS + "            while True: pass\n"
    process = run(stubborn)
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    while process.stdout.readline() != "torn down\n":
        pass
    process.send_signal(signal.SIGINT)

    assert process.wait() == 130
