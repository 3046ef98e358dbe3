"""A file -> Plans: the example, all problems of a file at once, overrides and secrets."""

from __future__ import annotations

import json
import pickle
from itertools import product
from pathlib import Path

import pytest

import torvyn
from torvyn._link.flow_linker import link_flow
from torvyn._link.overrides import Overrides
from torvyn._link.project_linker import ProjectLinker
from torvyn._manifest.parse import parse
from torvyn._manifest.records import FlowRecord, NodeRecord
from torvyn.errors import LinkError, ManifestError

EXAMPLE = Path(__file__).parents[2] / "examples" / "token-streaming" / "Torvyn.toml"
HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
FLOW = """\
[flow.main.nodes.a]
component = "lines"
config = { path = "in.txt" }
[flow.main.nodes.b]
component = "console"
[[flow.main.edges]]
from = "a"
to = "b"
"""

RENDERED = """\
flow main, priority normal
  Tokens → Filter → Aggregate → Output

nodes
  source      source      token-source         inline
  filter      filter      content-filter       inline  config blocked_word
  aggregator  aggregator  sentence-aggregator  inline
  sink        sink        output-sink          inline

edges
  source:output      ->  filter      64 elements  1MiB  block
  filter:output      ->  aggregator  64 elements  1MiB  block
  aggregator:output  ->  sink        64 elements  1MiB  block
"""

WRONG = """\
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
licence = "MIT"

[flow.main.nodes.a]
component = "lines"

[flow.main.nodes.by-type]
component = "by-field"
config = { field = "type", routes = { m = "metrics", l = "logs" } }

[flow.main.nodes.b]
component = "consle"

[[flow.main.edges]]
from = "a"
to = "by-type"

[[flow.main.edges]]
from = "by-type:metrcs"
to = "b"
"""

COMPLAINTS = """\
error[manifest.unknown-key]: unknown key `licence` in `[torvyn]`
  at Torvyn.toml:5:1, torvyn.licence

hint: did you mean `license`?

error[link.component-unknown]: unknown component `consle`
  at Torvyn.toml:15:13, flow.main.nodes.b.component

hint: did you mean `console`?

error[link.port-unknown]: router `by-type` has no output port `metrcs`
  at Torvyn.toml:22:8, flow.main.edges[1].from

hint: its ports are `logs` and `metrics`; did you mean `metrics`?"""


def project(folder: Path, text: str) -> str:
    (folder / "Torvyn.toml").write_text(text)
    return "Torvyn.toml"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.promise("tokens.manifest")
def test_the_token_streaming_flow_links_as_it_stands() -> None:
    assert ProjectLinker.open(EXAMPLE, environ={}).plan().render() == RENDERED
    assert ProjectLinker.open(EXAMPLE, environ={}).check() == ()


def test_the_example_components_say_what_they_count() -> None:
    plan = ProjectLinker.open(EXAMPLE, environ={}).plan("main")

    assert [node.unit for node in plan.nodes] == ["tokens", "tokens", "sentences", "sentences"]


def test_problems_of_text_and_graph_are_told_in_one_run(tmp_path: Path) -> None:
    file = project(tmp_path, WRONG)
    with pytest.raises(ManifestError) as caught:
        ProjectLinker.open(file, environ={}).plan()

    assert caught.value.render() == COMPLAINTS
    assert (
        "\n\n".join(found.render() for found in ProjectLinker.open(file, environ={}).check())
        == COMPLAINTS
    )


def test_a_file_that_is_fine_with_a_graph_that_is_not_is_a_link_error(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="has no node `c`"):
        ProjectLinker.open(project(tmp_path, HEAD + FLOW.replace('to = "b"', 'to = "c"'))).plan()


def test_check_loads_components_that_no_flow_uses(tmp_path: Path) -> None:
    unused = '[[component]]\nname = "old"\npath = "old"\n'
    found = ProjectLinker.open(project(tmp_path, HEAD + FLOW + unused), environ={}).check()

    assert [diagnostic.code for diagnostic in found] == ["link.component-missing"]


def test_a_wrong_option_of_a_built_in_is_found_without_starting_it(tmp_path: Path) -> None:
    file = project(tmp_path, HEAD + FLOW.replace("path =", "pth ="))
    (found,) = ProjectLinker.open(file, environ={}).check()

    assert found.code == "contract.wrong-config"
    assert str(found.location) == "Torvyn.toml:7:10, flow.main.nodes.a.config"


def test_a_table_is_handed_over_as_json() -> None:
    plan = ProjectLinker(parse(HEAD + FLOW)).plan()

    assert json.loads(plan.node("a").config) == {"path": "in.txt"}


def test_overrides_change_a_config_by_key_and_as_a_whole() -> None:
    parsed = parse(HEAD + FLOW)
    by_key = ProjectLinker(
        parsed, Overrides(config={"a.path": "other.txt", "a.max_line": "9"})
    ).plan()
    whole = ProjectLinker(parsed, Overrides(config={"a": "third.txt"})).plan()

    assert json.loads(by_key.node("a").config) == {"path": "other.txt", "max_line": 9}
    assert whole.node("a").config == "third.txt"


def test_an_override_of_no_node_is_told_the_nearest() -> None:
    parsed = parse(HEAD + FLOW.replace("nodes.a]", "nodes.reader]").replace('"a"', '"reader"'))
    with pytest.raises(LinkError) as caught:
        ProjectLinker(parsed, Overrides(config={"raeder.path": "x"})).plan()

    assert (caught.value.code, caught.value.hint) == (
        "link.node-unknown",
        "did you mean `reader`?",
    )


