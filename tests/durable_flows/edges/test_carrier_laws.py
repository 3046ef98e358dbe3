"""What all carriers of an edge promise alike: random operations on a flow, against a model.

Each element that was accepted is delivered once, in order, or it is counted as dropped, for a
reason that the options of the edge give. A process that takes over, after a kill at rest, delivers
exactly what the one before has not. In every run, entered = taken + dropped + unread.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from durable_parts import check_account, wait_until
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from scale import sample

import torvyn
from nats_server import NatsServer
from torvyn import PENDING, Element, TorvynError
from torvyn._durable.disk.backend import DiskEdge
from torvyn._durable.disk.clock import AgeClock
from torvyn._native import ManualClock

# In full, each example starts and ends several flows, of which a busy machine does two per second.
pytestmark = pytest.mark.timeout(300)

PAYLOAD = "x" * 1000
FITS = 100
"""So many elements fit on the smallest edge, whatever happens."""
BURST = 2000
"""So many do not."""
MAX_AGE_S = 3600.0


class Feed(torvyn.Source):
    """Sends what the test appends. The broker behind it would deliver the rest again."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: deque[int] = deque()
        self.sent = self.acknowledged = 0
        self.is_over = False

    def pull(self) -> object:
        if self.waiting:
            self.sent += 1
            return f"{self.waiting.popleft()} {PAYLOAD}"
        return None if self.is_over else PENDING

    def acknowledge(self, count: int) -> None:
        self.acknowledged += count

    def append(self, numbers: range) -> None:
        self.waiting.extend(numbers)
        self.wake()

    def end(self) -> None:
        self.is_over = True
        self.wake()


class Taker(torvyn.Sink):
    """Has one element in its hand until the test takes it."""

    run = "thread"

    def __init__(self) -> None:
        super().__init__()
        self.hand: int | None = None
        self.taken: list[int] = []
        self.last = -1
        self.permits = threading.Semaphore(0)
        self.is_open = self.is_gone = False

    def push(self, element: Element) -> None:
        self.hand = int(element.text.split()[0])
        if not self.is_open:
            self.permits.acquire()
        if self.is_gone:
            raise RuntimeError("the process is dead")
        self.last = element.sequence
        self.taken.append(self.hand)
        self.hand = None

    def open(self) -> None:
        self.is_open = True
        self.permits.release()

    def leave(self) -> None:
        """The process is dead: what is delivered from now on does not count."""
        self.is_gone = True
        self.open()


