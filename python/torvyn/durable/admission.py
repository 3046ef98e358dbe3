"""What a transaction changes, and what the limits make of it.

Acknowledgements come first, because they make room. Then rows that are too old are dropped, then
the new ones are appended under the policy of their log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from torvyn.durable import catalog, checkpoints, log_rows
from torvyn.durable.clock import AgeClock
from torvyn.durable.disk.budget import FRAME_BYTES, row_cost, wal_cost
from torvyn.durable.disk.store_file import StoreFile
from torvyn.durable.failures import StoreUnavailable, row_too_large
from torvyn.durable.log_state import LogState
from torvyn.durable.records import Append, LostRange, Transaction

if TYPE_CHECKING:
    from torvyn._native import Database

logger = logging.getLogger("torvyn.durable")

_EXPIRY_INTERVAL_NS: Final = 1_000_000_000


class Admission:
    def __init__(self, file: StoreFile, clock: AgeClock) -> None:
        self._file, self._clock = file, clock
        self._next_expiry_ns = 0
        self._segments: set[str] | None = None
        """Those that have a state; None until somebody asks."""

    def wal_bytes(self, states: catalog.States, transaction: Transaction) -> int:
        """What a transaction adds to the WAL, about. Raises if it can never fit."""
        size = sum(len(new.body) for new in transaction.appends)
        limit = min((states[new.log].row_limit_bytes for new in transaction.appends), default=0)
        if size > limit:
            raise row_too_large(transaction.appends[0].log, size, limit)
        cost = wal_cost(sum(row_cost(len(new.body)) for new in transaction.appends))
        cost += checkpoints.wal_bytes(transaction.checkpoint)
        settled = {*transaction.acknowledged, *transaction.settled_ranges, *transaction.expired}
        deleted = sum(states[name].rows for name in settled)
        return cost + min(deleted, self._file.budget.max_deleted_rows) * FRAME_BYTES

    def apply(
        self, connection: Database, states: catalog.States, transaction: Transaction
    ) -> list[LostRange]:
        lost: list[LostRange] = []
        at_ns = self._clock.now_ns()
        for name, expired in transaction.expired.items():
            lost += log_rows.expire(connection, states[name], expired, at_ns)
        for name, up_to in transaction.acknowledged.items():
            if up_to >= states[name].next:
                raise ValueError(f"log `{name}` ends before {up_to}")
            log_rows.settle(connection, states[name], up_to)
        for name, ranges in transaction.settled_ranges.items():
            for first, last in ranges:
                log_rows.settle_range(connection, states[name], first, last)
        log_rows.delete_settled(connection, states.values(), self._file.budget.max_deleted_rows)
        lost += self._expire(connection, states)
        for new in transaction.appends:
            lost += self._append(connection, states[new.log], new)
        if transaction.checkpoint is not None:
            checkpoints.save(connection, transaction.checkpoint)
            if self._segments is not None:
                self._segments.add(transaction.checkpoint.segment)
        return lost

    def _append(self, connection: Database, state: LogState, new: Append) -> list[LostRange]:
        if new.first != state.next or new.count < 1:
            raise ValueError(f"log `{state.name}` continues at {state.next}, not at {new.first}")
        cost, at_ns, lost = row_cost(len(new.body)), self._clock.now_ns(), []

        def fits(_: object = None) -> bool:
            return self.fits(state, cost)

        policy = state.options.backpressure if state.options else "error"
        if policy == "drop-oldest" and not fits():
            lost = log_rows.drop_oldest(connection, state, fits, "dropped", at_ns)
        if fits():
            log_rows.append(connection, state, new, self._clock)
        elif policy in ("block", "error"):
            raise StoreUnavailable("limit", f"log `{state.name}` in `{self._file.path}` is full")
        else:
            state.next = new.first + new.count
            lost += log_rows.lose(connection, state, new.first, state.next - 1, "dropped", at_ns)
        return lost

    def fits(self, state: LogState, cost: int) -> bool:
        """The states of components have no limit, and take no room from the elements."""
        if state.cost + cost > state.limit_bytes:
            return False
        excess = self._file.used_bytes() + cost - self._file.budget.database_bytes
        return excess <= 0 or excess <= self._state_bytes()

    def forget_segments(self) -> None:
        """Others have states now."""
        self._segments = None

    def _state_bytes(self) -> int:
        connection = self._file.connection
        if self._segments is None:
            self._segments = set(checkpoints.segments(connection))
        return sum(checkpoints.space(connection, each) for each in self._segments)

    def _expire(self, connection: Database, states: catalog.States) -> list[LostRange]:
        """Drops rows that are too old; looks once per second."""
        clock, lost = self._clock, []
        if clock.uptime_ns() < self._next_expiry_ns:
            return []
        self._next_expiry_ns = clock.uptime_ns() + _EXPIRY_INTERVAL_NS
        at_ns = clock.now_ns()
        if step_ns := clock.step_ns():
            catalog.save_clock_step(connection, at_ns, clock.boot, step_ns)
            logger.warning("the clock was set by %+.3f s", step_ns / 1e9)
        for state in states.values():
            if state.options is None or state.options.max_age_s is None:
                continue
            age_ns = state.options.max_age_s * 1e9

            def is_young(head: log_rows.Head, age_ns: float = age_ns) -> bool:
                return not clock.is_older(age_ns, head.newest_ns, head.boot, head.uptime_ns)

            lost += log_rows.drop_oldest(connection, state, is_young, "expired", at_ns)
        return lost
