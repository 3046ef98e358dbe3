"""Whatever a project's component does, no command reports a bug in torvyn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from transcript import Cli

Project = Callable[..., Path]

SCRIPTED = 'component = "scripted"\nconfig = { tokens = ["a"] }'
NULL = 'component = "null"'
COMMANDS = (
    ("check",),
    ("link",),
    ("run",),
    ("run", "--format", "json", "-v"),
    ("trace",),
    ("bench", "--rounds", "1"),
)

CLASS = """
    class Part(torvyn.{role}):
        {body}
"""
SOURCES = {
    "an `__iter__` that gives a list": "def __iter__(self): return ['x']",
    "an `__iter__` that gives a str": "def __iter__(self): return 'x'",
    "an `__iter__` that gives None": "def __iter__(self): return None",
    "an `__iter__` that raises": "def __iter__(self): raise KeyError('x')",
    "a `__getattr__` that raises": "def __getattr__(self, name): raise KeyError(name)",
    "an `__init__` that raises": "def __init__(self): raise KeyError('x')",
    "an `__init__` that exits": "def __init__(self): raise SystemExit(3)",
    "a role of its own": "role = 5",
    "a run mode of its own": "run = []",
    "a unit of its own": "unit = 5",
    "no method": "pass",
    "a method with too much": "def pull(self, more): return None",
}
PROCESSORS = {
    "a method with too little": "def process(self): return None",
    "a result that raises": "def process(self, e): return type('O', (), {'__iter__': 5})()",
    "an exit": "def process(self, e): raise SystemExit(3)",
    "an unexpected interrupt": "def process(self, e): raise KeyboardInterrupt",
    "an exception without a text": "def process(self, e): "
    "raise type('Untold', (Exception,), {'__str__': 5})",
    "an `init` without a config": "def init(self): pass",
    "a static method": "process = staticmethod(lambda: None)",
    "a property that raises": "process = property(lambda self: 1 / 0)",
}


@pytest.mark.parametrize("case", [*SOURCES, *PROCESSORS])
def test_no_command_reports_a_bug_in_torvyn(cli: Cli, project: Project, case: str) -> None:
    is_source = case in SOURCES
    body = SOURCES[case] if is_source else PROCESSORS[case]
    if is_source and "def" in body and "__iter__" not in body and "pull" not in body:
        body += "\n        def pull(self): return None"
    part = CLASS.format(role="Source" if is_source else "Processor", body=body)
    part += "" if "process" in body or is_source else "        def process(self, e): return e\n"
    nodes = {"source": SCRIPTED, "culprit": 'component = "part"', "sink": NULL}
    if is_source:
        nodes = {"culprit": 'component = "part"', "sink": NULL}
    folder = project(nodes, part=part)

    for command in COMMANDS:
        done = cli(*command, cwd=folder)

        assert done.code in ((0, 2) if command[0] in ("check", "link") else (1, 2)), command
        assert "cli.bug" not in done.err
        assert "Logging error" not in done.err
        if done.code:
            assert "culprit" in done.err or "`part`" in done.err


def test_check_explains_the_signatures_of_a_project(cli: Cli, project: Project) -> None:
    part = CLASS.format(role="Processor", body="def process(self): return None")
    nodes = {"source": SCRIPTED, "work": 'component = "part"', "sink": NULL}

    done = cli("check", cwd=project(nodes, part=part))

    assert done.code == 2
    assert done.err.startswith(
        "error[contract.wrong-signature]: node `work`: `Part` has `process(self)`, "
        "but a processor is called as `process(element)`\n"
    )
    assert "hint: write `def process(self, element)`" in done.err


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("process", "error[component.fatal]: {work} failed in `process` on element 0"),
        ("init", "error[reactor.init-failed]: {work} failed in `init`"),
    ],
)
def test_an_interrupt_without_a_signal_is_the_components(
    cli: Cli, project: Project, method: str, problem: str
) -> None:
    body = f"def {method}(self, taken): raise KeyboardInterrupt"
    body += "" if method == "process" else "\n        def process(self, element): return element"
    nodes = {"source": SCRIPTED, "work": 'component = "part"', "sink": NULL}

    done = cli("run", cwd=project(nodes, part=CLASS.format(role="Processor", body=body)))

    assert done.code == 1
    problem = problem.format(work="node `work` (component `part`)")
    assert f"{problem}: KeyboardInterrupt" in done.err
