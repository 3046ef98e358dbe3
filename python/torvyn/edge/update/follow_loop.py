"""Looks at a channel again and again, on a thread. Devices that start together look at different
times; a source that cannot be reached is asked less often."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Final

from torvyn._io.backoff import Backoff
from torvyn.components.restart import keep_running
from torvyn.edge.update.updater import Updater, UpdateResult, UpdateState
from torvyn.errors import TorvynError

logger = logging.getLogger("torvyn.edge")

_FIRST_S: Final = 5.0
_JITTER: Final = 0.1


class FollowLoop:
    """A context manager: follows the channel while the block runs."""

    def __init__(
        self,
        updater: Updater,
        interval_s: float,
        on_update: Callable[[], None],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.last: UpdateResult | None = None
        self.last_problem = ""
        self._updater: Final = updater
        self._interval_s: Final = interval_s
        self._on_update: Final = on_update
        self._draw: Final = draw
        self._backoff = Backoff(min(_FIRST_S, interval_s), interval_s, draw)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="torvyn-follow", daemon=True)

    def __enter__(self) -> FollowLoop:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A download in progress is not waited for: the next start continues it.
        self._stopped.set()

    def _run(self) -> None:
        keep_running(self._follow, self._stopped.wait, self._note_problem, self._backoff)

    def _follow(self) -> None:
        delay_s = self._draw() * min(_FIRST_S, self._interval_s)
        while not self._stopped.wait(delay_s):
            delay_s = self._look()

    def _note_problem(self, reason: str) -> None:
        """The flow must go on, and so must the loop that could repair what is wrong."""
        self.last_problem = reason

    def _look(self) -> float:
        """Returns how long to wait until the next look."""
        try:
            result = self._updater.look()
        except TorvynError as error:
            if error.message != self.last_problem:
                logger.warning("no update: %s", error.message)
            self.last_problem = error.message
            return self._backoff.next_delay_s(1.0)
        self._backoff.reset()
        self.last, self.last_problem = result, ""
        if result.state is UpdateState.UPDATED:
            self._on_update()
        return self._interval_s * (1 - _JITTER + 2 * _JITTER * self._draw())
