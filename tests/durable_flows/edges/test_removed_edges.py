"""A flow that no longer reads what waits on the disk is refused, whatever has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from durable_parts import AckSource, GatedSink, check_account, disk_flow, wait_until

import torvyn
from torvyn import TorvynError


def leave(count: int, **options: Any) -> int:
    """Runs a flow with a disk edge that leaves elements behind; returns how many."""
    source, sink = AckSource(map(str, range(count))), GatedSink(free=10)
    flow = disk_flow(source, sink, **options)
    flow.start()
    wait_until(lambda: source.acknowledged == count)
    flow.cancel()
    sink.gate.set()
    flow.wait()
    return flow.statistics.edges[0].stored.elements


def changed(change: str, sink: torvyn.Sink) -> torvyn.Flow:
    """The flow of `leave` without its disk edge."""
    flow = torvyn.Flow(name="main")
    renamed = "sender" if change == "renamed" else "out"
    flow.add("in", AckSource(["new"])).add(renamed, sink)
    if change == "another edge":
        flow.add("copy", torvyn.processor(lambda e: e.text))
        flow.connect("in", "copy", carrier="disk").connect("copy", renamed)
    else:
        flow.connect("in", renamed, carrier="disk" if change == "renamed" else "memory")
    return flow


CHANGES = ("last edge", "another edge", "renamed")


@pytest.mark.parametrize("change", CHANGES)
def test_an_edge_with_a_backlog_is_not_forgotten(change: str) -> None:
    left, sink = leave(100), GatedSink(free=10**9)
    assert left > 0
    flow = changed(change, sink)
    with pytest.raises(TorvynError) as caught:
        flow.run()
    assert caught.value.code == "durable.shape-changed"
    assert f"{left} elements wait on the `disk` edge `in:output->out`" in str(caught.value)
    assert "undo the change" in (caught.value.hint or "")
    assert "--fresh" in (caught.value.hint or "")
    assert not sink.texts

    # The change undone, they are delivered; then the edge may go.
    kept = GatedSink(free=10**9)
    disk_flow(AckSource([]), kept).run()
    assert len(kept.texts) == left
    flow = changed(change, sink)
    flow.run()
    assert sink.texts == ["new"]
    check_account(flow)


@pytest.mark.parametrize("change", CHANGES)
def test_fresh_discards_the_backlog_of_an_edge_that_is_gone(change: str) -> None:
    leave(100)
    sink = GatedSink(free=10**9)
    fresh = changed(change, sink)
    fresh.is_fresh = True
    fresh.run()
    changed(change, sink).run()
    assert sink.texts == ["new", "new"]


def test_a_saved_state_is_not_forgotten(state_dir: Path) -> None:
    class Total(torvyn.Processor):
        total = 0

        def process(self, element: torvyn.Element) -> str:
            self.total += 1
            return str(self.total)

        def snapshot(self) -> int:
            return self.total

        def restore(self, state: int) -> None:
            self.total = state

    class Idle(torvyn.Source):
        def pull(self) -> object:
            return torvyn.PENDING

    def flow(checkpoint_s: float | None, sink: torvyn.Sink) -> torvyn.Flow:
        made = torvyn.Flow(name="main", checkpoint_s=checkpoint_s)
        made.add("in", Idle()).add("sum", Total()).add("out", sink)
        return made.connect("in", "sum").connect("sum", "out")

    first = flow(0.05, GatedSink())
    first.start()
    wait_until(lambda: next(state_dir.rglob("flow.db"), None) is not None)
    first.drain()
    first.wait()
    with pytest.raises(TorvynError) as caught:
        flow(None, GatedSink()).run()
    assert caught.value.code == "durable.shape-changed"
