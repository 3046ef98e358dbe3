"""What the edges of a flow need of their process, and what they leave in it."""

from __future__ import annotations

import gc
import os
import time

from nats_parts import Collected, chain, check_account, sums, texts, wait_until
from nats_parts import Sum as Sums

import torvyn
from nats_server import NatsServer
from torvyn._durable.nats.edges import InputEdge, OutputEdge

CHILD_S = 30.0


def run_chain(name: str) -> None:
    sink = Collected()
    flow = chain(("a", texts(100)), ("sum", Sums()), ("b", sink), name=name)
    flow.run()
    check_account(flow)
    assert sink.texts == sums(100)


def test_a_forked_process_has_connections_of_its_own(server: NatsServer) -> None:
    run_chain("parent")
    child = os.fork()
    if not child:
        code = 1
        try:
            run_chain("child")
            code = 0
        finally:
            os._exit(code)
    end_s = time.monotonic() + CHILD_S
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end_s:
            os.kill(child, 9)
            os.waitpid(child, 0)
            raise AssertionError("the forked process did not finish")
        time.sleep(0.01)
    assert found == (child, 0)
    run_chain("parent")


def test_nothing_is_left_of_a_flow_that_has_ended(server: NatsServer) -> None:
    run_chain("main")
    gc.collect()
    left = [each for each in gc.get_objects() if type(each) in (InputEdge, OutputEdge)]
    assert left == []


def test_a_writer_is_well_again_when_the_broker_is_back(server: NatsServer) -> None:
    """Also if everything was confirmed before its carrier looks again."""
    source = Gated()
    flow = chain(("a", source), ("b", Collected()))
    flow.start()
    source.sent = 10
    wait_until(lambda: flow.statistics.edges[0].taken == 10)
    server.stop()
    source.sent = 20
    wait_until(lambda: is_degraded(flow))
    server.start()
    wait_until(lambda: flow.statistics.edges[0].taken == 20)
    wait_until(lambda: not is_degraded(flow))
    flow.cancel()
    assert flow.wait(30)


class Gated(torvyn.Source):
    """Sends as many elements as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = self._done = 0

    def pull(self) -> object:
        if self._done == self.sent:
            return torvyn.PENDING.after(0.005)
        self._done += 1
        return str(self._done)


def is_degraded(flow: torvyn.Flow) -> bool:
    execution = flow._execution
    assert execution is not None
    thread = execution.durable._thread  # type: ignore[union-attr]
    assert thread is not None
    return bool(thread._outage.is_degraded)
