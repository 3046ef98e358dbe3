"""Has the process that runs a generation bring its flows to another one.

It answers when it has swapped the components, or says why it cannot; that takes a while, so a
thread waits for it. Generations whose files it uses are locked, so that nobody removes them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from torvyn.edge.generations import Deployment, GenerationRecord
from torvyn.edge.running.exchange_report import ExchangeReport
from torvyn.edge.running.generation_process import GenerationProcess
from torvyn.edge.running.run_options import RunOptions


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
