"""`batch` and `window`: what they send, when, and that nothing is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn import Element, InvalidInput
from torvyn.components.builtin.aggregator_batch import Batch
from torvyn.components.builtin.aggregator_window import Window
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
    assert gathered(start(Batch, "2"), texts("a", "b", "c")) == ["a\nb", "c"]


def test_batch_joins_by_bytes_and_never_exceeds_them(start):
    component = start(Batch, {"bytes": 4, "separator": "|"})
    assert gathered(component, texts("ab", "cde", "f", "toolong", "x")) == [
        "ab",
        "cde|f",
        "toolong",
        "x",
    ]


def test_batch_sends_two_at_once_when_one_element_closes_two(start):
    component = start(Batch, {"bytes": 3})
    assert component.ingest(Element("a")) == []
    assert [output.data for output in component.ingest(Element("four"))] == ["a", "four"]
    assert component.flush() == []


def test_batch_makes_json_of_texts_and_keeps_json_as_it_is(start):
    component = start(Batch, {"size": 2, "format": "json"})
    done = component.ingest(Element("a")) + component.ingest(
        Element('{"b": 1}', content_type="application/json")
    )
    assert [output.data for output in done] == ['["a",{"b":1}]']
    assert done[0].content_type == "application/json"


def test_batch_refuses_what_is_no_text_and_keeps_what_it_has(start):
    component = start(Batch, "2")
    component.ingest(Element("a"))
    with pytest.raises(InvalidInput):
        component.ingest(Element(b"\xff"))
    assert [output.data for output in component.ingest(Element("b"))] == ["a\nb"]


def test_batch_needs_a_limit(start):
    with pytest.raises(ContractError, match="set `size`, `bytes` or `linger`"):
        start(Batch)


@given(
    st.lists(st.text(st.characters(exclude_characters="|", exclude_categories=["Cs"]))),
    st.integers(0, 5),
    st.integers(0, 9),
)
def test_batch_loses_and_reorders_nothing(items, size, limit_bytes):
    component = Batch()
    component.init({"size": size or 1, "bytes": limit_bytes, "separator": "|"})
    batches = gathered(component, texts(*items))
    assert [part for batch in batches for part in batch.split("|")] == items
    for batch in batches:
        parts = batch.split("|")
        assert len(parts) <= (size or 1)
        assert not limit_bytes or len(parts) == 1 or len("".join(parts).encode()) <= limit_bytes


def test_window_by_number(start):
    component = start(Window, {"size": 2, "function": "sum"})
    assert figures(component, [at(1, "1"), at(2, "2"), at(3, "3.5")]) == [
        {"start": SECOND_NS, "end": 2 * SECOND_NS, "count": 2, "value": 3},
        {"start": 3 * SECOND_NS, "end": 3 * SECOND_NS, "count": 1, "value": 3.5},
    ]


def test_window_by_time_starts_at_whole_multiples_and_leaves_empty_ones_out(start):
    component = start(Window, {"every": "10s"})
    assert figures(component, [at(12), at(19.9), at(20), at(45)]) == [
        {"start": 10 * SECOND_NS, "end": 20 * SECOND_NS, "count": 2, "value": 2},
        {"start": 20 * SECOND_NS, "end": 30 * SECOND_NS, "count": 1, "value": 1},
        {"start": 40 * SECOND_NS, "end": 50 * SECOND_NS, "count": 1, "value": 1},
    ]


def test_window_counts_a_late_element_in_the_open_window(start):
    component = start(Window, {"every": "10s"})
    assert [one["count"] for one in figures(component, [at(12), at(25), at(13)])] == [1, 2]


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
    assert json.loads(component.ingest(Element("3")).data)["value"] == 2


@pytest.mark.parametrize("text", ["{}", '{"a": true}', '{"a": "1"}', "no json"])
def test_window_refuses_a_field_that_is_no_number(start, text):
    with pytest.raises(InvalidInput):
        start(Window, {"size": 2, "function": "sum", "field": "a"}).ingest(Element(text))


@pytest.mark.parametrize("config", ["", {"size": 1, "every": "1s"}])
def test_window_needs_one_measure(start, config):
    with pytest.raises(ContractError, match="either `size` or `every`"):
        start(Window, config)


@given(st.lists(st.integers(0, 100)), st.integers(1, 20))
def test_window_counts_every_element_once(seconds, every_s):
    component = Window()
    component.init({"every": every_s})
    done = figures(component, [at(second) for second in seconds])
    assert sum(one["count"] for one in done) == len(seconds)
    assert all(one["end"] - one["start"] == every_s * SECOND_NS for one in done)
