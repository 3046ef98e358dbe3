"""`DeploymentRun`: keeps the current generation running, and exchanges it when that changes.

`state.json` says which generation is current. Whoever changes it (a command, an update) needs not
reach this process: it looks at the file once per second.
"""

from __future__ import annotations

import logging
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from torvyn.concurrency.signals import SignalWaiter
from torvyn.edge.generations import Deployment, GenerationRecord
from torvyn.edge.generations.disk import is_writable
from torvyn.edge.generations.locking import held_lock
from torvyn.edge.generations.state import DeploymentState
from torvyn.edge.running.generation_process import GenerationProcess
from torvyn.edge.running.run_options import RunOptions
from torvyn.edge.running.trial import ErrorCount, Trial
from torvyn.errors import TorvynError
from torvyn.machine.systemd_notify import notify, watchdog_interval_s

logger = logging.getLogger("torvyn.edge")

_TICK_S: Final = 1.0
_FIRST_DELAY_S: Final = 1.0
_LAST_DELAY_S: Final = 60.0
_CANNOT_RUN: Final = 2
"""The exit code of a manifest or a component that is wrong: another try would not help."""
_KEPT: Final = 1
"""Generations of the channel besides the current one and its fallback."""
_OWN_END: Final = (0, 143, -signal.SIGTERM)


class _Stopped(Exception):
    """A signal arrived."""


