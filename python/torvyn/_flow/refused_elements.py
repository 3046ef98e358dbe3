"""Stores what nodes refuse for good, before it is settled, and says so in the log.

Called by the native core inside the turn: a letter costs one `fsync`. While the disk does not work
nothing is settled, and the element waits in front of its node.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torvyn._contract.enums import ErrorKind
from torvyn._durable.dead_letters import DeadLetterStore, NewLetter
from torvyn._flow.failures import component_label, error_text
from torvyn._native import EdgeLog
from torvyn.errors import ComponentError, FlowError, StoreUnavailable, TorvynError

if TYPE_CHECKING:
    from torvyn._contract.element import Context
    from torvyn._link.plan import Plan

logger = logging.getLogger("torvyn.reactor")


class RefusedElements:
    """The dead letters of a run."""

    def __init__(self, plan: Plan, store: DeadLetterStore) -> None:
        self.plan = plan
        self.store = store
        self.epochs: Sequence[Context] = ()
        """The context of each node."""
        self.counts: dict[str, int] = {}
        """What each node has set aside."""
        self._is_degraded = False

    def __call__(
        self,
        index: int,
        kind: ErrorKind,
        message: str,
        cause: BaseException | None,
        sequence: int | None,
        batch: bytes | None,
    ) -> bool:
        """Whether it is stored now."""
        at_ns = time.time_ns()
        refused = cause.refused if isinstance(cause, ComponentError) else None
        if batch is None and refused is not None:
            batch = EdgeLog.encode(refused, at_ns)
        if batch is None:
            return False
        code = cause.code if isinstance(cause, TorvynError) else f"component.{kind}"
        text = self.plan.redact(error_text(cause, message))
        name = self.plan.nodes[index].name
        letter = NewLetter(name, self._epoch(index), sequence, at_ns, code, text, batch)
        try:
            dropped = self._store(letter)
        except (StoreUnavailable, FlowError) as error:
            self._note_failure(error)
            return False
        self._is_degraded = False
        self._log(index, sequence, text, dropped)
        return True

    def _epoch(self, index: int) -> str:
        """Where a log has numbered the elements, they have the same numbers in every run."""
        context = self.epochs[index] if index < len(self.epochs) else None
        return "" if context is None else context.epoch or context.flow_id

    def _store(self, letter: NewLetter) -> int:
        try:
            return self.store.add(letter)
        except StoreUnavailable as error:
            if error.reason != "corrupt":
                raise
        aside = self.store.set_damaged_aside()
        logger.error(
            "the dead letters of flow `%s` are damaged; their file is `%s` from now on",
            self.plan.name,
            aside,
            extra={"event": "letters.damaged"},
        )
        return self.store.add(letter)

    def _note_failure(self, error: TorvynError) -> None:
        if not self._is_degraded:
            self._is_degraded = True
            text = "flow `%s` waits until it can set an element aside: %s"
            extra = {"event": "letters.unavailable", "hint": error.diagnostics[0].hint}
            logger.warning(text, self.plan.name, error, extra=extra)

    def _log(self, index: int, sequence: int | None, text: str, dropped: int) -> None:
        """At 1, 2, 4, 8...: enough to know why, without flooding the log."""
        node = self.plan.nodes[index]
        count = self.counts[node.name] = self.counts.get(node.name, 0) + 1
        if count & (count - 1) == 0:
            logger.warning(
                "node `%s`%s refused %s for good; it was set aside, %d so far: %s",
                node.name,
                component_label(node),
                "what it read" if sequence is None else f"element {sequence}",
                count,
                text,
                extra={
                    "node": node.name,
                    "count": count,
                    "sequence": sequence,
                    "event": "node.set-aside",
                    "hint": f"`torvyn store show {self.plan.name}` shows what was set aside",
                },
            )
        if dropped:
            logger.error(
                "the dead letters of flow `%s` are full: %d of them were dropped, the oldest first",
                self.plan.name,
                dropped,
                extra={"event": "letters.dropped", "count": dropped},
            )
