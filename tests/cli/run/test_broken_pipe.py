"""A reader that goes away ends a flow quietly; other output failures are reported."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from transcript import EXAMPLE

Start = Callable[..., "subprocess.Popen[str]"]
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
UNBUFFERED = {**BUFFERED, "PYTHONUNBUFFERED": "1"}
needs_full_device = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs a device that is always full"
)
SOURCE = 'component = "scripted"\nconfig = { tokens = ["x"], repeat = 1000000 }'
PRINTING = """
    class Printing(torvyn.Sink):
        def push(self, element):
            print(element.text)
"""


@pytest.mark.parametrize("sink", ['"console"', '"printing"', '"printing"\nrun = "thread"'])
def test_a_reader_that_leaves_ends_the_flow_quietly(
    start: Start, project: Callable[..., Path], sink: str
) -> None:
    nodes = {"source": SOURCE, "sink": f"component = {sink}"}
    process = start("run", cwd=project(nodes, printing=PRINTING))
    assert process.stdout is not None
    assert process.stdout.readline() == "x\n"
    process.stdout.close()

    assert process.wait() == 0
    assert process.stderr is not None
    assert process.stderr.read() == "[torvyn] Running flow 'main'\n\n"


def test_a_pipe_that_was_never_read_is_not_an_error(start: Start) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start("run", "-q", cwd=EXAMPLE, stdout=writing)
    os.close(writing)

    assert process.wait() == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""


@pytest.mark.parametrize("env", [BUFFERED, UNBUFFERED], ids=["buffered", "unbuffered"])
def test_a_closed_standard_error_does_not_stop_a_flow(start: Start, env: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start("run", cwd=EXAMPLE, stderr=writing, env=env)
    os.close(writing)

    assert process.communicate()[0].endswith("Stream complete.\n")
    assert process.returncode == 0


@needs_full_device
def test_a_full_disk_under_standard_error_does_not_stop_a_flow(start: Start) -> None:
    with open("/dev/full", "w") as full:
        process = start("run", cwd=EXAMPLE, stderr=full, env=BUFFERED)

    assert process.communicate()[0].endswith("Stream complete.\n")
    assert process.returncode == 0


def test_both_streams_in_one_closed_pipe_end_quietly(
    start: Start, project: Callable[..., Path]
) -> None:
    nodes = {"source": SOURCE, "sink": 'component = "console"'}
    process = start("run", cwd=project(nodes), stderr=subprocess.STDOUT)
    assert process.stdout is not None
    assert process.stdout.readline() == "[torvyn] Running flow 'main'\n"
    process.stdout.close()

    assert process.wait() == 0


def test_a_closed_pipe_of_the_components_own_is_an_error(
    start: Start, project: Callable[..., Path]
) -> None:
    own = """
        import os
        class Own(torvyn.Sink):
            def push(self, element):
                reading, writing = os.pipe()
                os.close(reading)
                os.write(writing, b"x")
    """
    process = start("run", cwd=project({"source": SOURCE, "sink": 'component = "own"'}, own=own))

    err = process.communicate()[1]

    assert process.returncode == 1
    assert "BrokenPipeError" in err


@needs_full_device
@pytest.mark.parametrize("env", [BUFFERED, UNBUFFERED], ids=["at-the-end", "in-the-sink"])
def test_a_full_disk_under_standard_output_is_an_error(start: Start, env: dict[str, str]) -> None:
    with open("/dev/full", "w") as full:
        process = start("run", cwd=EXAMPLE, stdout=full, env=env)

        err = process.communicate()[1]

    assert process.returncode == 1
    assert "no space left on device" in err.lower()
    assert "Traceback" not in err
