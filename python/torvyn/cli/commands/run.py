"""`torvyn run`: runs a flow and prints its summary."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.screen import Screen
from torvyn.cli.target import (
    Ends,
    Target,
    artifact_options,
    end_options,
    flow_options,
    show_plan,
    target_with_ends,
)
from torvyn.concurrency.line_output import write_lines
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from torvyn.cli.foreground_run import Outcome
    from torvyn.cli.supervision.exchanger import LinkProject
    from torvyn.link.plan import Plan
    from torvyn.reactor import Flow

    Exchange = tuple[Path, LinkProject]

logger = logging.getLogger("torvyn.cli")

EXAMPLE = """\
torvyn run
torvyn run flow.main --input tokens.txt --limit 1000 --stats
torvyn run --config filter.words=secret,private
torvyn run flow.main --segment uplink --nats nats://10.0.0.2:4222
torvyn run flow.main --on ray"""


def segment_options(function: Callable[..., int]) -> Callable[..., int]:
    """The options of a process that runs a part of a flow."""
    options = (
        click.option(
            "--segment",
            "segments",
            multiple=True,
            metavar="NAME",
            help="Run only this segment, named by its first node; the `nats` edges at its ends "
            "connect it with the others. Repeatable.",
        ),
        click.option(
            "--replica",
            type=click.IntRange(min=0),
            default=0,
            metavar="N",
            help="Which of the replicas of the segments this process is, from 0 on.",
        ),
        click.option(
            "--run",
            "run_name",
            default="",
            metavar="NAME",
            help="The name of this run of a flow with `nats` edges: a segment that has ended in it "
            "is not run again.",
        ),
        click.option("--nats", metavar="URL", help="The broker of `nats` edges."),
        click.option(
            "--on",
            metavar="CLUSTER",
            help="Run the groups of the flow on a cluster: `ray` on this machine, or on the one at "
            "`ray://HOST:PORT` or HOST:PORT.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


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
@segment_options
def command(
    screen: Screen,
    fresh: bool,
    stats: bool,
    segments: tuple[str, ...],
    replica: int,
    run_name: str,
    nats: str | None,
    on: str | None,
    **options: Any,
) -> int:
    """Run a flow.

    Output of components goes to standard output, messages go to standard error. Ctrl-C drains the
    flow: the sources stop, and the elements in the flow still reach the sinks. A second Ctrl-C
    cancels the flow, a third ends the process. A flow with durable edges or checkpoints saves its
    state instead, and the next run continues there. With `--stats --format json`, the last line of
    standard output is a JSON object with the statistics.
    """
    from torvyn.cli.memory_warnings import memory_warnings
    from torvyn.cli.supervision.prepared_start import wait_for_start
    from torvyn.cli.supervision.unit_options import stop_limit_s

    if nats is not None:
        options["settings"] = (*options["settings"], f"cluster.nats={nats}")
    target, ends, limit = target_with_ends(options)
    restarts = None
    if on is not None:
        _check_alone(segments=segments, limit=limit, run_name=run_name)
        plan, outcome, restarts = _run_on(screen, on, target, ends, is_fresh=fresh)
    else:
        ends |= {"segments": segments, "replica": replica, "run": run_name}
        plan = target.link(screen, **ends)
        screen.warn(memory_warnings(plan))
        exchange = None
        if wait_for_start(stop_limit_s(plan)):
            exchange = (target.project, lambda *place: target.moved(*place).plan(**ends))
        link = partial(target.plan, **ends)
        outcome = run_plan(screen, plan, limit, is_fresh=fresh, link=link, exchange=exchange)
    if stats:
        _show_statistics(screen, plan, outcome, restarts)
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
    exchange: Exchange | None = None,
) -> Outcome:
    """Runs the plan, and prints the `[torvyn]` lines before and after it. `link`: links it anew,
    for `torvyn reload`. `exchange`: the folder of its project, and how to link another one in its
    place, for `torvyn deploy run`."""
    from torvyn.reactor import Flow

    flow = Flow.from_plan(plan)
    flow.is_fresh = is_fresh
    if limit is not None:
        flow.limit(limit)

    def run() -> tuple[Outcome, str | None]:
        last, outcome = _run_versions(screen, flow, link, exchange)
        return outcome, _filtered_side(last)

    return _run_announced(screen, plan, run)


def _run_announced(
    screen: Screen, plan: Plan, run: Callable[[], tuple[Outcome, str | None]]
) -> Outcome:
    """Prints the `[torvyn]` lines around a run. `run` also returns the side that was filtered."""
    from torvyn.cli.summary import hidden_output, summary_line
    from torvyn.observe.logs import show_logs

    with show_logs(
        screen.format,
        screen.log_level,
        plan.secrets,
        component_level=screen.component_log_level,
    ):
        screen.info(f"[torvyn] Running flow '{plan.name}'", "")
        _log(screen, "flow.started", f"running flow `{plan.name}`", flow=plan.name)
        outcome, filtered = run()
        line = summary_line(outcome.statistics)
        message = f"flow `{plan.name}` {outcome.state}: {line}"
        side = {} if filtered is None else {"finish": "content_filter", "side": filtered}
        _log(screen, "flow.ended", message, flow=plan.name, state=outcome.state, **side)
    if outcome.state != "unread":
        screen.info("", f"[torvyn] Flow '{plan.name}' {outcome.state}.", f"[torvyn] {line}")
        if filtered is not None:
            screen.info(f"[torvyn] {FILTERED[filtered]}")
        # With `-v` the log shows them.
        hidden = [] if screen.verbose else hidden_output(plan, outcome.statistics)
        if hidden:
            screen.info(*hidden)
    return outcome


def _run_on(
    screen: Screen, on: str, target: Target, ends: Ends, *, is_fresh: bool
) -> tuple[Plan, Outcome, int]:
    """Runs the flow on a cluster; also returns how many processes were started again."""
    from torvyn.cli.cluster_run import log_options, run_on_cluster
    from torvyn.cluster.ray.session import ClusterRequest

    linker = target.linker(screen, **ends)
    plan = show_plan(screen, linker.plan(target.flow))
    request = ClusterRequest(
        plan, linker.manifest, linker.overrides, on, log_options(screen), is_fresh=is_fresh
    )

    restarts = 0

    def run() -> tuple[Outcome, None]:
        nonlocal restarts
        outcome, restarts = run_on_cluster(request, partial(_notice, screen))
        if restarts:
            screen.info("", f"[torvyn] Processes that were started again: {restarts}")
        return outcome, None

    return plan, _run_announced(screen, plan, run), restarts


def _check_alone(*, segments: tuple[str, ...], limit: int | None, run_name: str) -> None:
    """Refuses options that have no meaning, or another one, on a cluster."""
    given = {"--segment": segments, "--run": run_name, "--limit": limit is not None}
    hints = {
        "--segment": "a cluster runs all segments; leave one of the two options out",
        "--run": "the command names the run itself",
        "--limit": "limit the source by its own config",
    }
    for option, is_given in given.items():
        if is_given:
            message = f"`{option}` cannot be used together with `--on`"
            raise UsageError("cli.bad-usage", message, hint=hints.get(option))


def _run_versions(
    screen: Screen,
    flow: Flow,
    link: Callable[[], Plan] | None,
    exchange: Exchange | None,
) -> tuple[Flow, Outcome]:
    """Runs the flow, and those that follow it when its graph changes. Returns the last one."""
    from torvyn.cli.supervision.control_socket import ControlSocket
    from torvyn.cli.supervision.reloader import Reloader
    from torvyn.reactor import Flow as NewFlow

    if link is None:
        return flow, _run_flow(screen, flow)
    reloader = Reloader(flow, link)
    commands = {"difference": reloader.difference, "reload": reloader.reload}
    if exchange is not None:
        from torvyn.cli.supervision.exchanger import Exchanger

        commands["exchange"] = Exchanger(reloader, *exchange).exchange
    with ControlSocket(commands):
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
        if getattr(outcome.error, "code", "") == "broker.run-over":
            # Whoever starts it again has not seen that it had ended.
            screen.info(f"[torvyn] {outcome.error}")
            outcome = replace(outcome, state="completed", error=None)
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
            write_lines(sys.stderr, f"\n[torvyn] {text}")
            sys.stderr.flush()


def _log(screen: Screen, event: str, message: str, **fields: str) -> None:
    """Logs what the `[torvyn]` lines say, for JSON output."""
    if screen.is_json:
        logger.info(message, extra={"event": event, **fields})


def _show_statistics(screen: Screen, plan: Plan, outcome: Outcome, restarts: int | None) -> None:
    from torvyn.cli.summary import statistics_tables

    if screen.is_json:
        warnings = [warning.to_dict() for warning in plan.warnings]
        fields = {**outcome.statistics.to_dict(), "outcome": outcome.state, "warnings": warnings}
        if restarts is not None:
            fields["restarts"] = restarts
        screen.document(fields, indent=None)
    else:
        screen.message("\n" + statistics_tables(outcome.statistics))
        if restarts:
            screen.message("Nodes whose process died count since its last start.")
