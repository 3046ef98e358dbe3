"""`key` on a node: one component per key, limits, timers, snapshots."""

import json

import pytest
from fed_source import Fed
from hypothesis import given
from hypothesis import strategies as st
from window_oracle import COMPUTE, fixed, rendered

import torvyn
from torvyn import Aggregator, Processor
from torvyn._cli.statistics import statistics_tables
from torvyn._link.key_reader import key_reader
from torvyn.components import Window
from torvyn.components.keys.keyed_components import KeyedComponents
from torvyn.components.keys.keyed_roles import KeyedAggregator
from torvyn.errors import ComponentError, LinkError
from torvyn.testing import Clock, CollectingSink, check_account, idle, run_flow


def reading(sensor, **fields):
    return json.dumps({"sensor": sensor, **fields})


class Counter(Processor):
    """Numbers the elements that it receives."""

    def init(self, config):
        self.seen = 0

    def process(self, element):
        self.seen += 1
        return f"{self.key} {self.seen}"

    def flush(self):
        return [f"{self.key} had {self.seen}"]

    def snapshot(self):
        return self.seen.to_bytes(4, "big")

    def restore(self, state):
        self.seen = int.from_bytes(state, "big")


def keyed_run(items, component, key="sensor", **options):
    sink = CollectingSink()
    flow = torvyn.Flow().add("source", items).add("keyed", component, key=key, **options)
    flow.add("sink", sink).connect("source", "keyed").connect("keyed", "sink").run()
    check_account(flow.statistics)
    return flow, sink.texts


def test_each_key_has_its_own_state():
    items = [reading(sensor) for sensor in ("a", "b", "a", "c", "a")]
    _, texts = keyed_run(items, Counter())
    assert texts[:5] == ["a 1", "b 1", "a 2", "c 1", "a 3"]
    assert sorted(texts[5:]) == ["a had 3", "b had 1", "c had 1"]


@pytest.mark.parametrize(
    ("key", "item", "expected"),
    [
        ("place.room", '{"place": {"room": "attic"}}', "attic 1"),
        ("n", '{"n": 7}', "7 1"),
        ("n", '{"n": true}', "true 1"),
        ("attribute:topic", torvyn.Output("x", attributes={"topic": "t/1"}), "t/1 1"),
        (lambda element: element.text[0], "xyz", "x 1"),
    ],
)
def test_a_key_is_a_field_an_attribute_or_a_function(key, item, expected):
    assert keyed_run([item], Counter(), key)[1][0] == expected


def test_a_keyed_component_may_run_on_a_thread():
    items = [reading(sensor) for sensor in ("a", "b", "a")]
    assert keyed_run(items, Counter(), run="thread")[1][:3] == ["a 1", "b 1", "a 2"]


def test_a_failed_element_leaves_the_state_of_its_key():
    class Picky(Counter):
        def process(self, element):
            if "bad" in element.text:
                raise torvyn.InvalidInput("bad")
            return super().process(element)

    items = [reading("a"), reading("a", bad=1), "{}", reading("a")]
    flow, texts = keyed_run(items, Picky(), on_error="skip")
    assert texts == ["a 1", "a 2", "a had 2"]
    assert flow.statistics.nodes["keyed"].failed == 2


def test_the_summary_shows_what_a_component_counts():
    items = [reading("a", at=1000), reading("a", at=10)]
    flow, _ = keyed_run(items, Window({"every": "10s", "time": "at"}))
    rows = [line.split() for line in statistics_tables(flow.statistics).splitlines()]
    assert ["keyed", "late", "1"] in rows


def test_an_element_without_its_key_fails():
    with pytest.raises(ComponentError, match="the key field `sensor` is missing"):
        keyed_run(["{}"], Counter())


def test_beyond_max_keys_the_least_recently_used_key_is_flushed_and_counted():
    items = [reading(sensor) for sensor in ("a", "b", "a", "c", "b")]
    flow, texts = keyed_run(items, Counter(), max_keys=2)
    assert texts[:7] == ["a 1", "b 1", "a 2", "b had 1", "c 1", "a had 2", "b 1"]
    assert flow.statistics.nodes["keyed"].counts == {"keys": 2, "evicted": 2}


