"""`DeploymentRun`: keeps the current generation running, and exchanges it when that changes.

`state.json` says which generation is current. Whoever changes it (a command, an update) needs not
reach this process: it looks at the file four times per second.

A process that runs a generation may bring its flows to another one. It answers when it has swapped
the components, or says why it cannot; that takes a while, so a thread waits for it. Generations
whose files it uses are locked, so that nobody removes them.

The flow matters more than the notes about its generations: what cannot be written is logged, and
the next start decides again.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from torvyn._deploy.deployment import Deployment
from torvyn._deploy.disk import held_lock, is_writable
from torvyn._deploy.exchange import ExchangeReport, Way
from torvyn._deploy.failures import damaged
from torvyn._deploy.generation_process import (
    GenerationProcess,
    Processes,
    RunOptions,
    feed_watchdog,
)
from torvyn._deploy.generation_state import DeploymentState, GenerationRecord
from torvyn._deploy.integrity import Integrity
from torvyn._deploy.trial import Statuses, Trial
from torvyn._io.process import SignalWaiter
from torvyn._io.supervision import notify
from torvyn.errors import TorvynError

logger = logging.getLogger("torvyn.edge")

_TICK_S: Final = 0.25
_FIRST_DELAY_S: Final = 1.0
_LAST_DELAY_S: Final = 60.0
_CANNOT_RUN: Final = 2
"""The exit code of a manifest or a component that is wrong: another try would not help."""
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
        self._records: Final = RunRecords(deployment)
        self._options: Final = options
        self._integrity: Final = Integrity(deployment.verified, options.verify)
        self._damaged: Final[set[int]] = set()
        self._process: GenerationProcess | None = None
        self._trial: Trial | None = None
        self._before: Statuses = ()
        self._delay_s = 0.0
        self._signals = SignalWaiter(limit=2)
        self._processes: Processes
        self._is_announced = self._is_last_try = self._is_mixed = False
        self._exit_code: int | None = None

    # From any thread

    def wake(self) -> None:
        """The state may have changed."""
        self._signals.wake()

    @property
    def running(self) -> GenerationRecord | None:
        """The generation whose flows run."""
        process = self._process
        return process.record if process is not None and process.is_ready else None

    def statuses(self) -> Statuses:
        """Those of the running flows."""
        process = self._process
        return () if process is None else self._options.ask(process.pid)

    # The loop

    def run(self) -> int:
        """Runs until a signal, or until all flows have ended by themselves. Returns the exit
        code."""
        with (
            # The generation of a run that was killed may still save its state.
            held_lock(
                self._deployment.folder / "run.lock",
                self._options.lock_wait_s,
                f"runs the deployment `{self._deployment.name}`",
            ) as lock,
            tempfile.TemporaryDirectory(prefix="torvyn-") as folder,
            self._signals,
        ):
            self._processes = Processes(
                self._deployment, self._options, Path(folder), lock, self._signals, self._pause
            )
            try:
                return self._loop()
            except _Stopped:
                notify("STOPPING=1")
                return 128 + self._signals.received[0]
            finally:
                self._end(self._process)
                self._processes.close()

    def _loop(self) -> int:
        while self._exit_code is None:
            self._processes.sweep()
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
        record = self._started()
        if record is None:
            self._delay_s = _TICK_S
            return
        process = self._processes.prepare(record)
        if self._processes.wait(process, "is_prepared", self._options.prepare_s):
            self._begin(process)
        else:
            self._fail(process, "it could not be prepared")

    def _started(self) -> GenerationRecord | None:
        """The generation to run, whose files are those of its artifact; None if none is left, and
        an update may bring one."""
        problem = None
        while problem is None or self._deployment.records().keys() - self._damaged:
            record = self._deployment.start(self._damaged)
            problem = self._damage(record)
            if problem is None:
                return record
        if not self._options.is_lasting:
            raise damaged(self._deployment.path(record.number), problem)
        return None

    def _damage(self, record: GenerationRecord) -> str | None:
        """What is wrong with the files of a generation, which is then set aside."""
        folder = self._deployment.path(record.number)
        problem = self._integrity.damage(record, folder, lambda: self._pause(0.0))
        if problem is not None:
            self.last_problem = f"generation {record.number} is damaged: {problem}"
            logger.error("%s; it is not started", self.last_problem)
            # It is not started either if the disk cannot be written to.
            self._damaged.add(record.number)
            self._records.damaged(record)
            self.on_change()
        return problem

    def _exchange(self, old: GenerationProcess, record: GenerationRecord) -> None:
        """Prepares the new generation while the old one runs. Then the old process takes it over,
        or gives way to the new one."""
        if self._damage(record) is not None:
            return
        new: GenerationProcess | None = None
        # What has run in that process can be loaded.
        if record.number not in old.generations and (new := self._prepared(record)) is None:
            return
        # Counted first: a crash on the way is one of the new generation.
        is_wanted = self._deployment.start(self._damaged).number == record.number
        try:
            reason = self._swap(old, record) if is_wanted else None
        except _Stopped:
            self._end(new)
            raise
        if reason is None:
            self._end(new)
        elif (new := new or self._prepared(record)) is not None:
            self._replace(old, new, reason)
        elif self._is_mixed:
            self._fail(old, "some of its flows are of another generation")

    def _swap(self, old: GenerationProcess, record: GenerationRecord) -> str | None:
        """Brings the process that runs to another generation; returns why that is not possible."""
        before = self._options.ask(old.pid)
        swap = ProcessSwap(self._deployment, self._options, old, record)
        swap.begin(self.wake)
        while not swap.is_done:
            self._pause(_TICK_S)
        self._is_last_try, self._is_mixed = swap.has_failed, swap.is_mixed
        if swap.report is None:
            return swap.refusal
        self._records.exchanged(swap.report)
        first = self._before = before
        if swap.report.way is Way.RESTART:
            # The new graph counts from zero.
            first = [{**status, "statistics": {}} for status in before]
        self._observe_from_now(old, first)
        return None

    def _replace(self, old: GenerationProcess, new: GenerationProcess, reason: str) -> None:
        self._before = self._options.ask(old.pid)
        began_s = time.monotonic()
        if not new.can_overlap:
            self._end(old)
            self._process = None
        if self._begin(new):
            pause_ms = round((time.monotonic() - began_s) * 1e3, 1)
            if new.can_overlap:
                self._processes.retire(old)
                pause_ms = 0.0
            number, replaced = new.record.number, old.record.number
            report = ExchangeReport(number, replaced, Way.PROCESS, reason, pause_ms=pause_ms)
            self._records.exchanged(report)
        elif new.can_overlap:
            # The old one has not been asked to stop.
            self._process = old

    def _begin(self, process: GenerationProcess) -> bool:
        """Starts the flows of a prepared process; whether they run."""
        self._process = process
        process.start()
        if not self._processes.wait(process, "is_ready", self._options.start_s):
            if process.exit_code not in _OWN_END:
                self._fail(process, "its flow did not start", is_final=self._is_last_try)
            return False
        logger.info("generation %d runs", process.record.number)
        self._processes.keep_sockets(process)
        self._observe_from_now(process)
        if not self._is_announced:
            self._is_announced = notify("READY=1")
        return True

    def _observe_from_now(self, process: GenerationProcess, first: Statuses = ()) -> None:
        self._trial = None
        if self._deployment.state().trying == process.record.number:
            options = self._options
            self._trial = Trial(options.health_s, options.stall_s, self._before, first)
        self.on_change()

    def _observe(self, process: GenerationProcess) -> None:
        notify(f"STATUS=generation {process.record.number}, {process.status}")
        self._delay_s = 0.0 if self._trial is None else self._delay_s
        if self._trial is None:
            return
        statuses = self._options.ask(process.pid)
        is_over = self._trial.is_over(statuses)
        can_write = not is_over or is_writable(self._deployment.data)
        problem = self._trial.problem(statuses, can_write)
        if problem is not None:
            self._reject(process, problem)
        elif is_over:
            self._mark_good(process.record)

    def _reject(self, process: GenerationProcess, problem: str) -> None:
        """The generation fails its trial. If its fallback has run in the same process, that one
        takes the flows over while they run; one that stands still cannot do that."""
        assert self._trial is not None
        fallback = self._deployment.state().previous
        if fallback not in process.generations or self._trial.is_standing_still:
            self._fail(process, problem, is_final=True)
            return
        logger.error("generation %d failed: %s", process.record.number, problem)
        self._trial = None
        self._give_up(process.record, problem)

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
        if self._deployment.state().current == process.record.number:
            self._delay_s = min(max(2 * self._delay_s, _FIRST_DELAY_S), _LAST_DELAY_S)

    def _give_up(self, record: GenerationRecord, reason: str) -> None:
        self.last_problem = f"generation {record.number}: {reason}"
        if self._records.give_up(record, reason):
            self.on_change()
            self._delay_s = 0.0

    def _mark_good(self, record: GenerationRecord) -> None:
        self._trial = None
        self.last_problem = ""
        if self._records.mark_good(record):
            self.on_change()

    # Processes

    def _prepared(self, record: GenerationRecord) -> GenerationProcess | None:
        """A process that waits for its start. A generation that cannot be prepared is given up."""
        process = self._processes.prepare(record)
        if self._processes.wait(process, "is_prepared", self._options.prepare_s):
            return process
        self._give_up(record, "it could not be prepared")
        self._end(process)
        return None

    def _end(self, process: GenerationProcess | None) -> None:
        if process is not None and process is self._process:
            self._trial = None
        self._processes.end(process)

    def _other_wanted(self, process: GenerationProcess) -> GenerationRecord | None:
        """The current generation, if it is not the one that runs."""
        current = self._deployment.state().current
        if current is None or current in (process.record.number, *self._damaged):
            return None
        return self._deployment.records().get(current)

    def _pause(self, seconds: float) -> None:
        self._signals.wait(time.monotonic() + seconds)
        feed_watchdog()
        if self._signals.received:
            raise _Stopped


class ProcessSwap:
    def __init__(
        self,
        deployment: Deployment,
        options: RunOptions,
        process: GenerationProcess,
        record: GenerationRecord,
    ) -> None:
        self.is_done = False
        self.report: ExchangeReport | None = None
        self.refusal = ""
        """Why there is no report."""
        self.has_failed = False
        """Whether a new component could not start: in a process of its own it has a second try."""
        self.is_mixed = False
        """Whether some flows were exchanged before another could not be."""
        self._deployment: Final = deployment
        self._options: Final = options
        self._process: Final = process
        self._record: Final = record

    def begin(self, wake: Callable[[], None]) -> None:
        """`wake` is called on another thread when it is done."""
        if self._options.exchange is None:
            self.refusal, self.is_done = "the deployment is set to exchange the process", True
            return
        threading.Thread(target=self._run, args=(self._options.exchange, wake), daemon=True).start()

    def _run(self, ask: Callable[..., Mapping[str, Any]], wake: Callable[[], None]) -> None:
        record, held = self._record, -1
        request = {
            "project": str(self._deployment.project(record.number)),
            "is_trusted": record.is_trusted,
            "trial_s": self._options.health_s,
        }
        try:
            held = self._deployment.hold(record.number)
            answer = ask(self._process.pid, request)
            errors = answer.get("errors") or ()
            self.refusal = errors[0]["message"] if errors else answer.get("refused", "")
            self.is_mixed = bool(answer.get("is_mixed"))
            self.has_failed = str(answer.get("code", "")).startswith("reactor.init-")
            if not self.refusal:
                self._adopt(answer, held)
                held = -1
        except Exception as error:
            # Whatever it was: the process is exchanged instead.
            self.refusal = f"its process did not answer: {error}"
        finally:
            if held >= 0:
                os.close(held)
            self.is_done = True
            wake()

    def _adopt(self, answer: Mapping[str, Any], held: int) -> None:
        """The process runs the new generation now."""
        process, number = self._process, self._record.number
        self.report = ExchangeReport.of_answer(number, process.record.number, answer)
        process.record = self._record
        process.generations.add(number)
        folders, holds = answer["folders"], {**process.holds, number: held}
        used = {each for each in holds if self._folder(each) in folders} | {number}
        process.hold({each: holds[each] for each in holds if each in used})

    def _folder(self, number: int) -> str:
        return str(self._deployment.project(number).resolve())


_KEPT: Final = 1
"""Generations of the channel besides the current one and its fallback."""


class RunRecords:
    def __init__(self, deployment: Deployment) -> None:
        self._deployment: Final = deployment

    def give_up(self, record: GenerationRecord, reason: str) -> bool:
        """Whether another generation is current now."""
        self._change(lambda state: state.give_up(record, reason, state.seen_version))
        current = self._deployment.state().current
        if current == record.number:
            return False
        logger.error("generation %d is given up, %s is current", record.number, current)
        return True

    def damaged(self, record: GenerationRecord) -> None:
        """The generation is put where nothing starts it."""
        try:
            self._deployment.set_aside(record.number)
        except TorvynError as error:
            logger.error("%s", error.message)

    def mark_good(self, record: GenerationRecord) -> bool:
        """Whether it was not good before."""
        if record.number in self._deployment.state().good:
            return False
        self._change(lambda state: state.mark_good(record.number, _bar(state, record)))
        logger.info("generation %d is good", record.number)
        self._collect()
        return True

    def exchanged(self, report: ExchangeReport) -> None:
        logger.info("%s", report.sentence)
        self._change(lambda state: replace(state, exchange=report.to_dict()))

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
            logger.error("%s", error.message)


def _bar(state: DeploymentState, record: GenerationRecord) -> int:
    """The `min_version` of the channel, once a version that it allows is good."""
    bar = state.channel.get("min_version", 0)
    if record.channel not in ("", state.channel_name):
        return 0
    is_allowed = isinstance(bar, int) and record.version is not None and record.version >= bar
    return bar if is_allowed else 0
