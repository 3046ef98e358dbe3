"""A component that closes, detaches or replaces a standard stream: no traceback, the right code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Project = Callable[..., Path]
Start = Callable[..., "subprocess.Popen[str]"]

STATEMENTS = ["sys.stdout.close()", "sys.stdout.detach()", "sys.stdout = object()"]


def closing(project: Project, statement: str, sink: str, method: str = "process") -> Path:
    part = f"""
        import sys
        class Closing(torvyn.Processor):
            def process(self, element):
                if {method == "process"}:
                    {statement}
                return element
            def teardown(self):
                if {method == "teardown"}:
                    {statement}
    """
    nodes = {
        "source": 'component = "scripted"\nconfig = { tokens = ["a"] }',
        "work": 'component = "part"',
        "sink": f'component = "{sink}"',
    }
    return project(nodes, part=part)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate()
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    return process.returncode, out, err


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("method", ["process", "teardown"])
def test_a_flow_that_prints_nothing_completes(
    start: Start, project: Project, statement: str, method: str
) -> None:
    folder = closing(project, statement, "null", method)

    code, _, err = ended(start("run", cwd=folder))

    assert code == 0
    assert "[torvyn] 1 token produced | 1 element emitted" in err


@pytest.mark.parametrize("statement", STATEMENTS)
def test_figures_that_cannot_be_printed_are_an_error(
    start: Start, project: Project, statement: str
) -> None:
    folder = closing(project, statement, "null")

    code, out, err = ended(start("run", "--stats", "--format", "json", cwd=folder))

    (problem,) = json.loads(err.splitlines()[-1])["problems"]
    assert (code, out) == (1, "")
    assert problem["code"] == "cli.output-failed"
    assert "a component has closed or replaced it" in problem["message"]


@pytest.mark.parametrize("statement", STATEMENTS[:2])
def test_a_sink_that_prints_says_that_its_output_is_closed(
    start: Start, project: Project, statement: str
) -> None:
    code, _, err = ended(start("run", cwd=closing(project, statement, "console")))

    assert code == 1
    assert "error[component.fatal]: node `sink` failed in `push` on element 0: the program" in err


@pytest.mark.parametrize("statement", ["sys.stderr.close()", "sys.stderr = object()"])
def test_standard_error_may_be_closed(start: Start, project: Project, statement: str) -> None:
    code, out, _ = ended(start("run", cwd=closing(project, statement, "console")))

    assert (code, out) == (0, "a\n")
