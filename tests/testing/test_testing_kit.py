"""The test kit: its components, its clock, its variants and `run_flow`."""

import threading

import pytest

import torvyn
from torvyn import PENDING, End, Signal
from torvyn.testing import (
    VARIANTS,
    Clock,
    CollectingSink,
    CountingSource,
    ScriptedSource,
    StallingSink,
    as_variant,
    idle,
    run_flow,
)


def test_the_public_names_are_those_listed():
    import torvyn.testing as kit

    assert sorted(kit.__all__) == sorted(set(kit.__all__))
    assert all(hasattr(kit, name) for name in kit.__all__)


def test_a_script_is_played_to_its_end():
    source = ScriptedSource(["a", b"b", torvyn.Output("c")], end=End("length"))

    run = run_flow(source)

    assert run.texts == ["a", "b", "c"]
    assert run.end == End("length")
    assert source.sent == 3


def test_a_script_may_raise():
    with pytest.raises(torvyn.Unavailable, match="gone"):
        run_flow(ScriptedSource(["a", torvyn.Unavailable("gone")]))


def test_a_script_may_end_early():
    assert run_flow(ScriptedSource(["a", End("stop"), "b"])).texts == ["a"]


def test_a_counting_source_counts():
    assert run_flow(CountingSource(3)).texts == ["0", "1", "2"]


def test_a_collecting_sink_keeps_elements_and_end():
    sink = CollectingSink()

    run_flow(["a"], sink)

    assert sink.texts == ["a"]
    assert sink.end == End("stop")


def test_a_stalling_sink_holds_one_more_than_it_takes():
    sink = StallingSink(after=2)
    run = run_flow(CountingSource(10), sink, until=idle)
    assert sink.is_stalled
    assert sink.texts == ["0", "1", "2"]

    sink.release(after=3)
    run.go(until=idle)
    assert len(sink.texts) == 3 + 3 + 1
    sink.release()

    assert len(run.go().flow.statistics.nodes) == 2
    assert len(sink.texts) == 10


def test_signals_of_back_pressure_are_kept():
    source, sink = CountingSource(), StallingSink(after=0)

    with run_flow(source, sink, capacity=2, until=idle):
        assert source.signals == [Signal.PAUSE]


def test_a_chain_without_a_sink_gets_one_and_a_flow_without_one_is_collected():
    assert run_flow(["a", "b"]).sink is not None
    assert run_flow(torvyn.Flow(["a", "b"])).texts == ["a", "b"]


def test_idle_means_that_nothing_moves():
    source = ScriptedSource(["a", PENDING, "b", PENDING, "c"])
    run = run_flow(source, until=idle)
    seen = [run.texts]
    for _ in range(2):
        source.wake()
        seen.append(run.go(until=idle).texts)

    assert seen[-1] == ["a", "b", "c"]
    assert run.state == "completed"


def test_a_flow_that_never_ends_fails_the_test_and_is_cancelled():
    torn_down = threading.Event()

    class Waiting(ScriptedSource):
        def teardown(self):
            torn_down.set()

    with pytest.raises(AssertionError, match=r"not done after 0\.01 s"):
        run_flow(Waiting([PENDING]), timeout_s=0.01)

    assert torn_down.wait(20)


def test_leaving_a_run_cancels_its_flow():
    with run_flow(CountingSource(), StallingSink(), until=idle) as run:
        assert run.state == "running"

    assert run.state == "cancelled"


def test_a_clock_moves_only_by_hand():
    clock = Clock()
    before = clock.now_s

    clock.advance(1.5)

    assert clock.now_s - before == pytest.approx(1.5)
    assert clock() == clock.now_s
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)


def test_moving_the_clock_wakes_a_flow_that_waits_on_a_thread():
    clock, sink = Clock(), CollectingSink()
    waits = threading.Event()

    class Later(ScriptedSource):
        def pull(self):
            if self.sent == 1:
                waits.set()
            return super().pull()

    flow = torvyn.Flow(Later(["a", PENDING.after(3600), "b"]), sink, clock=clock)
    thread = threading.Thread(target=flow.run)
    thread.start()
    assert waits.wait(20)
    clock.advance(3600)
    thread.join(20)

    assert sink.texts == ["a", "b"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_runs_where_it_says(variant):
    threads = set()

    def note(element):
        threads.add(threading.current_thread().name)
        return True

    run_flow(ScriptedSource("ab"), torvyn.filter(note), variant=variant)

    own = threading.current_thread().name
    kinds = {"thread": {"torvyn-FunctionFilter"}, "async": {"torvyn-loop"}}
    assert threads == kinds.get(variant, {own})


def test_an_unknown_variant_is_an_error():
    with pytest.raises(ValueError, match="one of python"):
        as_variant(CollectingSink(), "quantum")


def test_the_native_variant_runs_in_native_code():
    run = run_flow(ScriptedSource("ab"), torvyn.filter(lambda e: True), variant="native")

    # The native source has made its bytes; Python reads them here for the first time.
    assert run.texts == ["a", "b"]
    assert sum(run.statistics.nodes["source"].copies.values()) == 0
