"""`json-map` renames, picks, drops and sets fields; `by-field` routes by a field."""

import json

import pytest

from torvyn import Element, InvalidInput
from torvyn.components import ByField, JsonMap
from torvyn.errors import ContractError

ROUTES = {"field": "type", "routes": {"metric": "metrics", "log": "logs", "1": "ones"}}


def mapped(component, record):
    return json.loads(component.process(Element(json.dumps(record))).data)


@pytest.mark.parametrize(
    ("options", "record", "result"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"rename": {"b": "a"}}, {"a": 1, "c": 2}, {"b": 1, "c": 2}),
        ({"rename": {"a": "b", "b": "a"}}, {"a": 1, "b": 2}, {"a": 2, "b": 1}),
        ({"rename": {"b": "a", "c": "a"}}, {"a": 1}, {"b": 1, "c": 1}),
        (
            {"rename": {"t": "r.t", "x.y": "z"}},
            {"r": {"t": 1}, "z": 2},
            {"r": {}, "t": 1, "x": {"y": 2}},
        ),
        ({"rename": {"b": "absent"}}, {"a": 1}, {"a": 1}),
        (
            {"pick": ["a", "u.id", "n"]},
            {"a": 1, "u": {"id": 2, "x": 3}, "b": 4},
            {"a": 1, "u": {"id": 2}},
        ),
        ({"pick": ["a.b"]}, {"a.b": 1, "a": {"b": 2}}, {"a.b": 1}),
        ({"drop": ["a", "u.x", "n.n"]}, {"a": 1, "u": {"x": 3}}, {"u": {}}),
        ({"set": {"a": 2, "u.id": None}}, {"a": 1}, {"a": 2, "u": {"id": None}}),
        (
            {"rename": {"b": "a"}, "pick": ["b"], "set": {"c": 1}},
            {"a": 0, "z": 0},
            {"b": 0, "c": 1},
        ),
    ],
)
def test_json_map_does_its_steps_in_order(start, options, record, result):
    assert mapped(start(JsonMap, options), record) == result


def test_json_map_answers_compact_json_with_its_content_type(start):
    output = start(JsonMap).process(Element('{ "a" : [1, "é"] }'))
    assert output.data == '{"a":[1,"é"]}'
    assert output.content_type == "application/json"
    assert output.attributes is None


def test_json_map_keeps_nothing_of_one_element_for_the_next(start):
    component = start(JsonMap, {"set": {"a": {}, "a.b": 1}})
    assert mapped(component, {}) == mapped(component, {}) == {"a": {"b": 1}}
    assert component._set == {"a": {}, "a.b": 1}


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '{"a": 1e999}', '{"a": Infinity}'])
def test_json_map_refuses_what_is_not_an_object(start, text):
    with pytest.raises(InvalidInput):
        start(JsonMap).process(Element(text))


def test_json_map_refuses_bytes_that_are_no_text(start):
    with pytest.raises(InvalidInput):
        start(JsonMap).process(Element(b"\xff"))


@pytest.mark.parametrize(
    ("record", "ports"),
    [
        ({"type": "metric"}, ("metrics",)),
        ({"type": "log"}, ("logs",)),
        ({"type": 1}, ("ones",)),
        ({"type": "1"}, ("ones",)),
        ({"type": True}, ()),
        ({"type": {"a": 1}}, ()),
        ({}, ()),
    ],
)
def test_by_field_follows_the_value(start, record, ports):
    assert start(ByField, ROUTES).route(Element(json.dumps(record))) == ports


def test_by_field_sends_the_rest_to_the_default_port(start):
    component = start(ByField, {**ROUTES, "default": "other"})
    assert component.route(Element('{"type": "x"}')) == ("other",)
    assert component.route(Element("{}")) == ("other",)


def test_by_field_reaches_nested_fields_and_spells_values_as_json_does(start):
    component = start(ByField, {"field": "a.b", "routes": {"true": "yes", "null": "none"}})
    assert component.route(Element('{"a": {"b": true}}')) == ("yes",)
    assert component.route(Element('{"a": {"b": null}}')) == ("none",)


def test_by_field_can_look_at_an_attribute_without_reading_the_payload(start):
    component = start(ByField, {"field": "attribute:kind", "routes": {"text": "t", "7": "seven"}})
    assert component.route(Element(b"\xff", attributes={"kind": "text"})) == ("t",)
    assert component.route(Element("", attributes={"kind": 7})) == ("seven",)
    assert component.route(Element("", attributes={"kind": object()})) == ()
    assert component.route(Element("")) == ()


def test_by_field_refuses_what_is_not_an_object(start):
    with pytest.raises(InvalidInput):
        start(ByField, ROUTES).route(Element("plain"))


def test_by_field_knows_its_ports_before_it_is_started():
    config = {**ROUTES, "default": "logs"}
    assert ByField.ports_for(json.dumps(config)) == ("logs", "metrics", "ones")
    assert ByField(config).ports == ("logs", "metrics", "ones")


def test_by_field_takes_its_ports_from_the_config_it_was_started_with():
    component = ByField()
    component.init(json.dumps(ROUTES))
    assert component.ports == ("logs", "metrics", "ones")


def test_by_field_keeps_declared_ports_in_their_order():
    ports = ["ones", "metrics", "logs", "spare"]
    assert ByField.ports_for({**ROUTES, "ports": ports}) == tuple(ports)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**ROUTES, "ports": ["metrics", "ones"]}, "the port `logs` is not one of `ports`"),
        ({"field": "a"}, "it has no ports"),
        ({"routes": {"a": "b"}}, "the option `field` is missing"),
        ("type", "its config must be a table"),
    ],
)
def test_by_field_explains_a_config_that_leads_nowhere(config, message):
    with pytest.raises(ContractError) as caught:
        ByField.ports_for(config)
    assert message in caught.value.message