def test_secrets_reach_the_plan_and_are_never_printed() -> None:
    text = HEAD + FLOW.replace("in.txt", "${SECRET}")
    plan = ProjectLinker(parse(text, environ={"SECRET": "hunter2"})).plan()

    assert plan.secrets == {"hunter2"}
    assert json.loads(plan.node("a").config) == {"path": "hunter2"}
    assert "hunter2" not in plan.render()
    assert "hunter2" not in json.dumps(plan.to_dict())


def test_a_secret_is_redacted_in_json_and_before_it_is_cut() -> None:
    secret = 'pass"word\\' + "x" * 60
    text = HEAD + FLOW.replace("in.txt", "${SECRET}")
    plan = ProjectLinker(parse(text, environ={"SECRET": secret})).plan()

    for shown in (plan.render(), json.dumps(plan.to_dict()), repr(plan)):
        assert "word" not in shown
        assert "xxx" not in shown


def test_a_secret_outside_a_config_is_redacted_too() -> None:
    text = HEAD + FLOW + '[flow.main]\ndescription = "for ${WHO}"\n'
    plan = ProjectLinker(parse(text, environ={"WHO": "alice"})).plan()

    assert plan.to_dict()["description"] == "for [redacted]"
    assert "alice" not in plan.render()


def test_a_plan_with_live_objects_becomes_plain_data() -> None:
    lines = open(EXAMPLE, encoding="utf-8")  # noqa: SIM115 (an object that cannot be copied)
    nodes = {"a": NodeRecord("a", torvyn.source(lines))}
    plan = link_flow(FlowRecord("main", nodes=nodes), open_end=True)
    lines.close()

    assert json.loads(json.dumps(plan.to_dict()))["nodes"][0]["component"] == {
        "kind": "object",
        "name": "IterableSource",
        "target": "torvyn._contract.functions:IterableSource",
    }


def test_an_edge_that_cannot_be_read_brings_no_further_complaints(tmp_path: Path) -> None:
    file = project(tmp_path, HEAD + FLOW.replace('to = "b"', ""))

    assert [found.code for found in ProjectLinker.open(file, environ={}).check()] == [
        "manifest.missing-key"
    ]


def test_settings_reach_the_plan(tmp_path: Path) -> None:
    text = HEAD + FLOW + '[runtime]\nturn_elements = 8\ncall_timeout = "2s"\n'
    file = project(tmp_path, text)
    overrides = Overrides(settings={"runtime.turn_time": "1ms"})
    environ = {"TORVYN_OBSERVABILITY__LEVEL": "off"}
    plan = ProjectLinker.open(file, overrides, environ=environ).plan()

    assert (plan.runtime.turn_elements, plan.runtime.turn_time_s) == (8, 0.001)
    assert plan.node("a").call_timeout_s == 2.0
    assert plan.observability == "off"


@pytest.mark.parametrize(("line", "limit_s"), [("", 1e9), ('call_timeout = "9s"', 9.0)])
def test_a_component_that_waits_for_a_server_has_only_the_limit_of_its_node(
    tmp_path: Path, line: str, limit_s: float
) -> None:
    uplink = 'component = "http"\nconfig = { url = "http://localhost" }\n' + line
    text = HEAD + FLOW.replace('component = "console"', uplink) + '[runtime]\ncall_timeout = "2s"\n'

    plan = ProjectLinker.open(project(tmp_path, text), environ={}).plan()

    assert plan.node("b").call_timeout_s == limit_s


def test_a_plan_pickles() -> None:
    plan = ProjectLinker.open(EXAMPLE, environ={}).plan()

    assert pickle.loads(pickle.dumps(plan)) == plan


def test_without_a_name_the_only_flow_is_meant() -> None:
    parsed = parse(HEAD + FLOW + FLOW.replace("main", "other"))

    assert ProjectLinker(parsed).plan("other").name == "other"
    with pytest.raises(LinkError) as caught:
        ProjectLinker(parsed).plan()
    assert caught.value.hint == "name one of `main` and `other`"


NORMAL = ("", "normal")


@pytest.mark.parametrize(
    "priorities",
    [
        *product(("", "normal", "critical", "low")),
        *product(("", "normal", "critical", "low"), repeat=2),
        *product(("", "normal", "critical"), repeat=3),
    ],
)
def test_priorities_that_change_nothing_are_warned_about(priorities: tuple[str, ...]) -> None:
    text = HEAD
    for number, priority in enumerate(priorities):
        text += f'[flow.f{number}]\npriority = "{priority}"\n' if priority else ""
        text += f"[flow.f{number}.nodes.a]\ncomponent = 'scripted'\n"
        text += f"[flow.f{number}.nodes.b]\ncomponent = 'null'\n"
        text += f"[[flow.f{number}.edges]]\nfrom = 'a'\nto = 'b'\n"

    found = ProjectLinker(parse(text)).check()

    # Priorities are shares: among equal flows, and for a flow that is alone, they change nothing.
    is_unused = len({each or "normal" for each in priorities}) == 1 and priorities[0] not in NORMAL
    codes = [(each.code, each.severity) for each in found]
    assert codes == [("link.priority-unused", "warning")] * int(is_unused)