class Model:
    """The elements that are accepted and not delivered, oldest first."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.old: set[int] = set()
        self.hand: int | None = None
        self.dropped: set[int] = set()
        self.delivered: list[int] = []

    def append(self, numbers: range) -> None:
        self.waiting += numbers

    def rest(self) -> int | None:
        """What is too old is dropped before it is handed over."""
        if self.hand is None:
            while self.waiting and self.waiting[0] in self.old:
                self.dropped.add(self.waiting.pop(0))
            self.hand = self.waiting[0] if self.waiting else None
        return self.hand

    def deliver(self) -> None:
        assert self.rest() is not None
        self.delivered.append(self.waiting.pop(0))
        self.hand = None

    def age(self) -> None:
        self.old = {*self.waiting}

    def take_over(self) -> None:
        self.hand = None


class Carrier:
    """How a flow is run whose edge a carrier has, and what a kill leaves."""

    name: str
    policies: tuple[str, ...] = ("block",)
    orders: tuple[str, ...] = ("oldest-first",)
    survives = True
    """Whether another process can take over."""
    expires = False

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())

    def options(self, policy: str, order: str) -> dict[str, Any]:
        return {"carrier": self.name}

    def is_accepted(self, source: Feed) -> bool:
        """Whether the edge has everything that was appended."""
        return not source.waiting and source.acknowledged == source.sent

    def is_saved(self, flow: torvyn.Flow, waiting: int, last: int) -> bool:
        """Whether what was delivered, up to the number `last`, would not be delivered again after
        a kill."""
        return True

    def kill(self) -> None:
        """From now on, the files are those of another process."""

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Memory(Carrier):
    name = "memory"
    survives = False

    def options(self, policy: str, order: str) -> dict[str, Any]:
        return {"queue_depth": 10**6, "queue_bytes": 2**30}

    def is_accepted(self, source: Feed) -> bool:
        return not source.waiting


class Disk(Carrier):
    name = "disk"
    policies = ("block", "drop-oldest", "drop-newest", "error")
    orders = ("oldest-first", "live-first")
    expires = True

    def options(self, policy: str, order: str) -> dict[str, Any]:
        limits = {"max_bytes": 1024 * 1024, "max_age_s": MAX_AGE_S}
        return {"carrier": "disk", "backpressure": policy, "order": order, **limits}

    def is_saved(self, flow: torvyn.Flow, waiting: int, last: int) -> bool:
        stored = flow.statistics.edges[0].stored
        return stored is not None and stored.elements == waiting

    def kill(self) -> None:
        left, self.folder = self.folder, Path(tempfile.mkdtemp())
        shutil.copytree(left / "state", self.folder / "state")


class Nats(Carrier):
    name = "nats"
    server: ClassVar[NatsServer]
    flows: ClassVar[int] = 0

    def is_saved(self, flow: torvyn.Flow, waiting: int, last: int) -> bool:
        durable: Any = flow._execution.durable  # type: ignore[union-attr]
        (edge,) = durable._inputs
        return edge._native.position >= last and edge._changes() == edge._saved_changes


class CarrierMachine(RuleBasedStateMachine):
    make: ClassVar[type[Carrier]]

    def __init__(self) -> None:
        super().__init__()
        self.carrier = self.make()
        self.patch = pytest.MonkeyPatch()
        self.model = Model()
        self.passed_ns = 0
        self.next = 0
        self.is_over = False
        self.killed: list[torvyn.Flow] = []
        self._patch_clocks()
        self._note_full()

    def _note_full(self) -> None:
        fail, self.is_full = DiskEdge.fail, threading.Event()

        def note(edge: DiskEdge, message: str) -> None:
            assert "is full" in message
            self.is_full.set()
            fail(edge, message)

        self.patch.setattr(DiskEdge, "fail", note)

    def _patch_clocks(self) -> None:
        """Hours pass at once, for the flow and for the store."""
        now_ns, uptime_ns, time_ns = AgeClock.now_ns, AgeClock.uptime_ns, time.time_ns
        self.patch.setattr(AgeClock, "now_ns", lambda one: now_ns(one) + self.passed_ns)
        self.patch.setattr(AgeClock, "uptime_ns", lambda one: uptime_ns(one) + self.passed_ns)
        self.patch.setattr(time, "time_ns", lambda: time_ns() + self.passed_ns)

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.policy = data.draw(st.sampled_from(self.carrier.policies))
        self.order = data.draw(st.sampled_from(self.carrier.orders))
        Nats.flows += 1
        self.flow_name = f"law-{Nats.flows}"
        self._start()

    def _start(self) -> None:
        self.patch.setenv("TORVYN_RUNTIME__STATE_DIR", str(self.carrier.folder / "state"))
        self.source, self.sink = Feed(), Taker()
        # Both processes run in one boot, which is older than any element.
        self.clock = ManualClock(2**50)
        self.before, self.appended = len(self.model.waiting), 0
        self.dropped_before = len(self.model.dropped)
        options = {"queue_depth": 1, **self.carrier.options(self.policy, self.order)}
        self.flow = torvyn.Flow(name=self.flow_name, clock=self.clock)
        self.flow.add("in", self.source).add("out", self.sink).connect("in", "out", **options)
        self.flow.start()

    def _rest(self) -> None:
        """Everything has come to rest: the sink has the next element in its hand."""
        model = self.model
        hand = model.rest()
        if self.order == "oldest-first":
            wait_until(lambda: self.sink.hand == hand)
        else:
            wait_until(lambda: (self.sink.hand is None) == (hand is None))
        if not model.old & {*model.waiting}:
            wait_until(lambda: self.carrier.is_saved(self.flow, len(model.waiting), self.sink.last))

    @precondition(lambda self: not self.is_over and len(self.model.waiting) < FITS)
    @rule(count=st.integers(1, 20))
    def append(self, count: int) -> None:
        self._append(min(count, FITS - len(self.model.waiting)))
        wait_until(lambda: self.carrier.is_accepted(self.source))
        self._rest()

    def _append(self, count: int) -> None:
        numbers = range(self.next, self.next + count)
        self.next += count
        self.appended += count
        self.model.append(numbers)
        self.source.append(numbers)

    @precondition(lambda self: not self.is_over)
    @rule(count=st.integers(1, 15))
    def deliver(self, count: int) -> None:
        for _ in range(count):
            if self.model.rest() is None:
                break
            taken = len(self.sink.taken)
            self.sink.permits.release()
            wait_until(lambda taken=taken: len(self.sink.taken) > taken)  # type: ignore[misc]
            if self.order == "live-first":
                # Whatever comes first must be one that waits.
                number = self.sink.taken[-1]
                self.model.waiting.remove(number)
                self.model.waiting.insert(0, number)
            self.model.deliver()
            self._rest()

    @precondition(lambda self: self.carrier.survives and not self.is_over)
    @rule()
    def kill(self) -> None:
        self.carrier.kill()
        self.sink.is_gone = True
        self.killed.append(self.flow)
        self._note_taken()
        self.model.take_over()
        if self.carrier.name == "disk":
            self._end_killed()
        self._start()
        self._rest()

    def _note_taken(self) -> None:
        expected = self.model.delivered[len(self.model.delivered) - len(self.sink.taken) :]
        assert self.sink.taken == expected

    def _end_killed(self) -> None:
        """The process that another has taken over from ends as well: its account holds."""
        for flow in self.killed:
            flow.cancel()
            sink: Any = next(each for each in flow._execution.runners if each.node.name == "out")
            sink.component.leave()
            with contextlib.suppress(TorvynError):
                flow.wait(20)
            check_account(flow)
        self.killed.clear()

    @precondition(lambda self: self.carrier.expires and not self.is_over)
    @rule()
    def age(self) -> None:
        if self.order == "live-first" and self.sink.hand is not None:
            # It is in the hand of the sink, and no longer dropped.
            self.model.waiting.remove(self.sink.hand)
            self.model.waiting.insert(0, self.sink.hand)
            self.model.hand = self.sink.hand
        passed_ns = int(2 * MAX_AGE_S * 1e9)
        self.passed_ns += passed_ns
        self.clock.advance_ns(passed_ns)
        self.model.age()

    @precondition(lambda self: not self.is_over and not self.model.old & {*self.model.waiting})
    @rule()
    def overflow(self) -> None:
        """More than fits, while the sink takes nothing. Then the example is over."""
        self.is_over = True
        self.waited = [*self.model.waiting]
        self._append(BURST)
        if self.policy == "error":
            assert self.is_full.wait(20)
            self.sink.leave()
            with pytest.raises(TorvynError):
                self.flow.wait(20)
        elif self.carrier.name == "disk" and self.policy == "block":
            wait_until(lambda: self.source.acknowledged > FITS)
        else:
            wait_until(lambda: self.carrier.is_accepted(self.source))

    @rule()
    def look(self) -> None:
        """The account holds at every moment at rest."""
        if hasattr(self, "flow") and not self.is_over:
            check_account(self.flow)

    def teardown(self) -> None:
        try:
            if hasattr(self, "flow"):
                self._finish()
        finally:
            self.patch.undo()
            self.carrier.close()

    def _finish(self) -> None:
        if self.is_over and self.policy == "error":
            check_account(self.flow)
            accepted = self.next - self.appended + self.source.acknowledged
            self._start()
            self.source.end()
            self.sink.open()
            assert self.flow.wait(20)
            delivered = [*self.model.delivered, *self.sink.taken]
            assert len(delivered) == len({*delivered})
            assert {*range(accepted)} - self.model.dropped <= {*delivered}
            return
        self.source.end()
        self.sink.open()
        assert self.flow.wait(60)
        self._end_killed()
        check_account(self.flow)
        edge = self.flow.statistics.edges[0]
        assert edge.entered == self.before + self.appended
        assert (edge.taken, edge.unread) == (len(self.sink.taken), 0)
        while self.model.rest() is not None and not self.is_over:
            self.model.deliver()
        if not self.is_over:
            assert edge.dropped == len(self.model.dropped) - self.dropped_before
            delivered = self.model.delivered
            expected = delivered[len(delivered) - len(self.sink.taken) :]
            if self.order == "live-first":
                assert sorted(self.sink.taken) == sorted(expected)
            else:
                assert self.sink.taken == expected
            return
        self._check_overflow(edge.dropped)

    def _check_overflow(self, dropped: int) -> None:
        appended = range(self.next - BURST, self.next)
        due = {*self.waited, *appended}
        left = [number for number in self.sink.taken if number in due]
        gone = due - {*left}
        assert len(left) == len({*left})
        assert len(gone) == dropped - (len(self.model.dropped) - self.dropped_before)
        if self.order == "oldest-first":
            assert left == sorted(left)
        if self.policy == "block":
            assert not gone
            return
        assert gone
        kept = appended[-FITS:] if self.policy == "drop-oldest" else self.waited
        assert not gone & {*kept}


def machine(kind: type[Carrier], examples: int) -> Any:
    made = type(f"{kind.__name__}Machine", (CarrierMachine,), {"make": kind})
    made.TestCase.settings = settings(
        max_examples=examples,
        stateful_step_count=12,
        deadline=None,
        print_blob=True,
        # Each step waits for threads: a smaller example would take minutes to find.
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
    )
    return made.TestCase


TestMemory = machine(Memory, sample(5, full=50))
TestDisk = machine(Disk, sample(12, full=200))


@pytest.mark.usefixtures("_broker")
class TestNats(machine(Nats, sample(4, full=60))):  # type: ignore[misc]
    pass


@pytest.fixture(scope="class")
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = NatsServer(port, tmp_path_factory.mktemp("nats"))
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORVYN_CLUSTER__NATS", server.url)
        yield
    server.stop()
