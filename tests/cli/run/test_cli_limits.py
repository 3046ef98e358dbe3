"""Time limits of `torvyn run`: the command ends in time, whatever its components do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Start = Callable[..., "subprocess.Popen[str]"]

SYNC = """
    import threading
    class Stuck(torvyn.{role}):
        run = {run!r}
        def {method}(self{arguments}):
            {block}
        {work}
"""
ASYNC = SYNC.replace("def {method}", "async def {method}").replace("run = {run!r}", "pass")
LOCK = "threading.Event().wait()"
SPIN = "while True: pass"

METHODS = {
    "init": ("Processor", ", config"),
    "process": ("Processor", ", element"),
    "flush": ("Processor", ""),
    "complete": ("Sink", ", end"),
    "teardown": ("Processor", ""),
}


def component(method: str, run: str, block: str) -> str:
    role, arguments = METHODS[method]
    work = "push" if role == "Sink" else "process"
    asynchronous = "async " if run == "async" else ""
    own = "" if method == work else f"{asynchronous}def {work}(self, element): return None"
    source = ASYNC if run == "async" else SYNC
    return source.format(
        role=role, run=run, method=method, arguments=arguments, block=block, work=own
    )


@pytest.fixture
def run_stuck(start: Start, project: Callable[..., Path]) -> Callable[..., tuple[int, str]]:
    """Runs a flow with a component that gets stuck; returns the exit code and standard error."""

    def run(method: str, run: str, block: str, *arguments: str) -> tuple[int, str]:
        nodes = {"source": 'component = "scripted"', "stuck": 'component = "stuck"'}
        if METHODS[method][0] != "Sink":
            nodes["sink"] = 'component = "null"'
        folder = project(nodes, stuck=component(method, run, block))
        process = start("run", *arguments, cwd=folder)
        err = process.communicate(timeout=60)[1]
        return process.returncode, err

    return run


@pytest.mark.parametrize("block", [LOCK, SPIN], ids=["lock", "spin"])
@pytest.mark.parametrize("method", ["init", "process", "flush", "complete"])
def test_a_timeout_ends_the_command(
    run_stuck: Callable[..., tuple[int, str]], method: str, block: str
) -> None:
    code, err = run_stuck(method, "inline", block, "--timeout", "200ms")

    assert code == 1
    assert "Flow 'main' failed." in err
    stuck = f"node `stuck` in `{method}` has not returned"
    assert (
        f"error[reactor.deadline-exceeded]: flow `main` did not finish within 0.2 s: {stuck}" in err
    )
    assert block.strip() in err.partition("where it is stuck:")[2]


@pytest.mark.parametrize("run", ["thread", "async"])
def test_a_timeout_names_a_component_that_runs_elsewhere(
    run_stuck: Callable[..., tuple[int, str]], run: str
) -> None:
    code, err = run_stuck("process", run, LOCK, "--timeout", "200ms")

    assert code == 1
    assert "error[reactor.deadline-exceeded]" in err
    assert "node `stuck` in `process` has not returned" in err


@pytest.mark.parametrize("run", ["inline", "thread", "async"])
def test_an_init_timeout_ends_the_command(
    run_stuck: Callable[..., tuple[int, str]], run: str
) -> None:
    code, err = run_stuck("init", run, SPIN, "--set", "runtime.init_timeout=200ms")

    assert code == 1
    assert "error[reactor.init-timeout]: node `stuck` was not ready within 0.2 s" in err
    assert SPIN in err.partition("where it is stuck:")[2]


@pytest.mark.parametrize("run", ["inline", "thread", "async"])
def test_a_teardown_timeout_ends_the_command(
    run_stuck: Callable[..., tuple[int, str]], run: str
) -> None:
    code, err = run_stuck("teardown", run, SPIN, "--set", "runtime.teardown_timeout=200ms")

    assert code == 0
    assert "node `stuck` did not end within 0.2 s and was abandoned" in err
    assert "Flow 'main' completed." in err


def test_a_flow_runs_on_one_thread_from_init_to_teardown(
    start: Start, project: Callable[..., Path]
) -> None:
    counting = """
    import sqlite3
    class Counting(torvyn.Sink):
        def init(self, config):
            self.database = sqlite3.connect(":memory:")
            self.database.execute("create table seen (text)")
        def push(self, element):
            self.database.execute("insert into seen values (?)", (element.text,))
        def complete(self, end):
            print(*self.database.execute("select count(*) from seen").fetchone())
        def teardown(self):
            self.database.close()
    """
    nodes = {"source": 'component = "scripted"', "sink": 'component = "counting"'}
    process = start("run", "--limit", "3", cwd=project(nodes, counting=counting))

    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (0, "3\n")
    assert "failed in" not in err
