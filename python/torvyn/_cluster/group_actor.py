"""The actor that runs one replica of a group.

It begins to run in its constructor. Ray constructs it again when its process or its machine is
lost, so a new process continues from the last commit before the command knows of the loss.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torvyn._cluster.job import ErrorReport, GroupEnd, GroupJob
from torvyn._cluster.output import forward_output
from torvyn._cluster.project_copy import open_project
from torvyn._flow.flow import Flow
from torvyn._flow.statistics import Statistics
from torvyn._io.process import shorten_switch_interval
from torvyn._link.plan import Plan
from torvyn._link.project_linker import ProjectLinker
from torvyn._observe.logs import show_logs
from torvyn.errors import TorvynError


@dataclass(frozen=True, slots=True)
class Whereabouts:
    node: str
    """The id of the machine in the cluster."""
    address: str
    pid: int
    version: str
    """Of torvyn."""


def plain(statistics: Statistics) -> Statistics:
    """Statistics that can be pickled: those of a run are built when they are read."""
    values = {each.name: getattr(statistics, each.name) for each in fields(Statistics)}
    return Statistics(**values)


class GroupActor:
    """Its methods are called on threads: `wait` blocks, and the others reach it meanwhile."""

    def __init__(self, job: GroupJob) -> None:
        self._job = job
        self._lock = threading.Lock()
        self._flow: Flow | None = None
        self._is_stopping = False
        self._has_ended = threading.Event()
        self._end: GroupEnd | None = None
        threading.Thread(target=self._run, name="torvyn-group", daemon=True).start()

    def whereabouts(self) -> Whereabouts:
        import ray

        import torvyn

        context: Any = ray.get_runtime_context()
        address = str(ray.util.get_node_ip_address())
        return Whereabouts(context.get_node_id(), address, os.getpid(), torvyn.__version__)

    def wait(self) -> GroupEnd:
        """Waits until the input of the group has ended, or it was told to stop."""
        self._has_ended.wait()
        assert self._end is not None
        return self._end

    def _run(self) -> None:
        try:
            self._end = self._run_job()
        except BaseException as error:
            self._end = GroupEnd("failed", None, ErrorReport.of(error))
        finally:
            self._has_ended.set()

    def _run_job(self) -> GroupEnd:
        shorten_switch_interval()
        job, logs = self._job, self._job.logs
        with forward_output(job.output):
            manifest, overrides = open_project(job.project, job.overrides)
            plan = ProjectLinker.open(manifest, overrides).plan(job.flow)
            with show_logs(
                logs.format, logs.level, plan.secrets, component_level=logs.component_level
            ):
                return self._run_plan(plan)

    def _run_plan(self, plan: Plan) -> GroupEnd:
        flow = Flow.from_plan(plan)
        discard = _DiscardOnce(plan, self._job.discards_for)
        flow.is_fresh = discard.is_due
        with self._lock:
            self._flow = flow
            if self._is_stopping:
                flow.cancel()
                return GroupEnd("cancelled", plain(flow.statistics))
        try:
            flow._run(is_abandonable=True, on_start=discard.note)
        except BaseException as error:
            if isinstance(error, TorvynError) and error.code == "broker.run-over":
                # The process before this one died after it had stored its end.
                return GroupEnd("completed", plain(flow.statistics))
            state = "cancelled" if flow.state == "cancelled" else "failed"
            return GroupEnd(state, plain(flow.statistics), ErrorReport.of(error))
        return GroupEnd(str(flow.state), plain(flow.statistics))

    def drain(self) -> None:
        """Saves the state and ends the run; the next one continues there."""
        with self._lock:
            self._is_stopping = True
            if self._flow is not None:
                self._flow.drain()

    def cancel(self) -> None:
        with self._lock:
            self._is_stopping = True
            if self._flow is not None:
                self._flow.cancel()

    def statistics(self) -> Statistics | None:
        """A snapshot of the running flow; None before it runs."""
        flow = self._flow
        return None if flow is None else plain(flow.statistics)


class _DiscardOnce:
    """Discards the state of a flow on this machine's disk before its first process of a run, and
    not before those that continue it."""

    def __init__(self, plan: Plan, run: str) -> None:
        from torvyn._durable.segments import state_path

        self._run = run
        self._mark: Path = state_path(plan).with_name("discarded-for")

    @property
    def is_due(self) -> bool:
        if not self._run:
            return False
        try:
            return self._mark.read_text() != self._run
        except FileNotFoundError:
            return True

    def note(self) -> None:
        """The state is discarded, and the flow has not begun."""
        if self.is_due:
            self._mark.parent.mkdir(parents=True, exist_ok=True)
            self._mark.write_text(self._run)
