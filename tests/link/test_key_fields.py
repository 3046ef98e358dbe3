"""The key of an element: how a Plan keeps it, and how it is read."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from flow_records import plan
from hypothesis import given, settings
from hypothesis import strategies as st

from torvyn import Element, InvalidInput
from torvyn._link.key_reader import key_reader
from torvyn._manifest.records import NodeRecord
from torvyn._native import text_field
from torvyn.components.json_fields import parse_object


def upper_text(element: Element) -> str:
    return element.text.upper()


_SIMPLE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_VALUES = _SIMPLE | st.lists(_SIMPLE, max_size=2) | st.dictionaries(st.text(), _SIMPLE, max_size=2)
_OBJECTS = st.dictionaries(st.sampled_from(["s", "t", "ü", 'a"b']) | st.text(), _VALUES, max_size=4)


@st.composite
def _nearly_json(draw: st.DrawFn) -> str:
    """An object, in one of many spellings, and sometimes damaged."""
    text = json.dumps(
        draw(_OBJECTS), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1]))
    )
    if draw(st.booleans()):
        return text
    at = draw(st.integers(0, len(text)))
    damage = draw(
        st.sampled_from(["", '"s"', ',"s":"x"', "\\", "\n", "\x00", "}", "0", "NaN", "1e"])
    )
    return text[:at] + damage + text[at + draw(st.integers(0, 2)) :]


@settings(max_examples=300)
@given(_nearly_json(), st.sampled_from(["s", "t", "ü", 'a"b', ""]))
def test_a_key_is_read_as_a_parser_would_read_it(text: str, key: str) -> None:
    """Native code may find it without one."""

    def outcome(read: Callable[[Element], str]) -> str | None:
        try:
            return read(Element(text))
        except InvalidInput:
            return None

    found = text_field(Element(text), key)
    parsed = outcome(key_reader(lambda element: parse_object(element).get(key)))
    assert found in (None, parsed)
    assert outcome(key_reader(key)) == parsed


@pytest.mark.parametrize("key", ["sensor", "device.id", "attribute:tenant", upper_text])
def test_a_plan_keeps_the_key_as_it_was_written_and_can_be_pickled(key: Any) -> None:
    window = {"every": "1h", "time": "at"}
    node = NodeRecord("means", "window", config=window, key=key)
    made = plan(
        {
            "in": NodeRecord("in", "lines", config={"path": "x"}),
            "means": node,
            "out": NodeRecord("out", "null"),
        },
        ["in > means", "means > out"],
    )

    copied = pickle.loads(pickle.dumps(made))

    assert copied == made
    assert copied.node("means").key == key
