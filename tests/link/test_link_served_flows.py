"""`torvyn serve` links every flow, but only the flows that it serves can stop it."""

from __future__ import annotations

import pytest

from torvyn._link.project_linker import ProjectLinker
from torvyn._manifest.parse import parse
from torvyn.errors import LinkError
from torvyn.transport.services import served_plans

HEAD = """
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
"""
CHAT = """
[flow.NAME.nodes.model]
component = "engine:scripted"
[flow.NAME.nodes.answer]
component = "response"
[[flow.NAME.edges]]
from = "model"
to = "answer"
"""
BROKEN = '[flow.batch.nodes.a]\ncomponent = "liens"\n'


def linker(text: str) -> ProjectLinker:
    return ProjectLinker(parse(HEAD + text), environ={})


def test_a_problem_of_a_flow_that_is_not_served_is_a_warning() -> None:
    project = linker(CHAT.replace("NAME", "chat") + BROKEN)

    assert list(served_plans(project)) == ["chat"]
    (warning,) = project.problems.warnings()
    assert (warning.code, warning.severity) == ("link.component-unknown", "warning")


def test_flows_without_a_route_are_not_served() -> None:
    flows = CHAT.replace("NAME", "chat") + CHAT.replace("NAME", "other")
    broken = flows.replace("engine:scripted", "engine:scriptd", 1)
    project = linker(broken + '[serve.routes]\n"org/model" = "other"\n')

    assert list(served_plans(project)) == ["org/model"]
    assert [warning.code for warning in project.problems.warnings()] == ["link.component-unknown"]


def test_all_problems_of_served_flows_are_reported_at_once() -> None:
    broken = CHAT.replace("NAME", "chat").replace("engine:scripted", "engine:scriptd")
    lines = '[flow.copy.nodes.a]\ncomponent = "lines"\nconfig = "x"\n'
    routes = '[serve.routes]\na = "chat"\nb = "caht"\n'
    with pytest.raises(LinkError) as caught:
        served_plans(linker(broken + lines + routes))

    codes = {problem.code for problem in caught.value.diagnostics}
    assert codes == {"link.component-unknown", "link.flow-unknown"}


def test_a_route_to_a_flow_that_does_not_answer_is_an_error() -> None:
    copy = """
[flow.copy.nodes.a]
component = "lines"
config = "x"
[flow.copy.nodes.b]
component = "null"
[[flow.copy.edges]]
from = "a"
to = "b"
[serve.routes]
chat = "copy"
"""
    with pytest.raises(LinkError) as caught:
        served_plans(linker(copy))

    assert caught.value.code == "engine.flow-unfit"
