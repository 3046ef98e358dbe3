"""Runs the flows of `torvyn run` in this process, and says how each of them ends.

A flow has several versions, one after the other, if its graph changes: see `torvyn reload`. While a
flow runs, other commands reach it through its sockets. Several flows share the workers; the lines
of each begin with its name, and a flow that fails does not end the others.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from torvyn._cli.foreground import Foreground, ForegroundRun, Outcome
from torvyn._contract.enums import Role
from torvyn._io.line_output import reserved, write_lines

if TYPE_CHECKING:
    from pathlib import Path

    from torvyn._cli.exchanger import LinkProject
    from torvyn._cli.flow_socket import Command
    from torvyn._cli.foreground import Supervisor
    from torvyn._cli.screen import Screen
    from torvyn._flow.flow import Flow
    from torvyn._flow.reload import Reloader
    from torvyn._link.plan import Plan

    Exchange = tuple[Path, LinkProject]

logger = logging.getLogger("torvyn.cli")

_NOTICE_WAIT_S: Final = 0.1

FILTERED: Final = {
    "prompt": "A guard blocked the prompt; the engine did not receive it (content_filter).",
    "completion": "A guard ended the answer (content_filter).",
}


@dataclass(frozen=True)
class RunRequest:
    """One flow of the command."""

    plan: Plan
    limit: int | None = None
    is_fresh: bool = False
    link: Callable[[], Plan] | None = None
    """Links the flow anew, for `torvyn reload`."""


def run_flows(
    screen: Screen, requests: Sequence[RunRequest], exchange: Exchange | None = None
) -> list[Outcome]:
    """Runs the flows to their ends, and prints the `[torvyn]` lines before and after them. The
    error of a flow that is alone is left to the caller; those of several are shown when they
    happen. `exchange`: the folder of the project, and how to link another one in its place, for
    `torvyn deploy`."""
    from torvyn._cli.foreground import make_supervisor

    plans = [request.plan for request in requests]
    with shown_logs(screen, plans):
        supervisor = make_supervisor(len(plans))
        with Foreground(partial(notice, screen), supervisor) as foreground:
            runs = [
                _FlowRun(each, request, number, foreground, supervisor)
                for number, (request, each) in enumerate(
                    zip(requests, _screens(screen, plans), strict=True)
                )
            ]
            if len(runs) == 1:
                runs[0].number = None
            for run in runs:
                show_start(run.screen, run.flow.plan)
            commands = {} if exchange is None else _exchange_command(runs, *exchange)
            foreground.run([run.begin(commands) for run in runs])
        return [run.finish() for run in runs]


def _exchange_command(
    runs: Sequence[_FlowRun], project: Path, link: LinkProject
) -> dict[str, Command]:
    from torvyn._cli.exchanger import Exchanger

    reloaders = {run.flow.name: run.reloader for run in runs if run.reloader is not None}
    return {"exchange": Exchanger(reloaders, project, link).exchange}


def _screens(screen: Screen, plans: Sequence[Plan]) -> list[Screen]:
    """A screen per flow; those of several write the flow's name before each line."""
    if len(plans) == 1:
        return [screen]
    width = max(len(plan.name) for plan in plans)
    return [screen.of_flow(plan.name, f"{plan.name.ljust(width)} | ") for plan in plans]


@contextmanager
def shown_logs(screen: Screen, plans: Sequence[Plan]) -> Iterator[None]:
    """Prints log records while flows run, without their secrets."""
    from torvyn._observe.logs import show_logs

    with show_logs(
        screen.format,
        screen.log_level,
        frozenset(secret for plan in plans for secret in plan.secrets),
        component_level=screen.component_log_level,
    ):
        yield


