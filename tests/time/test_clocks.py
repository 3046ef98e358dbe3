"""Windows and clocks: wrong clocks, clocks that are set, idle keys, data from before an outage."""

import json

import pytest
from fed_source import Fed

from torvyn import Output
from torvyn.components import Window
from torvyn.components.event_time import EVENT_TIME, parse_time_ns
from torvyn.testing import idle, run_flow

START_NS = parse_time_ns("2026-01-01T00:00:00Z")


def windows(run):
    return [json.loads(text) for text in run.texts]


def spans(run):
    """Start and end without the date, and the count of each window."""
    return [(one["start"][11:19], one["end"][11:19], one["count"]) for one in windows(run)]


def by_arrival(clock, *items, **config):
    source = Fed(*items)
    return source, run_flow(source, Window({"every": "10s", **config}), until=idle, clock=clock)


def at(second):
    return json.dumps({"at": START_NS // 10**9 + second})


def test_arrival_windows_start_at_whole_multiples_of_wall_clock_time(clock):
    source, run = by_arrival(clock, "a", "b")
    clock.advance(9)
    source.put("c", None)
    assert spans(run.go()) == [("00:00:00", "00:00:10", 2), ("00:00:10", "00:00:20", 1)]


def test_without_idle_close_an_idle_window_stays_open(clock):
    _, run = by_arrival(clock, "a")
    clock.advance(3600)
    assert spans(run.go(idle)) == []


def test_idle_close_closes_an_arrival_window_at_its_end_and_not_before(clock):
    source, run = by_arrival(clock, "a", idle_close="2s")
    clock.advance(8.9)
    assert spans(run.go(idle)) == []
    clock.advance(0.1)
    assert spans(run.go(idle)) == [("00:00:00", "00:00:10", 1)]
    source.put("b", None)
    assert spans(run.go())[1:] == [("00:00:10", "00:00:20", 1)]


def test_idle_close_closes_event_time_windows_of_a_silent_source(clock):
    source, run = by_arrival(clock, at(1), at(12), time="at", idle_close="30s")
    assert len(spans(run)) == 1
    clock.advance(30)
    assert spans(run.go(idle)) == [("00:00:00", "00:00:10", 1), ("00:00:10", "00:00:20", 1)]
    source.put(at(13), None)
    assert run.go().statistics.nodes["aggregator"].ignored == 1


@pytest.mark.parametrize("step_s", [-7200, 7200])
def test_when_the_clock_is_set_open_windows_end_and_nothing_is_late(clock, caplog, step_s):
    source, run = by_arrival(clock, "a", "b")
    clock.advance(2)
    clock.set_wall(step_s)
    for _ in range(3):
        source.put("c")
        run.go(idle)
        clock.advance(10)
    source.put(None)
    counts = [one["count"] for one in windows(run.go())]
    assert counts == [2, 1, 1, 1]
    assert all(one["start"] < one["end"] for one in windows(run))
    assert run.statistics.nodes["aggregator"].counts == {"late": 0, "future": 0}
    way = "back" if step_s < 0 else "forward"
    assert [r.message for r in caplog.records] == [f"the wall clock was set {way} by 7200.0 s"]


def test_a_small_correction_of_the_clock_is_no_step(clock, caplog):
    source, run = by_arrival(clock, "a")
    clock.advance(3)
    clock.set_wall(-0.9)
    source.put("b", None)
    assert spans(run.go()) == [("00:00:00", "00:00:10", 2)]
    assert not caplog.records


def test_a_clock_that_was_never_set_rejects_nothing(clock):
    clock.set_wall(-START_NS / 10**9)
    _, run = by_arrival(clock, at(1), at(12), None, time="at")
    assert [one["count"] for one in windows(run)] == [1, 1]


def test_complaint_10_wall_clock_windows_do_not_split_under_backlog(clock):
    """Elements that waited on disk keep their time of arrival, and so their windows."""
    stored = [
        Output("x", attributes={EVENT_TIME: START_NS - (600 - second) * 10**9})
        for second in (1, 2, 11, 12, 13, 25)
    ]
    _, run = by_arrival(clock, *stored, "live", None, idle_close="1s")
    assert [one["count"] for one in windows(run)] == [2, 3, 1, 1]
    assert windows(run)[0]["start"] == "2025-12-31T23:50:00Z"


def test_complaint_10_a_device_with_a_fast_clock_makes_nobodys_data_late(clock):
    """A timestamp in the future never moves the watermark, and is counted."""
    fast = at(400)
    _, run = by_arrival(clock, at(1), fast, at(2), fast, at(3), at(11), None, time="at")
    assert spans(run) == [("00:00:00", "00:00:10", 3), ("00:00:10", "00:00:20", 1)]
    assert run.statistics.nodes["aggregator"].counts == {"late": 0, "future": 2}


def test_up_to_max_future_a_fast_clock_is_believed(clock):
    _, run = by_arrival(clock, at(1), at(299), None, time="at")
    assert len(spans(run)) == 2
    _, run = by_arrival(clock, at(1), at(299), None, time="at", max_future="1m")
    assert len(spans(run)) == 1
