"""`window` against a slow oracle: random streams out of order, restarts, every kind of window."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_oracle import COMPUTE, fixed, reading, rendered, sent, sessions, shuffled

from torvyn import Element, InvalidInput
from torvyn.components import Window
from torvyn.errors import ContractError

READINGS = st.lists(st.tuples(st.integers(0, 300), st.integers(-9, 9)), max_size=60)
LATENESS = st.integers(0, 40)
RANDOM = st.randoms(use_true_random=False)


def window(**config):
    component = Window()
    component.init(
        {"time": "at", **({} if "function" in config else {"compute": COMPUTE}), **config}
    )
    return component


def elements(readings):
    return [reading(second, value) for second, value in readings]


@given(READINGS, LATENESS, RANDOM, st.integers(1, 30))
def test_tumbling_windows_are_those_of_a_batch(readings, lateness, random, every):
    stream = elements(shuffled(readings, lateness, random))
    got = sent(window(every=every, lateness=lateness), stream)
    assert got == rendered(fixed(readings, every, every))


@given(READINGS, LATENESS, RANDOM, st.integers(1, 12), st.integers(1, 5))
def test_sliding_windows_are_those_of_a_batch(readings, lateness, random, slide, times):
    stream = elements(shuffled(readings, lateness, random))
    got = sent(window(every=slide * times, slide=slide, lateness=lateness), stream)
    assert got == rendered(fixed(readings, slide * times, slide))


@given(READINGS, LATENESS, RANDOM, st.integers(2, 20), st.integers(1, 20))
def test_the_slide_need_not_divide_the_length(readings, lateness, random, every, slide):
    slide = min(slide, every)
    stream = elements(shuffled(readings, lateness, random))
    got = sent(window(every=every, slide=slide, lateness=lateness), stream)
    assert got == rendered(fixed(readings, every, slide))


@given(READINGS, LATENESS, RANDOM, st.integers(1, 20))
def test_sessions_are_those_of_a_batch(readings, lateness, random, gap):
    stream = elements(shuffled(readings, lateness, random))
    got = sent(window(session=gap, lateness=lateness), stream)
    assert got == rendered(sessions(readings, gap))


@given(READINGS, RANDOM, st.data())
def test_a_restart_anywhere_changes_nothing(readings, random, data):
    config = data.draw(
        st.sampled_from([{"every": 7}, {"every": 9, "slide": 3}, {"session": 5}, {"size": 4}])
    )
    stream = elements(shuffled(readings, 20, random))
    cut = data.draw(st.integers(0, len(stream)))
    first, second = window(lateness=10, **config), window(lateness=10, **config)
    before = [output.data for element in stream[:cut] for output in first.ingest(element)]
    second.restore(json.loads(json.dumps(first.snapshot())))
    after = [output.data for element in stream[cut:] for output in second.ingest(element)]
    whole = window(lateness=10, **config)
    expected = [output.data for element in stream for output in whole.ingest(element)]
    assert before + after == expected
    assert [o.data for o in second.flush()] == [o.data for o in whole.flush()]
    assert first.counts["late"] + second.counts["late"] == whole.counts["late"]


@given(READINGS, st.integers(1, 20))
def test_every_element_is_in_a_window_or_late(readings, every):
    component = window(every=every)
    counted = sum(one["count"] for one in sent(component, elements(readings)))
    assert counted + component.counts["late"] == len(readings)


def test_a_window_closes_when_a_later_element_passes_its_end_and_the_lateness():
    component = window(every=10, lateness=5)
    assert [len(component.ingest(reading(second, 1))) for second in (3, 12, 14, 2, 15)] == [
        0
    ] * 4 + [1]


def test_late_elements_leave_through_their_port_unchanged():
    component = window(every=10)
    component.ingest(reading(25, 1))
    late = Element('{"at": 3, "v": 2}', content_type="application/json", attributes={"n": 1})
    (output,) = component.ingest(late)
    assert (output.data, output.port, output.content_type) == (late.text, "late", late.content_type)
    assert output.attributes == {"n": 1, "set_aside": "late"}
    assert component.counts == {"late": 1, "future": 0}


def test_all_functions_at_once():
    compute = {
        name: f"{name}(v)" for name in ("sum", "mean", "min", "max", "first", "last", "list", "p50")
    }
    component = window(every=10, compute={**compute, "seen": "count(v)", "all": "count"})
    stream = [reading(2, 4), reading(1, -1), reading(3, None), reading(4, 6)]
    (got,) = sent(component, stream)
    assert {name: got[name] for name in compute} == {
        **{"sum": 9, "mean": 3, "min": -1, "max": 6, "first": -1, "last": 6},
        **{"list": [4, -1, 6], "p50": 4},
    }
    assert (got["seen"], got["all"], got["count"]) == (3, 4, 4)


def test_first_and_last_take_any_value_and_numbers_must_be_numbers():
    component = window(every=10, compute={"state": "last(state)", "v": "sum(v)"})
    (got,) = sent(component, [reading(1, 1, state="on"), reading(2, 1, state="off")])
    assert got["state"] == "off"
    with pytest.raises(InvalidInput, match="the field `v` is not a number"):
        component.ingest(reading(3, "x"))


def test_a_value_that_no_element_has_is_null():
    (got,) = sent(window(every=10, compute={"m": "mean(x)", "s": "sum(x)"}), [reading(1, 1)])
    assert (got["m"], got["s"], got["count"]) == (None, None, 1)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"every": 1, "session": 1}, "set either `size`, `every` or `session`"),
        ({"slide": 1, "size": 1}, "`slide` needs `every`"),
        ({"every": 1, "slide": 2}, "`slide` is longer than `every`"),
        ({"size": 1, "compute": {"m": "median(x)"}}, "no function `median`"),
        ({"size": 1, "compute": {"m": "mean x"}}, "write a function of a field"),
        ({"size": 1, "compute": {"end": "mean(x)"}}, "`compute` cannot set `end`"),
        ({"size": 1, "compute": {"m": "sum(x)"}, "field": "x"}, "either `compute` or `function`"),
    ],
)
def test_options_that_do_not_fit_together_are_reported(config, message):
    with pytest.raises(ContractError, match=message):
        Window().init(config)