class _FlowRun:
    """One flow: its versions, its sockets, and its outcome."""

    def __init__(
        self,
        screen: Screen,
        request: RunRequest,
        number: int,
        foreground: Foreground,
        supervisor: Supervisor | None,
    ) -> None:
        from torvyn._flow.flow import Flow as NewFlow
        from torvyn._flow.reload import Reloader as NewReloader

        self.screen = screen
        self.number: int | None = number
        """Which of several flows of the process it is; None if it is alone."""
        self.flow: Flow = NewFlow.from_plan(request.plan)
        self.flow.is_fresh = request.is_fresh
        self._limit = request.limit
        """How many elements the sources may still send; None without a limit."""
        if request.limit is not None:
            self.flow.limit(request.limit)
        self._foreground = foreground
        self._supervisor = supervisor
        self.reloader = None if request.link is None else NewReloader(self.flow, request.link)
        self._sockets = ExitStack()
        self._version = ExitStack()
        self._closing: threading.Thread | None = None
        self._outcome: Outcome | None = None

    # Its versions

    def begin(self, commands: Mapping[str, Command]) -> ForegroundRun:
        """The run of the first version. `commands`: what its socket answers for the process."""
        if self.reloader is not None:
            self._open_control(self.reloader, commands)
        return self._begin_version()

    def _open_control(self, reloader: Reloader, commands: Mapping[str, Command]) -> None:
        from torvyn._cli.flow_socket import ControlSocket

        own = {
            "difference": reloader.difference,
            "reload": reloader.reload,
            "verdicts": reloader.verdicts,
        }
        self._sockets.enter_context(ControlSocket({**own, **commands}, self.number))

    def _begin_version(self) -> ForegroundRun:
        from torvyn._cli.flow_socket import StatusSocket
        from torvyn._cli.foreground import make_health_check

        check = make_health_check(self.flow.plan)
        self._version.enter_context(StatusSocket(self.flow, check, self.number))
        self._telemetry = None
        if self.flow.plan.telemetry is not None:
            from torvyn._observe.telemetry import FlowTelemetry

            self._telemetry = self._version.enter_context(FlowTelemetry(self.flow))
        started = None
        if self._supervisor is not None:
            started = partial(self._supervisor.started, self.flow, check)
        return self._foreground.prepare(
            self.flow, prefix=self.screen.prefix, on_start=started, on_end=self._ended
        )

    def _ended(self, run: ForegroundRun) -> ForegroundRun | None:
        """A version has ended. Returns the run of the next one."""
        outcome = self._outcome_of(run)
        if self._telemetry is not None:
            self._telemetry.ended(outcome.statistics, outcome.state, outcome.error)
        plan = None if self.reloader is None else self.reloader.take_successor()
        if plan is None or outcome.state in ("interrupted", "terminated"):
            self._end(outcome)
            return None
        self._version.close()
        return self._follow(plan)

    def _outcome_of(self, run: ForegroundRun) -> Outcome:
        # Also if none of the lines about it can be written.
        outcome = self._outcome = run.outcome()
        if getattr(outcome.error, "code", "") == "broker.run-over":
            # Whoever starts it again has not seen that it had ended.
            self._outcome = replace(outcome, state="completed", error=None)
            self.screen.info(f"[torvyn] {outcome.error}")
        return self._outcome

    def _follow(self, plan: Plan) -> ForegroundRun:
        from torvyn._flow.flow import Flow as NewFlow

        assert self.reloader is not None
        if self._supervisor is not None:
            self._supervisor.ended(self.flow)
        self.flow = NewFlow.from_plan(plan)
        if self._limit is not None and self._outcome is not None:
            nodes = self._outcome.statistics.nodes.values()
            sent = sum(node.emitted for node in nodes if node.role == Role.SOURCE)
            self._limit = max(self._limit - sent, 0)
            self.flow.limit(self._limit)
        self.reloader.follow(self.flow)
        _log(self.screen, "flow.restarted", f"running flow `{plan.name}` again", flow=plan.name)
        return self._begin_version()

    # Its end

    def _end(self, outcome: Outcome) -> None:
        self._sockets.close()
        if self.number is None:
            self._version.close()
        else:
            # A collector that does not answer must not delay what the other flows need.
            self._closing = threading.Thread(target=self._version.close, name="torvyn-close")
            self._closing.start()
        show_end(self.screen, self.flow.plan, outcome, _filtered_side(self.flow))
        self._outcome = self._shown(outcome)
        if outcome.state == "unread":
            # Nobody reads what the others print.
            self._foreground.drain()
        if self._supervisor is not None:
            self._supervisor.ended(self.flow)
            if outcome.state == "failed" and self._foreground.drain():
                logger.error(
                    "flow `%s` failed: the others are drained, so that all start again",
                    self.flow.name,
                    extra={"event": "process.draining", "flow": self.flow.name},
                )

    def _shown(self, outcome: Outcome) -> Outcome:
        """Shows the error of a flow that is not alone."""
        from torvyn._cli.exit import exit_code_of

        error = outcome.error
        if self.number is None or outcome.state != "failed" or error is None:
            return outcome

        def fail() -> None:
            raise error

        return replace(outcome, shown_code=exit_code_of(fail, self.screen))

    def finish(self) -> Outcome:
        if self._closing is not None:
            self._closing.join()
        assert self._outcome is not None
        return self._outcome