class DeploymentRun:
    def __init__(self, deployment: Deployment, options: RunOptions) -> None:
        self.last_problem = ""
        """For reports."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when another generation runs, or one has become good or failed."""
        self._deployment: Final = deployment
        self._options: Final = options
        self._process: GenerationProcess | None = None
        self._trial: Trial | None = None
        self._before = ErrorCount()
        self._delay_s = 0.0
        self._signals = SignalWaiter(limit=2)
        self._lock = -1
        self._folder = Path()
        self._is_announced = False
        self._exit_code: int | None = None

    # From any thread

    def wake(self) -> None:
        """The state may have changed."""
        self._signals.wake()

    @property
    def running(self) -> GenerationRecord | None:
        """The generation whose flow runs."""
        process = self._process
        return process.record if process is not None and process.is_ready else None

    def status(self) -> Mapping[str, Any] | None:
        """The status of the running flow."""
        process = self._process
        return None if process is None else self._options.ask(process.pid)

    # The loop

    def run(self) -> int:
        """Runs until a signal, or until the flow has ended by itself; returns the exit code."""
        with (
            # The generation of a run that was killed may still save its state.
            held_lock(
                self._deployment.folder / "run.lock",
                self._options.lock_wait_s,
                f"runs the deployment `{self._deployment.name}`",
            ) as self._lock,
            tempfile.TemporaryDirectory(prefix="torvyn-") as folder,
            self._signals,
        ):
            self._folder = Path(folder)
            try:
                return self._loop()
            except _Stopped:
                notify("STOPPING=1")
                return 128 + self._signals.received[0]
            finally:
                self._end(self._process)

    def _loop(self) -> int:
        while self._exit_code is None:
            if self._process is None:
                self._boot()
            elif not self._process.is_running:
                self._ended(self._process)
            elif (wanted := self._other_wanted(self._process)) is not None:
                self._exchange(self._process, wanted)
            elif self._process.is_stalled:
                self._fail(self._process, self._process.status, is_final=True)
            else:
                self._observe(self._process)
            self._pause(_TICK_S if self._process is not None else self._delay_s)
        return self._exit_code

    def _boot(self) -> None:
        if self._options.is_lasting and not self._deployment.records():
            self._delay_s = _TICK_S
            return
        record = self._deployment.start()
        process = self._prepare(record)
        if self._await(process, "is_prepared", self._options.prepare_s):
            self._begin(process)
        else:
            self._fail(process, "it could not be prepared")

    def _exchange(self, old: GenerationProcess, record: GenerationRecord) -> None:
        """Prepares the new generation while the old one runs; then stops one and starts the
        other."""
        new = self._prepare(record)
        if not self._await(new, "is_prepared", self._options.prepare_s):
            self._give_up(record, "it could not be prepared")
            self._end(new)
            return
        self._before = ErrorCount.of(self._options.ask(old.pid))
        self._end(old)
        self._process = None
        if self._deployment.start().number != record.number:
            # The state has changed meanwhile.
            self._end(new)
            return
        logger.info("generation %d replaces %d", record.number, old.record.number)
        self._begin(new)

    def _begin(self, process: GenerationProcess) -> None:
        self._process = process
        process.start()
        if not self._await(process, "is_ready", self._options.start_s):
            if process.exit_code not in _OWN_END:
                self._fail(process, "its flow did not start")
            return
        number = process.record.number
        logger.info("generation %d runs", number)
        self.on_change()
        if self._deployment.state().trying == number:
            self._trial = Trial(self._options.health_s, time.monotonic(), self._before)
        if not self._is_announced:
            self._is_announced = notify("READY=1")

    def _observe(self, process: GenerationProcess) -> None:
        notify(f"STATUS=generation {process.record.number}, {process.status}")
        self._delay_s = 0.0 if self._trial is None else self._delay_s
        if self._trial is None:
            return
        is_over = self._trial.is_over(time.monotonic())
        can_write = not is_over or is_writable(self._deployment.data)
        problem = self._trial.problem(self._options.ask(process.pid), can_write)
        if problem is not None:
            self._fail(process, problem, is_final=True)
        elif is_over:
            self._mark_good(process.record)

    # Endings

    def _ended(self, process: GenerationProcess) -> None:
        """The process has ended by itself."""
        if process.exit_code == 0:
            self._mark_good(process.record)
            self._exit_code = 0
        else:
            self._fail(process, "its process ended")

    def _fail(self, process: GenerationProcess, reason: str, *, is_final: bool = False) -> None:
        """Ends the process. A generation on trial is given up now, or at its third start."""
        if process.exit_code is not None:
            reason = f"{reason} (exit code {process.exit_code})"
        is_final = is_final or process.exit_code == _CANNOT_RUN
        logger.error("generation %d failed: %s", process.record.number, reason)
        self.last_problem = f"generation {process.record.number}: {reason}"
        state = self._deployment.state()
        if is_final and state.trying == process.record.number:
            self._give_up(process.record, reason)
            if state.previous is None and not self._options.is_lasting:
                self._exit_code = process.exit_code
        self._end(process)
        self._process = None
        self._delay_s = min(max(2 * self._delay_s, _FIRST_DELAY_S), _LAST_DELAY_S)

    def _give_up(self, record: GenerationRecord, reason: str) -> None:
        self.last_problem = f"generation {record.number}: {reason}"
        self._change(lambda state: state.give_up(record, reason, state.seen_version))
        current = self._deployment.state().current
        if current != record.number:
            logger.error("generation %d is given up, %s is current", record.number, current)
            self.on_change()
            self._delay_s = 0.0

    def _mark_good(self, record: GenerationRecord) -> None:
        self._trial = None
        self.last_problem = ""
        if record.number not in self._deployment.state().good:
            self._change(lambda state: state.mark_good(record.number, _bar(state, record)))
            logger.info("generation %d is good", record.number)
            self._collect()
            self.on_change()

    def _collect(self) -> None:
        """Updates must not fill the disk. What a person has added is theirs to remove."""
        try:
            self._deployment.collect(_KEPT, is_of_channel=True)
        except TorvynError as error:
            logger.warning("%s", error.message)

    def _change(self, change: Callable[[DeploymentState], DeploymentState]) -> None:
        try:
            self._deployment.change(lambda state, records: change(state))
        except TorvynError as error:
            # The flow matters more than the note about it; the next start decides again.
            logger.error("%s", error.message)

    # Processes

    def _prepare(self, record: GenerationRecord) -> GenerationProcess:
        return GenerationProcess(
            record,
            self._options.command(record),
            self._folder,
            data=self._deployment.data,
            stall_s=self._options.stall_s,
            lock=self._lock,
            wake=self.wake,
        )

    def _await(self, process: GenerationProcess, attribute: str, timeout_s: float) -> bool:
        until_s = time.monotonic() + timeout_s
        while process.is_running and not getattr(process, attribute):
            if time.monotonic() > until_s:
                return False
            try:
                self._pause(_TICK_S)
            except _Stopped:
                self._end(process)
                raise
        return bool(getattr(process, attribute))

    def _end(self, process: GenerationProcess | None) -> None:
        """Lets the flow drain and save its state; not for longer than that takes."""
        if process is None:
            return
        if process is self._process:
            self._trial = None
        process.stop()
        until_s = time.monotonic() + process.stop_s
        while process.is_running and time.monotonic() < until_s:
            self._signals.wait(time.monotonic() + 0.1)
            self._feed_watchdog()
        process.close()

    def _other_wanted(self, process: GenerationProcess) -> GenerationRecord | None:
        """The current generation, if it is not the one that runs."""
        current = self._deployment.state().current
        if current in (None, process.record.number):
            return None
        return self._deployment.records().get(current)

    def _pause(self, seconds: float) -> None:
        self._signals.wait(time.monotonic() + seconds)
        self._feed_watchdog()
        if self._signals.received:
            raise _Stopped

    def _feed_watchdog(self) -> None:
        if watchdog_interval_s() is not None:
            notify("WATCHDOG=1")


def _bar(state: DeploymentState, record: GenerationRecord) -> int:
    """The `min_version` of the channel, once a version that it allows is good."""
    bar = state.channel.get("min_version", 0)
    is_allowed = isinstance(bar, int) and record.version is not None and record.version >= bar
    return bar if is_allowed else 0