def test_beyond_max_memory_keys_are_flushed_too():
    items = [reading(sensor, at=1, v=1) for sensor in range(50)]
    config = {"every": "10s", "time": "at"}
    flow, texts = keyed_run(items, Window(config), max_memory_bytes=16 * 1024)
    assert sum(json.loads(text)["count"] for text in texts) == 50
    assert flow.statistics.nodes["keyed"].counts["evicted"] > 30


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 99), st.integers(0, 9)), max_size=50)
)
def test_keyed_windows_are_those_of_a_batch_per_key(readings):
    ordered = sorted(readings, key=lambda one: one[1])
    items = [reading(sensor, at=second, v=value) for sensor, second, value in ordered]
    _, texts = keyed_run(items, Window({"every": "10s", "time": "at", "compute": COMPUTE}))
    for sensor in "abcd":
        own = [(second, value) for key, second, value in ordered if key == sensor]
        got = [one for one in map(json.loads, texts) if one["key"] == sensor]
        assert got == rendered(fixed(own, 10, 10), sensor)


def test_complaint_10_a_device_with_old_data_is_not_late_because_of_the_others():
    """The watermark is one per key."""
    items = [reading("a", at=1000), reading("b", at=10), reading("a", at=1001), reading("b", at=11)]
    flow, texts = keyed_run(items, Window({"every": "10s", "time": "at"}))
    assert sorted(json.loads(text)["count"] for text in texts) == [2, 2]
    assert flow.statistics.nodes["keyed"].counts["late"] == 0


def test_timers_of_keys_fire_one_by_one():
    clock, source = Clock(), Fed(reading("a", at=1))
    flow = torvyn.Flow(clock=clock).add("source", source)
    window = Window({"every": "10s", "time": "at", "idle_close": "5s"})
    flow.add("keyed", window, key="sensor").connect("source", "keyed")
    run = run_flow(flow, until=idle)
    clock.advance(3)
    source.put(reading("b", at=1))
    run.go(idle)
    for expected in (["a"], ["a", "b"]):
        clock.advance(2.5)
        assert [json.loads(text)["key"] for text in run.go(idle).texts] == expected


def test_a_snapshot_holds_all_keys():
    def started():
        made = KeyedAggregator(
            KeyedComponents(Window, key_reader("sensor"), 100, 2**20), False, True
        )
        made.init(json.dumps({"every": "10s", "time": "at"}))
        return made

    first, second = started(), started()
    for sensor in ("a", "b", "a"):
        first.ingest(torvyn.Element(reading(sensor, at=3)))
    second.restore(first.snapshot())
    second.ingest(torvyn.Element(reading("b", at=4)))
    counts = {one["key"]: one["count"] for one in (json.loads(o.data) for o in second.flush())}
    assert counts == {"a": 2, "b": 2}


def test_a_checkpoint_asks_only_the_keys_that_were_used_since_the_one_before():
    asked = []

    class Asked(Counter):
        def snapshot(self):
            asked.append(self.key)
            return super().snapshot()

    keyed = KeyedComponents(Asked, key_reader("sensor"), 100, 2**20)
    keyed.init("", None)
    for sensor in ("a", "b", "c"):
        keyed.call(torvyn.Element(reading(sensor)))
    before = keyed.changed_states(is_all=True)
    keyed.call(torvyn.Element(reading("b")))
    after = keyed.changed_states(is_all=False)
    assert after.keys() == {"b"}
    assert after["b"] != before["b"]
    assert asked == ["a", "b", "c", "b"]
    assert keyed.changed_states(is_all=False) == {}


def test_a_key_that_has_ended_is_told_once():
    keyed = KeyedComponents(Counter, key_reader("sensor"), 2, 2**20)
    keyed.init("", None)
    for sensor in ("a", "b"):
        keyed.call(torvyn.Element(reading(sensor)))
    keyed.changed_states(is_all=True)
    keyed.call(torvyn.Element(reading("c")))
    after = keyed.changed_states(is_all=False)
    assert (after["a"], after.keys()) == (None, {"a", "c"})


