"""Overrides of the command line are checked by link, together with everything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torvyn._link.overrides import Overrides
from torvyn._link.plan import Plan
from torvyn._link.project_linker import ProjectLinker
from torvyn._manifest.parse import parse
from torvyn.errors import LinkError

MANIFEST = """
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
[flow.main.nodes.a]
component = "lines"
config = { path = "in.txt", max_line = 9 }
[flow.main.nodes.b]
component = "console"
[[flow.main.edges]]
from = "a"
to = "b"
"""


def plan(overrides: Overrides, text: str = MANIFEST) -> Plan:
    return ProjectLinker(parse(text), overrides, environ={}).plan()


def problems(overrides: Overrides, text: str = MANIFEST) -> list[tuple[str, str]]:
    with pytest.raises(LinkError) as caught:
        plan(overrides, text)
    return [(problem.code, str(problem.location)) for problem in caught.value.diagnostics]


def test_input_is_the_path_of_the_source() -> None:
    config = plan(Overrides(input="other.txt")).node("a").config

    assert json.loads(config) == {"path": "other.txt", "max_line": 9}


def test_output_puts_a_file_in_the_place_of_a_console() -> None:
    node = plan(Overrides(output="out.txt")).node("b")

    assert node.component.name == "file"
    assert json.loads(node.config) == {"path": "out.txt", "mode": "truncate", "format": "lines"}


def test_a_deadline_replaces_that_of_the_flow() -> None:
    assert plan(Overrides(deadline_s=2.0)).deadline_s == 2.0


def test_all_wrong_overrides_are_reported_at_once() -> None:
    text = MANIFEST.replace('config = { path = "in.txt", max_line = 9 }', "")
    overrides = Overrides({"c.path": "x", "b.colour": "red"}, input="in.txt")

    assert problems(overrides, text.replace('"lines"', '"timer"')) == [
        ("contract.wrong-config", "Torvyn.toml:9:1, flow.main.nodes.b.config"),
        ("link.node-unknown", "command line, --config c.path"),
        ("link.bad-override", "command line, --input"),
    ]


def test_a_component_of_the_project_with_a_built_in_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "component.py").write_text(
        "import torvyn\nclass A(torvyn.Source):\n    def pull(self): return None\n"
    )
    declared = f'[[component]]\nname = "lines"\npath = "{tmp_path}"\n'

    assert ("link.bad-override", "command line, --input") in problems(
        Overrides(input="x"), MANIFEST + declared
    )
