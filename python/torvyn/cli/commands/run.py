"""`torvyn run`: runs a flow and prints its summary."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.screen import Screen
from torvyn.cli.target import artifact_options, end_options, flow_options, target_with_ends

if TYPE_CHECKING:
    from torvyn.cli.foreground_run import Outcome
    from torvyn.link.plan import Plan
    from torvyn.reactor import Flow

logger = logging.getLogger("torvyn.cli")

EXAMPLE = """\
torvyn run
torvyn run flow.main --input tokens.txt --limit 1000 --stats
torvyn run --config filter.words=secret,private"""


@make_command("run", example=EXAMPLE)
@flow_options
@artifact_options
@end_options
@click.option(
    "--fresh",
    is_flag=True,
    help="Discard the saved states and the stored elements of earlier runs.",
)
@click.option(
    "--stats", is_flag=True, help="Print statistics of nodes, edges and copies at the end."
)
def command(screen: Screen, fresh: bool, stats: bool, **options: Any) -> int:
    """Run a flow.

    Output of components goes to standard output, messages go to standard error. Ctrl-C drains the
    flow: the sources stop, and the elements in the flow still reach the sinks. A second Ctrl-C
    cancels the flow, a third ends the process. A flow with `disk` edges or checkpoints saves its
    state instead, and the next run continues there. With `--stats --format json`, the last line of
    standard output is a JSON object with the statistics.
    """
    from torvyn.cli.memory_warnings import memory_warnings
    from torvyn.cli.supervision.prepared_start import wait_for_start

    target, ends, limit = target_with_ends(options)
    plan = target.link(screen, **ends)
    screen.warn(memory_warnings(plan))
    wait_for_start(plan)
    outcome = run_plan(screen, plan, limit, is_fresh=fresh, link=lambda: target.plan(**ends))
    if stats:
        _show_statistics(screen, plan, outcome)
    if outcome.state == "failed" and outcome.error is not None:
        screen.info("")
        raise outcome.error
    return outcome.exit_code


def run_plan(
    screen: Screen,
    plan: Plan,
    limit: int | None,
    *,
    is_fresh: bool = False,
    link: Callable[[], Plan] | None = None,
) -> Outcome:
    """Runs the plan, and prints the `[torvyn]` lines before and after it. `link`: links it anew,
    for `torvyn reload`."""
    from torvyn.cli.summary import summary_line
    from torvyn.observe.logs import show_logs
    from torvyn.reactor import Flow

    flow = Flow.from_plan(plan)
    flow.is_fresh = is_fresh
    if limit is not None:
        flow.limit(limit)
    with show_logs(
        screen.format,
        screen.log_level,
        plan.secrets,
        component_level=screen.component_log_level,
    ):
        screen.info(f"[torvyn] Running flow '{plan.name}'", "")
        _log(screen, "flow.started", f"running flow `{plan.name}`", flow=plan.name)
        flow, outcome = _run_versions(screen, flow, link)
        line = summary_line(outcome.statistics)
        message = f"flow `{plan.name}` {outcome.state}: {line}"
        filtered = _filtered_side(flow)
        side = {} if filtered is None else {"finish": "content_filter", "side": filtered}
        _log(screen, "flow.ended", message, flow=plan.name, state=outcome.state, **side)
    if outcome.state != "unread":
        screen.info("", f"[torvyn] Flow '{plan.name}' {outcome.state}.", f"[torvyn] {line}")
        if filtered is not None:
            screen.info(f"[torvyn] {FILTERED[filtered]}")
    return outcome


def _run_versions(
    screen: Screen, flow: Flow, link: Callable[[], Plan] | None
) -> tuple[Flow, Outcome]:
    """Runs the flow, and those that follow it when its graph changes. Returns the last one."""
    from torvyn.cli.supervision.control_socket import ControlSocket
    from torvyn.cli.supervision.reloader import Reloader
    from torvyn.reactor import Flow as NewFlow

    if link is None:
        return flow, _run_flow(screen, flow)
    reloader = Reloader(flow, link)
    with ControlSocket(reloader):
        while True:
            outcome = _run_flow(screen, flow)
            plan = reloader.take_successor()
            if plan is None or outcome.state in ("interrupted", "terminated"):
                return flow, outcome
            flow = NewFlow.from_plan(plan)
            reloader.follow(flow)
            _log(screen, "flow.restarted", f"running flow `{plan.name}` again", flow=plan.name)


def _run_flow(screen: Screen, flow: Flow) -> Outcome:
    from torvyn.cli.foreground_run import run_in_foreground
    from torvyn.cli.supervision.status_socket import StatusSocket
    from torvyn.cli.supervision.supervisor import make_health_check, make_supervisor
    from torvyn.observe.telemetry import FlowTelemetry

    check = make_health_check(flow.plan)
    with StatusSocket(flow, check), FlowTelemetry(flow) as telemetry:
        supervisor = make_supervisor(flow, check)
        outcome = run_in_foreground(flow, partial(_notice, screen), supervisor)
        telemetry.ended(outcome.statistics, outcome.state, outcome.error)
    return outcome


FILTERED = {
    "prompt": "A guard blocked the prompt; the engine did not receive it (content_filter).",
    "completion": "A guard ended the answer (content_filter).",
}


def _filtered_side(flow: Flow) -> str | None:
    """The side on which a guard ended an engine's answer; None if no guard did."""
    end, names = flow.end, [node.component.name for node in flow.plan.nodes]
    if end is None or end.finish_reason != "content_filter":
        return None
    has_engine = any(name.startswith("engine:") for name in names)
    return end.side or ("completion" if has_engine else None)


def _notice(screen: Screen, text: str) -> None:
    """Writes to stderr directly: the screen flushes stdout first, where a component may hang."""
    if not screen.is_quiet and not screen.is_json:
        with suppress(OSError, ValueError):
            print(f"\n[torvyn] {text}", file=sys.stderr, flush=True)


def _log(screen: Screen, event: str, message: str, **fields: str) -> None:
    """Logs what the `[torvyn]` lines say, for JSON output."""
    if screen.is_json:
        logger.info(message, extra={"event": event, **fields})


def _show_statistics(screen: Screen, plan: Plan, outcome: Outcome) -> None:
    from torvyn.cli.summary import statistics_tables

    if screen.is_json:
        warnings = [warning.to_dict() for warning in plan.warnings]
        fields = {**outcome.statistics.to_dict(), "outcome": outcome.state, "warnings": warnings}
        screen.document(fields, indent=None)
    else:
        screen.message("\n" + statistics_tables(outcome.statistics))
