"""Text -> Manifest: forms that are accepted, and places that are remembered."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn._manifest.parse import parse as parse_text
from torvyn._manifest.parse import parse_leniently, read
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import Manifest, NodeRecord
from torvyn.errors import ManifestError

HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
EXAMPLE = Path(__file__).parents[2] / "examples" / "token-streaming" / "Torvyn.toml"


def parse(body: str, **environ: str) -> Manifest:
    return parse_text(HEAD + body, environ=environ)


def codes(body: str, **environ: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse(body, **environ)
    return [diagnostic.code for diagnostic in caught.value.diagnostics]


def node(body: str, **environ: str) -> NodeRecord:
    return (
        parse(f'[flow.main.nodes.a]\ncomponent = "c"\n{body}', **environ).flows["main"].nodes["a"]
    )


@pytest.mark.promise("tokens.manifest")
def test_the_token_streaming_manifest_is_valid() -> None:
    flow = read(EXAMPLE).flows["main"]

    assert list(flow.nodes) == ["source", "filter", "aggregator", "sink"]
    assert flow.nodes["filter"].config == "blocked_word"
    assert [(edge.source.node, edge.target.node) for edge in flow.edges] == [
        ("source", "filter"),
        ("filter", "aggregator"),
        ("aggregator", "sink"),
    ]


@pytest.mark.promise("tokens.edge-ends")
@pytest.mark.parametrize(
    "written", ['"a:out"', '{ node = "a", port = "out" }', "{ node = 'a', port = 'out' }"]
)
def test_the_end_of_an_edge_has_three_forms(written: str) -> None:
    edge = parse(f'[[flow.main.edges]]\nfrom = {written}\nto = "b"\n').flows["main"].edges[0]

    assert (edge.source.node, edge.source.port) == ("a", "out")
    assert (edge.target.node, edge.target.port) == ("b", None)


@pytest.mark.promise("tokens.contract-version")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("", "missing-key"),
        ('contract_version = "0.2.0"\n', "unsupported"),
        ('contract_version = "1.0.0"\n', "unsupported"),
        ('contract_version = "x"\n', "bad-value"),
    ],
)
def test_a_contract_version_that_is_missing_or_unknown_is_an_error(line: str, code: str) -> None:
    text = HEAD.replace('contract_version = "0.1.0"\n', line)
    with pytest.raises(ManifestError) as caught:
        parse_text(text + '[flow.main.nodes.a]\ncomponent = "c"\n', environ={})

    assert [found.code for found in caught.value.diagnostics] == [f"manifest.{code}"]
    assert caught.value.hint


def test_every_value_knows_its_place() -> None:
    edge = parse('[[flow.main.edges]]\nfrom = "a"\n  to = "b"\n').flows["main"].edges[0]

    assert str(edge.location) == "Torvyn.toml:5:1, flow.main.edges[0]"
    assert str(edge.at("to")) == "Torvyn.toml:7:8, flow.main.edges[0].to"


def test_block_producer_is_read_as_block() -> None:
    edges = '[[flow.main.edges]]\nfrom = "a"\nto = "b"\nbackpressure = "block-producer"\n'

    assert parse(edges).flows["main"].edges[0].backpressure == "block"


def test_sizes_and_durations_are_bytes_and_seconds() -> None:
    found = node('max_memory = "64MiB"\ncall_timeout = "100us"\ninit_timeout = "1.5h"\n')

    assert found.max_memory_bytes == 64 * 1024 * 1024
    assert found.call_timeout_s == 100e-6
    assert found.init_timeout_s == 1.5 * 3600


def test_a_policy_has_a_short_and_a_long_form() -> None:
    assert node('on_error = "skip"\n').on_error == {"policy": "skip"}
    long = 'on_error = { policy = "retry", max = 3, backoff = "100ms", then = "skip" }\n'

    assert node(long).on_error == {
        "policy": "retry",
        "max": 3,
        "backoff": 0.1,
        "then": "skip",
    }


def test_a_config_table_keeps_its_values() -> None:
    found = node('config = { words = ["a", "b"], deep = { n = 1, f = 0.5, yes = true } }\n')

    assert found.config == {"words": ["a", "b"], "deep": {"n": 1, "f": 0.5, "yes": True}}


def test_variables_are_filled_in_everywhere_and_remembered_as_secrets() -> None:
    body = '[flow.main.nodes.a]\ncomponent = "c"\nconfig = { key = "<${KEY}>", price = "$$5 $6" }\n'
    found = parse(body, KEY="k-1", OTHER="o")

    assert found.flows["main"].nodes["a"].config == {"key": "<k-1>", "price": "$5 $6"}
    assert found.secrets == {"k-1"}
    assert found.variables == {"KEY"}


def test_an_empty_variable_is_no_secret() -> None:
    assert node('unit = "${EMPTY}"\n', EMPTY="").unit == ""
    assert parse('[flow.a]\ndescription = "${EMPTY}"\n', EMPTY="").secrets == frozenset()


@pytest.mark.parametrize("written", ["${", "${}", "${A B}", "${1}", "x ${A"])
def test_a_broken_variable_is_an_error(written: str) -> None:
    assert codes(f'[flow.main]\ndescription = "{written}"\n') == ["manifest.bad-substitution"]


def test_a_variable_that_is_not_text_is_an_error() -> None:
    body = '[flow.main]\ndescription = "${RAW}"\n'

    assert codes(body, RAW="\udcff") == ["manifest.bad-substitution"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("queue_depth = 0", "bad-value"),
        ("queue_depth = 99999999999", "bad-value"),
        ("queue_depth = 1.5", "wrong-type"),
        ('queue_depth = "64"', "wrong-type"),
        ('queue_bytes = "0B"', "bad-value"),
        ('queue_bytes = "1.0000001KiB"', "bad-size"),
        ('deadline = "0s"', "bad-value"),
        ('deadline = "-1s"', "bad-duration"),
        ('deadline = "999999999999999999h"', "bad-value"),
        ("description = 1979-05-27", "wrong-type"),
        ("on_error = 3", "wrong-type"),
        ('on_error = "skp"', "bad-value"),
        ('on_error = { policy = "retry", mx = 3 }', "unknown-key"),
        ("nodes = 3", "wrong-type"),
        ("edges = 3", "wrong-type"),
        ("edges = [3]", "wrong-type"),
        ("nodes = { a = 3 }", "wrong-type"),
    ],
)
def test_a_wrong_value_has_its_own_code(line: str, code: str) -> None:
    assert codes(f"[flow.main]\n{line}\n") == [f"manifest.{code}"]


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_config_has_only_what_json_has(number: str) -> None:
    body = f'[flow.main.nodes.a]\ncomponent = "c"\nconfig = {{ x = {number} }}\n'

    assert codes(body) == ["manifest.bad-value"]


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 100_000 + "]" * 100_000,
        "x = " + "{ x = " * 100_000 + "1" + "}" * 100_000,
        "x" + ".x" * 100_000 + " = 1",
        "[x" + ".x" * 100_000 + "]",
    ],
)
def test_deep_nesting_is_an_error_and_never_a_crash(text: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_text(text)

    assert caught.value.code == "manifest.too-deep"


def test_a_place_far_down_a_long_line_is_found_by_counting_on() -> None:
    words = ", ".join(['"é"'] * 20_000)
    body = f'[flow.main.nodes.a]\ncomponent = "c"\nconfig = {{ words = [{words}, nan], x = inf }}\n'
    with pytest.raises(ManifestError) as caught:
        parse(body)
    columns = [found.location.column for found in caught.value.diagnostics if found.location]

    assert columns == [
        body.index("nan") - body.index("config") + 1,
        body.index("inf") - body.index("config") + 1,
    ]


def test_half_a_surrogate_pair_is_an_error() -> None:
    with pytest.raises(ManifestError) as caught:
        parse_text('[torvyn]\nname = "\ud800"\n')

    assert str(caught.value.location) == "Torvyn.toml:2:9"


@given(st.text(alphabet="ab.=[]{}\"'#\n, 1-:${}\\é\t\r", max_size=40))
def test_any_text_is_a_manifest_or_a_complaint_with_a_place(text: str) -> None:
    problems = Problems()
    parse_leniently(text, problems, environ={})

    assert all(str(found.location).startswith("Torvyn.toml:") for found in problems.diagnostics())
