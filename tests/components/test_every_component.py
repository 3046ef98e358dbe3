"""Laws that hold for every built-in component: its spec, its names, its role, its native form."""

import importlib
import json
import pathlib
import tomllib

import pytest

from torvyn._contract.roles import METHODS, ROLES
from torvyn.components import Blocklist, Null, Sentence, builtin
from torvyn.components.builtin.source_scripted import DEFAULT_TOKENS, Scripted
from torvyn.components.config import config_text, parse_config
from torvyn.components.spec import KINDS
from torvyn.errors import ContractError

FOLDER = pathlib.Path(builtin.__file__).parent
FILES = sorted(path.stem for path in FOLDER.glob("*_*.py") if path.stem.partition("_")[0] in ROLES)
EXPECTED = {
    "source_csv": "Csv",
    "source_lines": "Lines",
    "source_nats": "Nats",
    "source_http": "Http",
    "source_mqtt": "Mqtt",
    "source_modbus": "Modbus",
    "source_serial": "Serial",
    "source_opcua": "OpcUa",
    "source_scripted": "Scripted",
    "source_sqlite": "SQLite",
    "source_tail": "Tail",
    "source_tcp": "Tcp",
    "source_udp": "Udp",
    "source_timer": "Timer",
    "filter_blocklist": "Blocklist",
    "filter_pattern": "Pattern",
    "filter_rate_limit": "RateLimit",
    "filter_redact": "Redact",
    "processor_json_map": "JsonMap",
    "router_by_field": "ByField",
    "aggregator_sentence": "Sentence",
    "aggregator_batch": "Batcher",
    "aggregator_window": "Window",
    "aggregator_join": "Join",
    "sink_console": "Console",
    "sink_csv": "Csv",
    "sink_http": "Http",
    "sink_mqtt": "Mqtt",
    "sink_sqlite": "SQLite",
    "sink_tcp": "Tcp",
    "sink_udp": "Udp",
    "sink_file": "File",
    "sink_nats": "Nats",
    "sink_modbus": "Modbus",
    "sink_serial": "Serial",
    "sink_null": "Null",
    "sink_response": "ResponseSink",
    "sink_collect": "Collect",
}


def load(stem):
    module = importlib.import_module(f"torvyn.components.builtin.{stem}")
    return module, getattr(module, EXPECTED[stem])


def test_there_is_a_file_for_each_component():
    assert set(FILES) == set(EXPECTED)


@pytest.mark.parametrize("stem", FILES)
def test_file_spec_and_class_agree_on_name_and_role(stem):
    module, cls = load(stem)
    spec = module.SPEC
    role, _, name = stem.partition("_")
    assert (spec.role, spec.name) == (role, name.replace("_", "-"))
    assert cls.spec is spec
    assert issubclass(cls, ROLES[role])
    assert getattr(cls, METHODS[role]) is not getattr(ROLES[role], METHODS[role])
    assert module.__doc__.startswith(f"`{spec.name}`")


@pytest.mark.parametrize("stem", FILES)
def test_options_are_documented_and_their_defaults_are_of_their_kind(stem):
    spec = load(stem)[0].SPEC
    names = [option.name for option in spec.options]
    assert len(set(names)) == len(names)
    assert spec.main is None or spec.main in names
    for option in spec.options:
        assert option.kind in KINDS
        assert option.doc.endswith((".", "`."))
        assert (option.default is None) is option.required
    given = {option.name: option.default for option in spec.options if not option.required}
    required = {
        option.name: "1s" if option.kind == "duration" else "1"
        for option in spec.options
        if option.required
    }
    assert parse_config(spec, {**given, **required}) == parse_config(spec, required)


@pytest.mark.parametrize("stem", FILES)
def test_the_example_is_a_node_whose_config_is_valid(stem):
    spec = load(stem)[0].SPEC
    (node,) = tomllib.loads(spec.example)["flow"]["main"]["nodes"].values()
    assert node["component"] == spec.name
    values = parse_config(spec, config_text(node.get("config")))
    assert set(values) == {option.name for option in spec.options}


@pytest.mark.parametrize("stem", FILES)
def test_making_a_component_only_stores_its_config(stem):
    component = load(stem)[1]({"nonsense": 1})
    assert component.config == {"nonsense": 1}
    with pytest.raises(ContractError):
        component.init(json.dumps(component.config))


@pytest.mark.parametrize("stem", FILES)
def test_teardown_without_init_is_harmless(stem):
    load(stem)[1]().teardown()


@pytest.mark.parametrize(
    ("cls", "config", "stage"),
    [
        (Scripted, "", ("scripted", {"tokens": list(DEFAULT_TOKENS), "repeat": 1})),
        (
            Scripted,
            {"tokens": ["a"], "repeat": 2, "delay": 0},
            ("scripted", {"tokens": ["a"], "repeat": 2}),
        ),
        (Blocklist, "a, B", ("blocklist", {"words": ["a", "B"]})),
        (
            Sentence,
            {"mode": "simple", "max": 9, "idle_flush": "50ms"},
            (
                "sentence",
                {
                    "mode": "simple",
                    "language": "auto",
                    "first_min": 0,
                    "min": 0,
                    "max": 9,
                    "idle_flush_s": 0.05,
                },
            ),
        ),
        (Null, "", ("null", {})),
    ],
)
def test_the_native_form_has_the_same_options(cls, config, stage):
    assert cls().native_stage(config_text(config)) == stage


def test_scripted_with_a_delay_runs_in_python():
    assert Scripted().native_stage('{"delay": "1ms"}') is None


@pytest.mark.parametrize("cls", [Scripted, Blocklist, Sentence, Null])
def test_a_subclass_runs_in_python(cls):
    assert type("Own", (cls,), {})().native_stage("") is None


@pytest.mark.parametrize("cls", [Scripted, Blocklist, Sentence, Null])
def test_a_wrong_config_is_found_before_the_native_form_is_made(cls):
    with pytest.raises(ContractError):
        cls().native_stage('{"nonsense": 1}')
