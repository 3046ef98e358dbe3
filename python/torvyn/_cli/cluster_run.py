"""Runs a flow on a cluster for a command: the main thread handles signals, as for one process.

The first Ctrl-C (or SIGTERM) tells all groups to save their states and to end, the second one
cancels them, the third ends this process, and with it the groups.
"""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING

from torvyn._cli.foreground import Notice, Outcome
from torvyn._cli.screen import Screen
from torvyn._cluster.job import LogOptions
from torvyn._cluster.session import ClusterRequest, open_run
from torvyn._io.process import SignalWaiter

if TYPE_CHECKING:
    from torvyn._cluster.flow_run import ClusterRun, ClusterRunEnd

_NOTICE_S = 1.0
"""A drain that takes longer is announced."""


def log_options(screen: Screen) -> LogOptions:
    """How the groups show their log records: as this command shows its own."""
    return LogOptions(screen.format, screen.log_level, screen.component_log_level)


def run_on_cluster(request: ClusterRequest, notice: Notice) -> tuple[Outcome, int]:
    """Runs the flow to its end; also returns how many processes were started again."""
    is_closed = threading.Event()
    with open_run(request, is_closed.set) as run, SignalWaiter(limit=2) as signals:
        foreground = _Foreground(run, signals, notice, is_closed)
        end = foreground.wait()
    return _outcome(end, signals, is_closed.is_set()), end.restarts


class _Foreground:
    """The main thread's side of the run."""

    def __init__(
        self, run: ClusterRun, signals: SignalWaiter, notice: Notice, is_closed: threading.Event
    ) -> None:
        self._run = run
        self._signals = signals
        self._notice = notice
        self._is_closed = is_closed
        self._end: ClusterRunEnd | None = None
        self._thread = threading.Thread(target=self._drive, name="torvyn-cluster", daemon=True)

    def _drive(self) -> None:
        try:
            self._end = self._run.run()
        finally:
            self._signals.wake()

    def wait(self) -> ClusterRunEnd:
        handled, notice_s = 0, None
        self._thread.start()
        while self._thread.is_alive():
            self._signals.wait(notice_s or time.monotonic() + _NOTICE_S)
            if len(self._signals.received) > handled:
                handled += 1
                self._run.drain() if handled == 1 else self._run.cancel()
                notice_s = time.monotonic() + _NOTICE_S if handled == 1 else None
            elif notice_s is not None and time.monotonic() >= notice_s:
                notice_s = None
                self._notice("Draining the flow; a second Ctrl-C or SIGTERM cancels it.")
            elif self._is_closed.is_set():
                self._run.cancel()
        assert self._end is not None
        return self._end


def _outcome(end: ClusterRunEnd, signals: SignalWaiter, is_closed: bool) -> Outcome:
    state = "completed"
    if signals.received:
        is_term = signals.received[0] == signal.SIGTERM
        state = "terminated" if is_term else "interrupted"
    elif is_closed:
        state = "unread"
    elif end.error is not None or end.state != "completed":
        state = "failed"
    return Outcome(state, end.statistics, end.error)
