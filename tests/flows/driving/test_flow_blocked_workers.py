"""The warning about a blocked worker: for components that block or spin, and for no others."""

import gc
import logging
import threading

import pytest

import torvyn
from torvyn.testing import CollectingSink, CountingSource, ScriptedSource


class Reports(logging.Handler):
    """Keeps the warnings about blocked workers."""

    def __init__(self):
        super().__init__()
        self.records, self.has_one = [], threading.Event()

    def emit(self, record):
        if getattr(record, "event", None) == "worker.blocked":
            self.records.append(record)
            self.has_one.set()


@pytest.fixture
def reports():
    handler, logger = Reports(), logging.getLogger("torvyn.reactor")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def waits(release):
    release.wait()


def locks(release):
    lock = threading.Lock()
    lock.acquire()
    while not release.is_set():
        lock.acquire(timeout=0.01)


def spins(release):
    while not release.is_set():
        pass


@pytest.mark.parametrize("body", [waits, locks, spins])
def test_a_component_that_blocks_or_spins_is_reported_once_by_name(reports, body):
    release = threading.Event()
    flow = torvyn.Flow(ScriptedSource("abc"), name="stuck")
    flow.add("slow", torvyn.processor(lambda element: body(release)))
    flow.add("out", CollectingSink()).connect("source", "slow").connect("slow", "out")
    flow.start()
    assert reports.has_one.wait(30)
    release.set()
    assert flow.wait(30)

    (record,) = reports.records
    assert (record.flow, record.node) == ("stuck", "slow")
    assert "node `slow` of flow `stuck` blocks its worker" in record.getMessage()
    assert f"in {body.__name__}" in record.getMessage()


def test_a_node_behind_a_disk_edge_is_reported_by_name(reports, tmp_path, monkeypatch):
    monkeypatch.setenv("TORVYN_RUNTIME__STATE_DIR", str(tmp_path))
    release = threading.Event()
    flow = torvyn.Flow(name="stuck").add("in", ["a"])
    flow.add("slow", torvyn.sink(lambda element: waits(release)))
    flow.connect("in", "slow", carrier="disk").start()
    assert reports.has_one.wait(30)
    release.set()
    assert flow.wait(30)
    assert [record.node for record in reports.records] == ["slow"]


def test_a_node_that_blocks_in_every_call_is_reported_once(reports):
    calls = threading.Semaphore(0)

    def slow(element):
        # Long enough for the watchdog each time; the first call waits until it has looked.
        assert reports.has_one.wait(30)
        calls.acquire(timeout=0.3)

    flow = torvyn.Flow(ScriptedSource("abc"), torvyn.sink(slow), name="stuck").start()

    assert flow.wait(30)
    assert len(reports.records) == 1


def test_quick_flows_that_start_on_a_busy_machine_are_not_reported(reports):
    """The workers wait for Python's lock most of the time here, and long for collections."""
    stop, ballast = threading.Event(), [[index] for index in range(200_000)]

    def burn():
        while not stop.is_set():
            gc.collect()

    burners = [threading.Thread(target=burn) for _ in range(3)]
    for burner in burners:
        burner.start()
    try:
        flows = [torvyn.Flow(CountingSource(20), CollectingSink()).start() for _ in range(50)]
        assert all(flow.wait(60) for flow in flows)
    finally:
        stop.set()
        for burner in burners:
            burner.join()

    assert len(ballast) == 200_000
    assert {flow.statistics.emitted for flow in flows} == {20}
    assert reports.records == []


def test_a_worker_that_waits_for_a_teardown_is_not_reported(reports):
    begun, release = threading.Event(), threading.Event()

    class Slow(torvyn.Sink):
        run = "thread"

        def push(self, element):
            pass

        def teardown(self):
            begun.set()
            release.wait()

    over = torvyn.Flow(ScriptedSource("a"), Slow(), name="over").start()
    assert begun.wait(30)
    # Its worker is looked at later, and after the same time.
    stuck = torvyn.Flow(ScriptedSource("a"), torvyn.sink(lambda element: waits(release)))
    stuck.start()
    assert reports.has_one.wait(30)
    release.set()

    assert over.wait(30)
    assert stuck.wait(30)
    assert "over" not in [record.flow for record in reports.records]
