"""A node with a state that moves to another segment keeps its state."""

from __future__ import annotations

from typing import Any

import pytest
from entry_faults import FaultyEntries
from nats_parts import Collected, Sum, wait_until

import torvyn
from nats_server import NatsServer
from torvyn._durable.nats import entry as flow_bucket
from torvyn._durable.nats import startup
from torvyn._durable.nats.entry import SavedSegments
from torvyn._io.nats import BrokerUnavailable


class Crash(Exception):
    """The process ends here."""


class Numbers(torvyn.Source):
    """Sends ones, from its position on."""

    def __init__(self, until: int) -> None:
        super().__init__()
        self.next, self.until = 0, until

    def pull(self) -> object:
        if self.next == self.until:
            return torvyn.PENDING.after(0.01)
        self.next += 1
        return "1"

    def snapshot(self) -> int:
        return self.next

    def restore(self, state: int) -> None:
        self.next = state


def moving(of: str, until: int, sinks: dict[str, Collected]) -> torvyn.Flow:
    """Two sources, `a` and `b`; the node `sum` is in the segment of one of them."""
    flow = torvyn.Flow(name="main", checkpoint_s=0.01).add("sum", Sum())
    for name, sink in sinks.items():
        flow.add(name, Numbers(until)).add(f"{name}-out", sink)
        if name == of:
            flow.connect(name, "sum").connect("sum", f"{name}-out", carrier="nats")
        else:
            flow.connect(name, f"{name}-out", carrier="nats")
    return flow


def run_until(flow: torvyn.Flow, sinks: dict[str, Collected], last: dict[str, str]) -> None:
    running = flow.start()
    wait_until(lambda: all(last[name] in sinks[name].texts for name in sinks))
    running.drain()
    assert running.wait(30)


def test_a_node_that_moves_to_another_segment_continues_from_its_state(
    server: NatsServer,
) -> None:
    sinks = {"a": Collected(), "b": Collected()}
    run_until(moving("a", 10, sinks), sinks, {"a": "10", "b": "1"})
    sinks = {"a": Collected(), "b": Collected()}
    run_until(moving("b", 15, sinks), sinks, {"a": "1", "b": "15"})
    assert sinks["b"].texts == [str(number) for number in range(11, 16)]


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("fail_at", range(4))
def test_a_crash_while_a_node_moves_loses_no_state(
    server: NatsServer, fail_at: int, is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks = {"a": Collected(), "b": Collected()}
    run_until(moving("a", 10, sinks), sinks, {"a": "10", "b": "1"})
    calls = 0

    class Failing(SavedSegments):
        def replace_checkpoints(self, *args: Any) -> None:
            nonlocal calls
            calls += 1
            [bucket] = {entry._entries for entry in self._entries.values()}
            bucket.fail(fail_at, is_stored=is_stored)
            try:
                super().replace_checkpoints(*args)
            except BrokerUnavailable as error:
                raise Crash from error

    with monkeypatch.context() as patched:
        patched.setattr(flow_bucket, "Entries", FaultyEntries)
        patched.setattr(startup, "SavedSegments", Failing)
        with pytest.raises(Crash):
            moving("b", 15, sinks).run()
    assert calls == 1
    sinks = {"a": Collected(), "b": Collected()}
    run_until(moving("b", 15, sinks), sinks, {"a": "1", "b": "15"})
    assert sinks["b"].texts == [str(number) for number in range(11, 16)]
