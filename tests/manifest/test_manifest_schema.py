"""The JSON Schema and the reference say what the parser does."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import is_typeddict

import jsonschema
import pytest

from torvyn._contract.options import PolicyOptions
from torvyn._manifest import records
from torvyn._manifest.json_schema import json_schema
from torvyn._manifest.parse import parse
from torvyn._manifest.records import PortRef
from torvyn._manifest.render import render
from torvyn._manifest.schema import Record, Table, key_field
from torvyn._manifest.setting_records import RuntimeRecord
from torvyn._manifest.settings import resolve
from torvyn.errors import ManifestError

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference" / "manifest.md"
EXAMPLE = ROOT / "examples" / "token-streaming" / "Torvyn.toml"
HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'

RIGHT = [
    '[flow.a]\ndeadline = "5s"\n',
    '[flow.a]\non_error = { policy = "retry", max = 2 }\n',
    '[flow.a]\nbackpressure = "block-producer"\n',
    '[flow.a]\ndeadline = "${D}"\n',
    "[flow.a]\n[runtime]\nworker_threads = 2\n",
    '[flow.a.nodes.x]\ncomponent = "c"\nconfig = { a = [1] }\n',
    '[flow.a.nodes.x]\ncomponent = "c"\nplace = { cpus = 0.5, resources = { camera = 1 } }\n',
    '[[flow.a.edges]]\nfrom = "x"\nto = { node = "y" }\n',
]
WRONG = [
    "",
    '[flow.a]\ndeadlin = "5s"\n',
    '[flow.a]\ndeadline = "5 parsecs"\n',
    "[flow.a]\nqueue_depth = 0\n",
    '[flow.a]\npriority = "urgent"\n',
    "[flow.a.nodes.x]\n",
    '[flow.a.nodes.x]\ncomponent = "c"\nplace = 2\n',
    '[flow.a.nodes.x]\ncomponent = "c"\nplace = { replica = 2 }\n',
    '[flow.a.nodes.x]\ncomponent = "c"\nplace = { replicas = 0 }\n',
    '[flow.a.nodes.x]\ncomponent = "c"\nplace = { resources = { camera = "1" } }\n',
    '[[flow.a.edges]]\nfrom = "x"\n',
    '[flow."a b"]\n',
    "[flow.a]\n[serve]\nport = true\n",
]


def validate(text: str) -> None:
    jsonschema.Draft202012Validator(json_schema()).validate(tomllib.loads(text))


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_the_schema_takes_the_example() -> None:
    validate(EXAMPLE.read_text())


@pytest.mark.parametrize("body", RIGHT)
def test_parser_and_schema_both_take_what_is_right(body: str) -> None:
    validate(HEAD + body)
    parse(HEAD + body, environ={"D": "1s"})


@pytest.mark.parametrize("body", WRONG)
def test_parser_and_schema_both_refuse_what_is_wrong(body: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate(HEAD + body)
    with pytest.raises(ManifestError):
        parse(HEAD + body)


def attributes(record: type) -> set[str]:
    if record is PortRef:
        return set(PortRef._fields)
    if is_typeddict(record):
        return set(record.__annotations__)
    if record is dict:
        return set(PolicyOptions.__annotations__)
    return {field.name for field in fields(record)} - {field.name for field in fields(Record)}


@pytest.mark.parametrize("table", records.ALL, ids=lambda table: table.header)
def test_a_record_has_a_field_for_every_key_of_its_table(table: records.Table) -> None:
    own = attributes(table.record)
    keys = {key.attribute for key in table.keys}

    assert keys | set(table.tables) == own - {"name"} | (keys & {"name"})


@dataclass(slots=True, kw_only=True)
class LongerRecord(RuntimeRecord):
    nap_time_s: float | None = key_field("duration", "How long a nap is.", default=60.0)


@pytest.fixture
def _a_new_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the author of a setting writes: one field of its record."""
    table = Table.of(LongerRecord, "[runtime]", "Limits.")
    monkeypatch.setitem(records.SETTINGS, "runtime", table)


@pytest.mark.usefixtures("_a_new_setting")
def test_a_new_setting_is_one_field_of_its_record() -> None:
    manifest = parse(HEAD + '[flow.a]\n[runtime]\nnap_time = "2m"\n', environ={})

    assert manifest.runtime == LongerRecord(nap_time_s=120.0)
    assert 'nap_time = "2m"' in render(manifest)
    assert resolve(manifest, environ={})["runtime.nap_time"] == 120
    assert resolve(environ={"TORVYN_RUNTIME__NAP_TIME": "5s"})["runtime.nap_time"] == 5
    schema = json_schema()["properties"]["runtime"]["properties"]["nap_time"]
    assert (schema["description"], schema["default"]) == ("How long a nap is.", "1m")


@pytest.mark.usefixtures("_a_new_setting")
def test_mistakes_in_a_new_setting_get_hints() -> None:
    with pytest.raises(ManifestError, match="`soon` is not a duration"):
        parse(HEAD + '[flow.a]\n[runtime]\nnap_time = "soon"\n')
    with pytest.raises(ManifestError) as caught:
        parse(HEAD + '[flow.a]\n[runtime]\nnap_tim = "1s"\n')
    assert caught.value.hint == "did you mean `nap_time`?"


def test_records_share_a_key_and_say_what_differs() -> None:
    of_flow, of_edge = records.FLOW.by_name["queue_depth"], records.EDGE.by_name["queue_depth"]

    assert of_edge == replace(of_flow, default_doc="the flow's")


def test_the_reference_has_a_row_for_every_key() -> None:
    page = REFERENCE.read_text()

    for table in records.ALL:
        assert f"## `{table.header}`" in page
        for key in table.keys:
            assert f"| `{key.name}` |" in page


def test_the_reference_shows_defaults_as_they_are_written() -> None:
    page = REFERENCE.read_text()

    assert "| `turn_time` | duration | `100us` | Time per turn. |" in page
    assert "| `queue_bytes` | size | `1MiB` |" in page