# Lines


def show_start(screen: Screen, plan: Plan) -> None:
    cluster = plan.cluster
    where = ""
    if cluster is not None and cluster.nats and cluster.namespace:
        where = f" in the namespace '{cluster.namespace}'"
    screen.info(f"[torvyn] Running flow '{plan.name}'{where}", "")
    _log(screen, "flow.started", f"running flow `{plan.name}`", flow=plan.name)


def show_end(screen: Screen, plan: Plan, outcome: Outcome, filtered: str | None = None) -> None:
    """`filtered`: the side on which a guard ended the answer."""
    from torvyn._cli.statistics import hidden_output, summary_line

    line = summary_line(outcome.statistics)
    message = f"flow `{plan.name}` {outcome.state}: {line}"
    side = {} if filtered is None else {"finish": "content_filter", "side": filtered}
    _log(screen, "flow.ended", message, flow=plan.name, state=outcome.state, **side)
    if outcome.state != "unread":
        screen.info("", f"[torvyn] Flow '{plan.name}' {outcome.state}.", f"[torvyn] {line}")
        if outcome.statistics.set_aside:
            screen.info(f"[torvyn] `torvyn store show {plan.name}` says why it was set aside.")
        if filtered is not None:
            screen.info(f"[torvyn] {FILTERED[filtered]}")
        # With `-v` the log shows them.
        hidden = [] if screen.verbose else hidden_output(plan, outcome.statistics)
        if hidden:
            screen.info(*hidden)


def notice(screen: Screen, text: str) -> None:
    """Writes to stderr directly: the screen flushes stdout first, where a component may hang. Says
    nothing if it hangs in the same pipe, because the main thread must not wait for it."""
    if not screen.is_quiet and not screen.is_json:
        with suppress(OSError, ValueError), reserved(sys.stderr, _NOTICE_WAIT_S) as is_free:
            if is_free:
                write_lines(sys.stderr, f"\n[torvyn] {text}")
                sys.stderr.flush()


def _filtered_side(flow: Flow) -> str | None:
    """The side on which a guard ended an engine's answer; None if no guard did."""
    end, names = flow.end, [node.component.name for node in flow.plan.nodes]
    if end is None or end.finish_reason != "content_filter":
        return None
    has_engine = any(name.startswith("engine:") for name in names)
    return end.side or ("completion" if has_engine else None)


def _log(screen: Screen, event: str, message: str, **fields: str) -> None:
    """Logs what the `[torvyn]` lines say, for JSON output."""
    if screen.is_json:
        logger.info(message, extra={"event": event, **fields})
