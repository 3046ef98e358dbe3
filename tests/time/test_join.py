"""`join` against an oracle that compares every element of one input with every one of the other."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_oracle import shuffled

import torvyn
from torvyn import Element
from torvyn.components import Join
from torvyn.errors import ContractError
from torvyn.testing import CollectingSink, check_account

READINGS = st.lists(st.integers(0, 60), max_size=20)


def started(**config):
    component = Join()
    component.init({"time": "at", **config})
    return component


def put(component, side, second, **fields):
    component.input = side
    return component.ingest(Element(json.dumps({"at": second, "side": side, **fields})))


def second_of(record):
    return None if record is None else record["at"]


def pairs(outputs):
    """Pairs of seconds; an element that left through the port `unmatched` is alone."""
    found = Counter()
    for output in outputs:
        record = json.loads(output.data)
        if output.port is None:
            found[second_of(record["left"]), second_of(record["right"])] += 1
        else:
            found[output.port, record["side"], record["at"]] += 1
    return found


def expected(left, right, within, mode):
    found = Counter((a, b) for a in left for b in right if abs(a - b) <= within)
    for name, own, other in (("left", left, right), ("right", right, left)):
        for second in own:
            if any(abs(second - each) <= within for each in other):
                continue
            if mode in ("outer", name):
                found[(second, None) if name == "left" else (None, second)] += 1
            else:
                found["unmatched", name, second] += 1
    return found


@given(READINGS, READINGS, st.integers(1, 20), st.integers(0, 10), st.randoms(), st.data())
def test_the_pairs_are_those_of_a_batch(left, right, within, lateness, random, data):
    mode = data.draw(st.sampled_from(["inner", "left", "outer"]))
    component = started(within=within, lateness=lateness, mode=mode)
    streams = {
        name: [second for second, _ in shuffled([(s, 0) for s in seconds], lateness, random)]
        for name, seconds in (("left", left), ("right", right))
    }
    outputs = []
    order = ["left"] * len(left) + ["right"] * len(right)
    random.shuffle(order)
    for name in order:
        outputs += put(component, name, streams[name].pop(0))
        if data.draw(st.booleans()):
            state = json.loads(json.dumps(component.snapshot()))
            component = started(within=within, lateness=lateness, mode=mode)
            component.restore(state)
    outputs += component.flush()
    assert pairs(outputs) == expected(left, right, within, mode)


def test_an_element_stops_waiting_when_the_other_input_has_passed_it():
    component = started(within=5)
    assert put(component, "left", 10) == []
    assert put(component, "right", 16)[0].port == "unmatched"
    assert component.counts["unmatched"] == 1


def test_an_element_older_than_the_lateness_allows_is_late():
    component = started(within=5, lateness=2)
    put(component, "left", 10)
    assert put(component, "left", 8) == []
    (late,) = put(component, "left", 7)
    assert (late.port, component.counts["late"]) == ("late", 1)


def test_the_number_of_waiting_elements_is_limited():
    component = started(within=1000, max_waiting=3)
    outputs = [output for second in range(10) for output in put(component, "left", second)]
    assert [json.loads(output.data)["at"] for output in outputs] == list(range(7))
    assert component.counts["overflowed"] == 7
    assert component.held_bytes < 3 * 300


def test_within_is_needed():
    with pytest.raises(ContractError, match="`within` must be greater than 0"):
        Join().init({"within": 0})


def test_a_join_in_a_flow_pairs_two_sources_by_key():
    def readings(name):
        return [json.dumps({"m": m, "at": s, name: s}) for s in range(0, 50, 10) for m in "ab"]

    sink = CollectingSink()
    flow = torvyn.Flow().add("heat", readings("celsius")).add("power", readings("watts"))
    flow.add("pairs", "join", key="m", config={"within": "1s", "time": "at"}).add("sink", sink)
    flow.connect("heat", "pairs:left").connect("power", "pairs:right").connect("pairs", "sink")
    flow.run()
    check_account(flow.statistics)
    records = [json.loads(text) for text in sink.texts]
    assert len(records) == 10
    assert all(one["left"]["m"] == one["right"]["m"] == one["key"] for one in records)
    assert all(one["left"]["celsius"] == one["right"]["watts"] for one in records)
