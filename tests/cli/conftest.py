"""Fixtures for the tests of the command line: run a command in this process or in a new one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pseudo_terminal import Terminal
from transcript import HEAD, Cli, Transcript

from torvyn._cli import app


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Runs a command line in this process: `cli("run", "--stats", cwd=folder)`."""
    interval_s = sys.getswitchinterval()
    for name in [name for name in os.environ if name.startswith("TORVYN_")]:
        monkeypatch.delenv(name)

    def call(*arguments: object, cwd: Path | None = None) -> Transcript:
        if cwd is not None:
            monkeypatch.chdir(cwd)
        code = app.run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Transcript(code, out, err)

    yield call
    sys.setswitchinterval(interval_s)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command line in its own process, with pipes; it does not outlive the test."""
    started: list[subprocess.Popen[str]] = []

    def call(*arguments: object, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "torvyn", *map(str, arguments)]
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, text=True, **{**streams, **options})
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def open_terminal() -> Iterator[Callable[..., Terminal]]:
    """Starts a command line on a pseudo-terminal; it does not outlive the test."""
    opened: list[Terminal] = []

    def call(*arguments: object, cwd: Path, **variables: str) -> Terminal:
        opened.append(Terminal(*arguments, cwd=cwd, **variables))
        return opened[-1]

    yield call
    for terminal in opened:
        terminal.close()


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Path]:
    """Writes a project: `project(nodes={"a": 'component = "lines"'}, part="class ...")`.

    The nodes form a chain in their order; keywords are components of the project by name.
    """

    def write(nodes: dict[str, str], extra: str = "", **components: str) -> Path:
        text = HEAD
        for name, source in components.items():
            folder = tmp_path / name
            folder.mkdir()
            (folder / "component.py").write_text("import torvyn\n" + textwrap.dedent(source))
            text += f'[[component]]\nname = "{name}"\npath = "{name}"\n'
        for name, keys in nodes.items():
            text += f"[flow.main.nodes.{name}]\n{keys}\n"
        names = list(nodes)
        for source, target in pairwise(names):
            text += f'[[flow.main.edges]]\nfrom = "{source}"\nto = "{target}"\n'
        (tmp_path / "Torvyn.toml").write_text(text + extra)
        return tmp_path

    return write


@pytest.fixture
def flows(tmp_path: Path) -> Callable[..., Path]:
    """Writes a project with several flows, each a chain of nodes, as `project` does with one:
    `flows(parts={"part": "class ..."}, a={"source": ...}, b={...})`. The name "" is for the keys
    of the flow itself."""

    def write(
        *, parts: Mapping[str, str] | None = None, extra: str = "", **chains: Mapping[str, str]
    ) -> Path:
        text = HEAD
        for name, source in (parts or {}).items():
            (tmp_path / name).mkdir()
            code = "import torvyn\n" + textwrap.dedent(source)
            (tmp_path / name / "component.py").write_text(code)
            text += f'[[component]]\nname = "{name}"\npath = "{name}"\n'
        for flow, nodes in chains.items():
            for name, keys in nodes.items():
                head = f"[flow.{flow}]" if name == "" else f"[flow.{flow}.nodes.{name}]"
                text += f"{head}\n{keys}\n"
            for source, target in pairwise(name for name in nodes if name):
                text += f'[[flow.{flow}.edges]]\nfrom = "{source}"\nto = "{target}"\n'
        (tmp_path / "Torvyn.toml").write_text(text + extra)
        return tmp_path

    return write