def test_restored_keys_are_evicted_in_the_order_of_their_last_use():
    keyed = KeyedComponents(Counter, key_reader("sensor"), 3, 2**20)
    keyed.init("", None)
    for sensor in ("a", "b", "c", "a"):
        keyed.call(torvyn.Element(reading(sensor)))
    states = keyed.changed_states(is_all=True)
    again = KeyedComponents(Counter, key_reader("sensor"), 3, 2**20)
    again.init("", None)
    again.restore_states([(key, states[key]) for key in ("c", "b", "a")])
    assert again.changed_states(is_all=False) == {}
    again.call(torvyn.Element(reading("d")))
    assert again.changed_states(is_all=False)["b"] is None


def test_states_may_be_bytes():
    keyed = KeyedComponents(Counter, key_reader("sensor"), 100, 2**20)
    keyed.init("", None)
    keyed.call(torvyn.Element(reading("a")))
    state = keyed.snapshot()
    again = KeyedComponents(Counter, key_reader("sensor"), 100, 2**20)
    again.init("", None)
    again.restore(state)
    assert again.call(torvyn.Element(reading("a"))) == "a 2"


def test_every_component_of_a_key_is_torn_down():
    ended = []

    class Tracked(Counter):
        def teardown(self):
            ended.append(self.key)

    keyed_run([reading(sensor) for sensor in "abcb"], Tracked(), max_keys=2)
    assert sorted(ended) == ["a", "b", "c"]


def test_a_bad_config_fails_before_the_first_element():
    with pytest.raises(LinkError, match="set either"):
        keyed_run(iter(["{}"]), "window")


class OnlyBatches(Processor):
    def process_batch(self, elements):
        return list(elements)


async def _later(element):
    return element


@pytest.mark.parametrize(
    ("component", "message"),
    [
        (torvyn.sink(print), "a sink cannot have a `key`"),
        (torvyn.processor(_later), "is async and cannot have a `key`"),
        (OnlyBatches(), "takes only batches and cannot have a `key`"),
        (torvyn.stream(lambda stream: (yield from stream)), "reads a whole stream"),
    ],
)
def test_components_that_cannot_have_a_key(component, message):
    flow = torvyn.Flow().add("source", ["{}"]).add("keyed", component, key="a")
    with pytest.raises(LinkError, match=message):
        _ = flow.connect("source", "keyed").plan


def test_a_component_that_cannot_be_copied_is_reported():
    class Open(Aggregator):
        def __init__(self):
            super().__init__()
            self.lock = (item for item in [])

        def ingest(self, element):
            return None

    with pytest.raises(LinkError, match="cannot be copied for each key"):
        keyed_run(["{}"], Open())


class Acknowledged(Fed):
    acknowledged = 0

    def acknowledge(self, count):
        self.acknowledged += count


def acknowledged(source, config, **options):
    flow = torvyn.Flow().add("source", source).add("window", Window(config), **options)
    flow.add("sink", CollectingSink()).connect("source", "window").connect("window", "sink")
    run = run_flow(flow, until=idle)
    yield source.acknowledged
    source.put(None)
    run.go()
    yield source.acknowledged


CONFIG = {"every": "10s", "time": "at"}


def test_what_waits_in_the_windows_of_other_keys_is_not_acknowledged():
    readings = [("a", 1), ("b", 1), ("b", 2), ("a", 11), ("a", 12)]
    source = Acknowledged(*(reading(sensor, at=second) for sensor, second in readings))
    # The window of `a` was sent. Its element is first; the elements of `b` come next.
    assert [*acknowledged(source, CONFIG, key="sensor")] == [1, 5]


def test_what_waits_in_a_later_window_is_not_acknowledged():
    source = Acknowledged(*(reading("a", at=second) for second in (1, 2, 11, 3, 14)))
    config = {**CONFIG, "lateness": "4s"}
    assert [*acknowledged(source, config)] == [2, 5]


def test_a_late_element_settles_nothing_but_itself():
    source = Acknowledged(*(reading("a", at=second) for second in (11, 1, 12)))
    assert [*acknowledged(source, CONFIG)] == [0, 3]
