"""Dotted paths into JSON objects, and the errors for text that is not one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn import Element, InvalidInput
from torvyn.components.json_fields import (
    MISSING,
    get_field,
    parse_json,
    parse_object,
    pop_field,
    set_field,
    to_json_value,
    write_json,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_what_is_written_reads_back_the_same(value):
    assert parse_json(write_json(value)) == value


def test_a_lone_surrogate_is_written_as_an_escape():
    assert write_json(["\ud800"]) == '["\\ud800"]'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON: Expecting property name"),
        ("", "not valid JSON"),
        ("[1]", "expected a JSON object, not a list"),
        ("null", "not null"),
        ("true", "not a boolean"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
        ("x" * 500, "..."),
    ],
)
def test_what_is_not_a_json_object_is_the_elements_fault(text, message):
    with pytest.raises(InvalidInput) as caught:
        parse_object(Element(text))
    assert message in caught.value.message
    assert len(caught.value.message) < 300


def test_a_number_beyond_json_cannot_be_written():
    with pytest.raises(InvalidInput):
        write_json(float("inf"))


def test_a_path_finds_nested_fields():
    record = {"user": {"id": 7, "x.y": 1}, "a.b": 2}
    assert get_field(record, "user.id") == 7
    assert get_field(record, "a.b") == 2
    assert get_field(record, "user.name") is MISSING
    assert get_field(record, "user.id.x") is MISSING
    assert get_field([], "user") is MISSING


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join), st.integers())
def test_a_field_that_was_put_is_found_and_can_be_taken(path, value):
    record = {"a": 1, "b": {"a": {}}}
    set_field(record, path, value)
    assert get_field(record, path) == value
    assert pop_field(record, path) == value
    assert pop_field(record, path) is MISSING


def test_a_field_with_a_dot_in_its_own_name_is_met_first():
    record = {"a.b": 1, "a": {"b": 2}}
    set_field(record, "a.b", 3)
    assert record == {"a.b": 3, "a": {"b": 2}}
    assert pop_field(record, "a.b") == 3
    assert record == {"a": {"b": 2}}


def test_anything_becomes_plain():
    assert to_json_value({1: (float("-inf"), 1.5, {"a"})}) == {"1": [None, 1.5, "{'a'}"]}
