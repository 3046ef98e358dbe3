"""`batch` and `window`: what they send, when, and that nothing is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn import Element, InvalidInput
from torvyn.components import Batcher, Window
from torvyn.errors import ContractError

SECOND_NS = 1_000_000_000


def gathered(component, elements):
    answers = [component.ingest(element) for element in elements]
    flat = [one for answer in answers for one in (answer if isinstance(answer, list) else [answer])]
    return [output.data for output in [*flat, *component.flush()] if output is not None]


def texts(*items):
    return [Element(item) for item in items]


def at(second, text="1"):
    return Element(text, timestamp_ns=int(second * SECOND_NS))


def figures(component, elements):
    return [json.loads(data) for data in gathered(component, elements)]


def test_batch_joins_by_number_and_flushes_the_rest(start):
    assert gathered(start(Batcher, "2"), texts("a", "b", "c")) == ["a\nb", "c"]


def test_batch_joins_by_bytes_and_never_exceeds_them(start):
    component = start(Batcher, {"bytes": 4, "separator": "|"})
    assert gathered(component, texts("ab", "cde", "f", "toolong", "x")) == [
        "ab",
        "cde|f",
        "toolong",
        "x",
    ]


def test_batch_sends_two_at_once_when_one_element_closes_two(start):
    component = start(Batcher, {"bytes": 3})
    assert component.ingest(Element("a")) == []
    assert [output.data for output in component.ingest(Element("four"))] == ["a", "four"]
    assert component.flush() == []


def test_batch_makes_json_of_texts_and_keeps_json_as_it_is(start):
    component = start(Batcher, {"size": 2, "format": "json"})
    done = component.ingest(Element("a")) + component.ingest(
        Element('{"b": 1}', content_type="application/json")
    )
    assert [output.data for output in done] == ['["a",{"b":1}]']
    assert done[0].content_type == "application/json"


def test_batch_refuses_what_is_no_text_and_keeps_what_it_has(start):
    component = start(Batcher, "2")
    component.ingest(Element("a"))
    with pytest.raises(InvalidInput):
        component.ingest(Element(b"\xff"))
    assert [output.data for output in component.ingest(Element("b"))] == ["a\nb"]


def test_batch_needs_a_limit(start):
    with pytest.raises(ContractError, match="set `size`, `bytes` or `linger`"):
        start(Batcher)


@given(
    st.lists(st.text(st.characters(exclude_characters="|", exclude_categories=["Cs"]))),
    st.integers(0, 5),
    st.integers(0, 9),
)
def test_batch_loses_and_reorders_nothing(items, size, limit_bytes):
    component = Batcher()
    component.init({"size": size or 1, "bytes": limit_bytes, "separator": "|"})
    batches = gathered(component, texts(*items))
    assert [part for batch in batches for part in batch.split("|")] == items
    for batch in batches:
        parts = batch.split("|")
        assert len(parts) <= (size or 1)
        assert not limit_bytes or len(parts) == 1 or len("".join(parts).encode()) <= limit_bytes


def test_window_by_number(start):
    component = start(Window, {"size": 2, "function": "sum"})
    done = figures(component, [at(1, "1"), at(2, "2"), at(3, "3.5")])
    assert [(one["count"], one["value"]) for one in done] == [(2, 3), (1, 3.5)]


def test_window_by_time_starts_at_whole_multiples_and_leaves_empty_ones_out(start):
    component = start(Window, {"every": "10s", "time": "at"})
    elements = texts(*(f'{{"at": {second}}}' for second in (12, 19.9, 20, 45)))
    day = "1970-01-01T00:00:"
    assert figures(component, elements) == [
        {"start": f"{day}10Z", "end": f"{day}20Z", "count": 2, "value": 2},
        {"start": f"{day}20Z", "end": f"{day}30Z", "count": 1, "value": 1},
        {"start": f"{day}40Z", "end": f"{day}50Z", "count": 1, "value": 1},
    ]


def test_window_by_arrival_counts_an_older_element_in_the_open_window(start):
    component = start(Window, {"every": "1h"})
    now = component.now_ns() // SECOND_NS
    counts = [one["count"] for one in figures(component, [at(now), at(now + 7200), at(now + 1)])]
    assert counts == [1, 2]


@pytest.mark.parametrize(
    ("function", "value"),
    [("count", 3), ("sum", 2), ("mean", 2 / 3), ("min", -3), ("max", 4), ("last", 1)],
)
def test_window_functions(start, function, value):
    component = start(Window, {"size": 3, "function": function})
    assert figures(component, texts("4", "-3", "1"))[0]["value"] == value


def test_window_reads_a_field(start):
    component = start(Window, {"size": 2, "function": "max", "field": "r.t"})
    assert figures(component, texts('{"r": {"t": 1}}', '{"r": {"t": 2.5}}'))[0]["value"] == 2.5


def test_window_keeps_whole_numbers_exact(start):
    component = start(Window, {"size": 2, "function": "sum"})
    assert figures(component, texts(str(2**53), "1"))[0]["value"] == 2**53 + 1


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "1e301", "1_0", "9" * 400, "9" * 5000])
def test_window_refuses_what_is_no_usable_number_and_goes_on(start, text):
    component = start(Window, {"size": 2, "function": "mean"})
    component.ingest(Element("1"))
    with pytest.raises(InvalidInput):
        component.ingest(Element(text))
    (done,) = component.ingest(Element("3"))
    assert json.loads(done.data)["value"] == 2


@pytest.mark.parametrize("text", ["{}", '{"a": true}', '{"a": "1"}', "no json"])
def test_window_refuses_a_field_that_is_no_number(start, text):
    with pytest.raises(InvalidInput):
        start(Window, {"size": 2, "function": "sum", "field": "a"}).ingest(Element(text))


@pytest.mark.parametrize("config", ["", {"size": 1, "every": "1s"}])
def test_window_needs_one_measure(start, config):
    with pytest.raises(ContractError, match="either `size`, `every` or"):
        start(Window, config)
