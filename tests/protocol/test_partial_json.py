"""JSON as far as it has come: every prefix is consistent with the whole."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn.errors import InvalidInput
from torvyn.protocol import PartialJson

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def after(*pieces: str) -> Any:
    parser = PartialJson()
    for piece in pieces:
        parser.put(piece)
    return parser.value


def is_prefix(part: Any, whole: Any) -> bool:
    """Whether the whole could still become of the part."""
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_prefix, part, whole))
    if isinstance(part, dict) and isinstance(whole, dict):
        same_keys = list(part) == list(whole)[: len(part)]
        return same_keys and all(is_prefix(value, whole[key]) for key, value in part.items())
    return type(part) is type(whole) and part == whole


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_every_prefix_is_consistent_with_the_whole(
    value: Any, escaped: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=escaped, indent=indent)
    parser = PartialJson()

    for character in text:
        parser.put(character)
        assert parser.value is None or is_prefix(parser.value, value)
    assert parser.finish() == json.loads(text)


@given(VALUES, st.lists(st.integers(0, 100)))
def test_how_it_is_cut_does_not_matter(value: Any, cuts: list[int]) -> None:
    text = json.dumps(value)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    parser = PartialJson()

    for start, stop in pairwise(places):
        parser.put(text[start:stop])
    assert parser.finish() == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("{", {}),
        ('{"ci', {}),
        ('{"city"', {}),
        ('{"city":"Pa', {"city": "Pa"}),
        ('{"a":12', {}),
        ('{"a":12,', {"a": 12}),
        ('{"a":[true,fal', {"a": [True]}),
        ('["a","b', ["a", "b"]),
        ('["\\ud83d', [""]),
        ('["\\ud83d\\ude00', ["\U0001f600"]),
        ('["\\ud83dx', ["\ufffdx"]),
        ('{"a":1,"a":"x', {"a": "x"}),
    ],
)
def test_only_what_will_stay_is_shown(text: str, value: Any) -> None:
    assert after(*text) == value


def test_half_a_surrogate_pair_of_a_python_text_is_replaced() -> None:
    assert "\ufffd" in after('["\ud83d"]')[0]


def test_the_value_grows_in_place() -> None:
    parser = PartialJson()
    parser.put('{"a":["x')
    seen = parser.value

    parser.put('y","z"],"b":1}')
    assert seen == {"a": ["xy", "z"], "b": 1}
    assert parser.value is seen
    assert parser.is_complete


@pytest.mark.parametrize(
    "text",
    [
        "]", "{]", "[}", "[1,]", '{"a":1,}', "{1:2}", '{"a" 1}', "01 ", "1.", "+1", "nul ", "truth",
        "NaN", "[1 2]", '"\n"', '"\\x"', '"\\u12g4"', "{} x", "--1 ", "1e ", "'a'",
    ],
)  # fmt: skip
def test_what_is_not_json_is_refused_once_and_for_all(text: str) -> None:
    parser = PartialJson()

    for _ in range(2):
        with pytest.raises(InvalidInput) as caught:
            parser.put(text)
            parser.finish()
        assert caught.value.code == "protocol.bad-json"


@pytest.mark.parametrize("text", ["", "[", '{"a"', '"a', "tru", "-", '{"a":1'])
def test_what_ends_too_early_is_no_value(text: str) -> None:
    parser = PartialJson()
    parser.put(text)

    with pytest.raises(InvalidInput):
        parser.finish()


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(InvalidInput, match="more than 128 levels deep"):
        PartialJson().put("[" * 100_000)


def test_a_number_of_ten_thousand_digits_is_refused() -> None:
    with pytest.raises(InvalidInput):
        PartialJson().put("1" * 10_000 + " ")


def test_reading_is_linear() -> None:
    # Four times the text takes four times as long, not sixteen; ten leaves room for others.
    def spent(size: int) -> float:
        parser = PartialJson()
        start = time.process_time()
        parser.put('{"a":"')
        for _ in range(size):
            parser.put("word ")
        parser.put('"}')
        assert len(parser.finish()["a"]) == size * 5
        return time.process_time() - start

    assert min(spent(200_000) for _ in range(3)) < 10 * min(spent(50_000) for _ in range(3))
