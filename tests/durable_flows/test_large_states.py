"""States that are larger than the edges of their flow."""

from __future__ import annotations

import os
from typing import Any

import pytest
from durable_parts import check_account, wait_until

import torvyn


class Slow(torvyn.Source):
    """Waits for a checkpoint, more or less, behind each element."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.next, self.count, self.has_waited = 0, count, False

    def pull(self) -> object:
        self.has_waited = not self.has_waited
        if self.has_waited:
            return torvyn.PENDING.after(0.01)
        if self.next == self.count:
            return None
        self.next += 1
        return str(self.next - 1)

    def snapshot(self) -> int:
        return self.next

    def restore(self, state: int) -> None:
        self.next = state


class Growing(torvyn.Processor):
    """Passes elements on; its state grows with each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = bytearray()

    def process(self, element: torvyn.Element) -> str:
        self.kept += os.urandom(100_000)
        return element.text

    def snapshot(self) -> bytes:
        return bytes(self.kept)

    def restore(self, state: bytes) -> None:
        self.kept = bytearray(state)


@pytest.mark.parametrize("backpressure", ["block", "drop-oldest", "drop-newest"])
def test_a_state_takes_no_room_from_the_edges(backpressure: str) -> None:
    """`max_bytes` is for the elements that wait."""
    taken: list[str] = []
    flow = torvyn.Flow(checkpoint_s=0.01).add("in", Slow(40)).add("state", Growing())
    flow.add("out", torvyn.sink(lambda element: taken.append(element.text)))
    options = {"max_bytes": 1 << 20, "backpressure": backpressure}
    flow.connect("in", "state").connect("state", "out", carrier="disk", **options)  # type: ignore[arg-type]
    running = flow.start()
    is_over = running.wait(20)
    if not is_over:
        running.cancel()
        running.wait()
    assert is_over
    check_account(running)
    assert taken == [str(number) for number in range(40)]


def test_a_state_that_is_gone_from_the_store_is_saved_as_a_whole_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What a damaged database had to be rebuilt without."""
    taken: list[str] = []

    def start() -> torvyn.Flow:
        flow = torvyn.Flow(checkpoint_s=0.01).add("in", Slow(60)).add("state", Growing())
        flow.add("out", torvyn.sink(lambda element: taken.append(element.text)))
        flow.connect("in", "state").connect("state", "out", carrier="disk", max_bytes=1 << 26)
        return flow.start()

    first = start()
    wait_until(lambda: len(taken) > 10)
    durable: Any = first._execution.durable  # type: ignore[union-attr]
    store = durable._store
    with store._lock:
        store._session.file.connection.execute("DELETE FROM checkpoints")
    count = len(taken)
    wait_until(lambda: len(taken) > count + 5)
    first.drain()
    first.wait()
    assert "is saved as a whole again" in caplog.text

    start().wait(20)
    assert taken == [str(number) for number in range(60)]
