"""Laws of the store, over random operations, against a model in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from torvyn._durable.backend import Append, LogOptions, Transaction
from torvyn._durable.disk.store import DurableStore
from torvyn._durable.state_log import Checkpoint
from torvyn.errors import StoreUnavailable

POLICIES = ("block", "drop-oldest", "drop-newest", "error")
LIMIT = 1 << 20


class StoreMachine(RuleBasedStateMachine):
    """`waiting` has every element that the store must still have, by its sequence number."""

    @initialize(policy=st.sampled_from(POLICIES))
    def start(self, policy: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "flow.db"
        self.logs = {name: LogOptions(LIMIT, backpressure=policy) for name in ("a", "b")}
        self.store = DurableStore.open(self.path, self.logs)
        self.waiting: dict[str, dict[int, bytes]] = {"a": {}, "b": {}}
        self.next = {"a": 0, "b": 0}
        self.lost = {"a": 0, "b": 0}
        self.expired = {"a": 0, "b": 0}
        self.states: dict[str, bytes] = {}

    @rule(
        log=st.sampled_from("ab"),
        counts=st.lists(st.integers(1, 9), min_size=1, max_size=4),
        size=st.sampled_from((10, 900, 5_000, 30_000)),
        is_checkpoint=st.booleans(),
    )
    def append(self, log: str, counts: list[int], size: int, is_checkpoint: bool) -> None:
        appends, first = [], self.next[log]
        for count in counts:
            appends.append(Append(log, first, count, bytes([first % 251]) * size, first))
            first += count
        states = {"node": str(first).encode()} if is_checkpoint else None
        parts = {(node, "#0"): state for node, state in (states or {}).items()}
        checkpoint = None if states is None else Checkpoint.whole("s", "{}", parts)
        try:
            lost = self.store.commit(Transaction(appends, checkpoint=checkpoint))
        except StoreUnavailable:
            assert self.logs[log].backpressure in ("block", "error")
            return
        self.next[log], self.states = first, states or self.states
        for new in appends:
            self.waiting[log] |= {new.first + i: new.body for i in range(new.count)}
        for gone in lost:
            self.lost[gone.log] += gone.count
            for sequence in range(gone.first, gone.last + 1):
                del self.waiting[gone.log][sequence]

    @rule(log=st.sampled_from("ab"), share=st.floats(0, 1))
    def acknowledge(self, log: str, share: float) -> None:
        if keys := sorted(self.waiting[log]):
            up_to = keys[int(share * (len(keys) - 1))]
            self.store.commit(Transaction(acknowledged={log: up_to}))
            self.waiting[log] = {k: v for k, v in self.waiting[log].items() if k > up_to}

    @rule(log=st.sampled_from("ab"), share=st.floats(0, 1), count=st.integers(1, 20))
    def settle_out_of_order(self, log: str, share: float, count: int) -> None:
        if keys := sorted(self.waiting[log]):
            first = keys[int(share * (len(keys) - 1))]
            last = min(first + count, self.next[log]) - 1
            self.store.commit(Transaction(settled_ranges={log: [(first, last)]}))
            for sequence in range(first, last + 1):
                self.waiting[log].pop(sequence, None)

    @rule(
        log=st.sampled_from("ab"),
        share=st.floats(0, 1),
        counts=st.lists(st.integers(1, 3), min_size=1, max_size=5),
        is_ordered=st.booleans(),
    )
    def expire_behind_the_reader(
        self, log: str, share: float, counts: list[int], is_ordered: bool
    ) -> None:
        if not (keys := sorted(self.waiting[log])):
            return
        start = first = keys[int(share * (len(keys) - 1))]
        parts: list[tuple[int, int]] = []
        for count in counts:
            if (last := first + count - 1) < self.next[log]:
                parts.append((first, last))
                first = last + 2
        last = parts[-1][1] if parts else start
        settled = Transaction(settled_ranges={log: [(start, last)]}, expired={log: parts})
        ordered = Transaction(acknowledged={log: last}, expired={log: parts})
        lost = self.store.commit(ordered if is_ordered else settled)
        gone = {n for first, last in parts for n in range(first, last + 1)} & {*self.waiting[log]}
        assert gone == {n for each in lost for n in range(each.first, each.last + 1)}
        assert {each.reason for each in lost} <= {"expired"}
        self.expired[log] += len(gone)
        begin = 0 if is_ordered else start
        for sequence in range(begin, last + 1):
            self.waiting[log].pop(sequence, None)

    @rule(log=st.sampled_from("ab"))
    def report_losses(self, log: str) -> None:
        losses = self.store.lost(log)
        if losses:
            self.store.forget_lost(log, losses[-1].last)
        assert self.store.lost(log) == []

    @rule(is_clean=st.booleans())
    def reopen(self, is_clean: bool) -> None:
        if is_clean:
            self.store.close()
        else:
            # What a kill leaves: the files as they are, and no lock.
            self.store._file._connection.execute("BEGIN IMMEDIATE")  # type: ignore[union-attr]
            self.store._file.close()
            self.store._owner.release()
        self.store = DurableStore.open(self.path, self.logs)

    @precondition(lambda self: hasattr(self, "store"))
    @rule()
    def tidy(self) -> None:
        self.store.tidy()

    @invariant()
    def every_element_is_there_or_accounted_for(self) -> None:
        for log, waiting in self.waiting.items() if hasattr(self, "waiting") else ():
            found = self.store.statistics(log)
            assert self.store.next_sequence(log) == found.appended == self.next[log]
            assert found.elements == len(waiting)
            assert found.dropped == self.lost[log]
            assert (found.corrupt, found.discarded) == (0, 0)
            assert found.expired == self.expired[log]
            lost = found.dropped + found.expired
            assert found.acknowledged == found.appended - found.elements - lost
            assert found.rows <= found.elements

    @invariant()
    def the_limit_holds(self) -> None:
        if hasattr(self, "store"):
            assert self.store.disk_bytes() <= 2 * LIMIT
            assert self.store.state.name == "ok"

    @rule(log=st.sampled_from("ab"), page=st.sampled_from((1, 20_000, LIMIT)))
    def read_everything(self, log: str, page: int) -> None:
        got: dict[int, bytes] = {}
        after = self.store.acknowledged(log)
        while rows := self.store.read(log, after, page):
            for row in rows:
                for first, last in self.store.unsettled(log, row.first, row.last):
                    got |= dict.fromkeys(range(first, last + 1), row.body)
            after = rows[-1].last
        assert got == self.waiting[log]

    @rule()
    def read_the_checkpoint(self) -> None:
        saved = self.store.checkpoint("s")
        parts = saved.parts if saved else {}
        assert {node: state for (node, _), state in parts.items()} == self.states

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


StoreMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, print_blob=True
)
TestStore = StoreMachine.TestCase
