"""Dead letters on their way back: they become new elements of the `disk` edge in front of the node
that refused them.

Somebody else marks them in their store, at any time. Which numbers they will have in the log is
noted before they are committed there, so that after a crash each of them is in exactly one of the
two files that counts.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from torvyn.durable import DurableStore, StoreUnavailable
from torvyn.durable.dead_letters import DeadLetter, DeadLetterStore
from torvyn.errors import FlowError

if TYPE_CHECKING:
    from torvyn.reactor.carriers.disk_edge import DiskEdge

logger = logging.getLogger("torvyn.durable")

LOOK_S: Final = 1.0
"""How often the store of the letters is looked at."""
_PAGE_BYTES: Final = 256 * 1024
"""How much goes back at a time."""


class _OnTheWay(NamedTuple):
    log: str
    ids: list[int]
    end: int
    """They are durable when the log goes on here."""


class ReturnedLetters:
    """All methods are called on the carrier's thread, but for `open`."""

    def __init__(self, letters: DeadLetterStore, store: DurableStore) -> None:
        self._letters = letters
        self._store = store
        self._on_the_way: list[_OnTheWay] = []
        self._look_at_s = -math.inf
        self._may_be_more = True

    @property
    def is_under_way(self) -> bool:
        """Whether the end of the flow must wait for them."""
        return self._may_be_more or bool(self._on_the_way)

    def open(self) -> None:
        """Settles what an earlier run has begun, before anything is appended to a log."""
        logs = self._store.logs()
        next_of = {name: self._store.next_sequence(name) for name in logs}
        try:
            self._letters.settle_returned(next_of.get)
        except (StoreUnavailable, FlowError) as error:
            logger.warning("no dead letters are put back for now: %s", error)
            self._look_at_s = math.inf
            self._may_be_more = False

    def advance(self, edges: Sequence[DiskEdge]) -> None:
        """Puts back what was marked. What fails is tried again."""
        if not self._on_the_way and time.monotonic() < self._look_at_s:
            return
        try:
            self._remove_stored()
            if time.monotonic() >= self._look_at_s:
                self._look_at_s = time.monotonic() + LOOK_S
                self._may_be_more = False
                self._put_back(edges)
        except (StoreUnavailable, FlowError) as error:
            self._look_at_s = time.monotonic() + 10 * LOOK_S
            self._may_be_more = False
            logger.warning("dead letters are not put back for now: %s", error)

    def finish(self) -> None:
        """The last commit of the run is done."""
        try:
            self._remove_stored()
        except (StoreUnavailable, FlowError) as error:
            logger.warning("the next start looks where the dead letters are: %s", error)

    def _remove_stored(self) -> None:
        for group in [*self._on_the_way]:
            if self._store.next_sequence(group.log) >= group.end:
                self._letters.remove(group.ids, "returned")
                self._on_the_way.remove(group)

    def _put_back(self, edges: Sequence[DiskEdge]) -> None:
        if not self._letters.exists:
            return
        busy = {group.log for group in self._on_the_way}
        for node in self._letters.wanting():
            edge = next((each for each in edges if each.wired.edge.target == node), None)
            if edge is not None and edge.name not in busy and edge.takes_letters:
                self._put_back_to(edge, self._letters.wanted(node, _PAGE_BYTES))

    def _put_back_to(self, edge: DiskEdge, letters: list[DeadLetter]) -> None:
        fitting = [each for each in letters if len(each.body) <= edge.max_letter_bytes]
        self._keep([each for each in letters if each not in fitting], edge)
        if not fitting:
            return
        ids = [each.id for each in fitting]
        first = edge.put_back([each.body for each in fitting])
        # Whatever happens now: these must be gone from one of the files.
        self._on_the_way.append(_OnTheWay(edge.name, ids, first + len(ids)))
        self._letters.put_back(ids, edge.name, first)
        logger.info(
            "%d dead letters go back to node `%s`",
            len(ids),
            edge.wired.edge.target,
            extra={"event": "letters.returned", "count": len(ids)},
        )
        self._look_at_s, self._may_be_more = time.monotonic(), True

    def _keep(self, letters: list[DeadLetter], edge: DiskEdge) -> None:
        if letters:
            self._letters.keep([each.id for each in letters])
            logger.warning(
                "%d dead letters of node `%s` are too large for the `max_bytes` of its edge",
                len(letters),
                edge.wired.edge.target,
            )
