"""Every `cli.*` code, provoked at the place that raises it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

import click

import torvyn
from torvyn._cli import (
    bench_comparison,
    bench_measurement,
    conversation,
    exit,
    screen,
    stored_elements,
    systemd,
)
from torvyn._cli.app import group
from torvyn._cli.commands import build, generate, init, reload, service
from torvyn._cli.exit import usage_error
from torvyn._link.plan import Plan
from torvyn._link.project_linker import ProjectLinker
from torvyn._manifest.parse import parse

MANIFEST = """
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
[flow.main.nodes.a]
component = "lines"
config = "empty.txt"
[flow.main.nodes.b]
component = "null"
[[flow.main.edges]]
from = "a"
to = "b"
"""


def line(*arguments: str) -> Callable[[Path], object]:
    """A command line that is wrong in itself."""

    def run(_: Path) -> object:
        try:
            return group.main([*arguments], prog_name="torvyn", standalone_mode=False)
        except click.ClickException as error:
            raise usage_error(error) from error

    return run


def plan() -> Plan:
    return ProjectLinker(parse(MANIFEST)).plan()


def nothing_measured(folder: Path) -> None:
    (folder / "empty.txt").write_text("")
    bench_measurement.measure(plan(), bench_measurement.BenchOptions(0, 1, None, None))


def unknown_component(folder: Path) -> None:
    (folder / "Torvyn.toml").write_text(MANIFEST)
    build._guests(("content-filtre",), folder / "Torvyn.toml")


def file_exists(folder: Path) -> None:
    (folder / "README.md").write_text("mine")
    init.write_files(folder, {"README.md": "yours"})


def file_unwritable(folder: Path) -> None:
    (folder / "taken").write_text("")
    init.write_files(folder / "taken", {"README.md": ""})


def unusable(folder: Path) -> None:
    (folder / "x.json").write_text("[1]")
    bench_comparison.read_result("x.json", "main")


def regressed(_: Path) -> None:
    compared = {"verdict": "slower", "throughput_change": -20.0, "threshold": 10.0}
    bench_comparison.raise_if_regressed(compared, "x.json")


def full_disk(_: Path) -> None:
    with open("/dev/full", "w") as full, redirect_stdout(full):
        print("x")
        screen.flush_stdout()


def a_bug(_: Path) -> None:
    raise exit.bug(KeyError("x"))


def no_conversation(folder: Path) -> None:
    (folder / "talk.jsonl").write_text('{"role": "user", "content": "Hi"}\n{"role":')
    conversation.Conversation("talk.jsonl")


def empty_prompt(folder: Path) -> None:
    (folder / "prompt.txt").write_text("\n")
    generate.read_prompt(screen.Screen(), None, "prompt.txt")


def without_systemd(folder: Path) -> None:
    with patch.dict(os.environ, {"PATH": str(folder)}):
        systemd.Systemd(False).require()


def unreachable_systemd(folder: Path) -> None:
    with patch.dict(os.environ, {"PATH": str(folder)}):
        systemd.Systemd(False).control("daemon-reload")


def unknown_service(folder: Path) -> None:
    with patch.dict(os.environ, {"XDG_CONFIG_HOME": str(folder)}):
        service._unit_file(systemd.Systemd(False), "torvyn-absent.service")


CASES: dict[str, Callable[[Path], object]] = {
    "cli.bad-usage": line("doctor", "and", "more"),
    "cli.bad-value": line("run", "--limit", "many"),
    "cli.baseline-unreadable": lambda _: bench_comparison.read_result("absent.json", "main"),
    "cli.baseline-unusable": unusable,
    "cli.bug": a_bug,
    "cli.component-unknown": unknown_component,
    "cli.file-exists": file_exists,
    "cli.file-unwritable": file_unwritable,
    "cli.flow-unknown": lambda _: reload._find("a flow that nobody runs"),
    "cli.history-unusable": no_conversation,
    "cli.input-unreadable": lambda _: generate.read_prompt(screen.Screen(), None, "absent.txt"),
    "cli.input-unusable": empty_prompt,
    "cli.missing-argument": line("completions"),
    "cli.no-systemd": without_systemd,
    "cli.nothing-measured": nothing_measured,
    "cli.nothing-stored": lambda _: stored_elements.durable_plan(
        torvyn.Flow(["a"], torvyn.sink(lambda element: None)).plan
    ),
    "cli.output-failed": full_disk,
    "cli.regressed": regressed,
    "cli.reload-failed": lambda folder: reload._ask(folder / "1.control", "difference"),
    "cli.service-unknown": unknown_service,
    "cli.systemd-failed": unreachable_systemd,
    "cli.unknown-command": line("rnu"),
    "cli.unknown-option": line("run", "--inptu", "x"),
}
