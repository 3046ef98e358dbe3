"""`torvyn run`: runs flows and prints their summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.flow_runs import RunRequest, notice, run_flows, show_end, show_start, shown_logs
from torvyn._cli.screen import Screen
from torvyn._cli.target import (
    Ends,
    Target,
    artifact_options,
    end_options,
    flows_options,
    show_plans,
    target_with_ends,
)
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._cli.foreground import Outcome
    from torvyn._link.plan import Plan

EXAMPLE = """\
torvyn run
torvyn run flow.main --input tokens.txt --limit 1000 --stats
torvyn run --config filter.words=secret,private
torvyn run flow.alarms flow.history --config alarms.source.path=/dev/ttyUSB0
torvyn run --all --timeout 10s
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
@flows_options
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
@click.option("--check", is_flag=True, help="Link the flows, then exit.")
@segment_options
def command(
    screen: Screen,
    fresh: bool,
    stats: bool,
    check: bool,
    segments: tuple[str, ...],
    replica: int,
    run_name: str,
    nats: str | None,
    on: str | None,
    **options: Any,
) -> int:
    """Run a flow, or several in one process.

    Output of components goes to standard output, messages go to standard error. Ctrl-C drains the
    flow: the sources stop, and the elements in the flow still reach the sinks. A second Ctrl-C
    cancels the flow, a third ends the process. A flow with durable edges or checkpoints saves its
    state instead, and the next run continues there. With `--stats --format json`, the last line of
    standard output is a JSON object with the statistics.

    Several flows share the workers by their priorities. Each line begins with the name of its flow,
    and each flow has a summary. A flow that fails does not end the others; the exit code is the
    highest of all flows. `--limit` and `--timeout` are for each flow, Ctrl-C is for all. The JSON
    object has `flows`, a list with one object per flow.
    """
    from torvyn._cli.target import memory_warnings
    from torvyn._io.supervision import wait_for_start

    if nats is not None:
        options["settings"] = (*options["settings"], f"cluster.nats={nats}")
    target, ends, limit = target_with_ends(options)
    given = {"--segment": segments, "--replica": replica, "--run": run_name, "--on": on}
    if target.is_of_several:
        _check_several({"--input": ends["input"], "--output": ends["output"], **given})
    if on is not None:
        _check_alone(segments=segments, limit=limit, run_name=run_name, is_check=check)
        return _run_on(screen, on, target, ends, is_fresh=fresh, has_statistics=stats)
    ends |= {"segments": segments, "replica": replica, "run": run_name}
    plans = show_plans(screen, target.plans(screen, **ends))
    screen.warn(memory_warnings(plans))
    names = [plan.name for plan in plans]
    if check:
        return _say_checked(screen, names)
    is_supervised = wait_for_start(max(plan.stop_limit_s for plan in plans))
    requests = [
        RunRequest(plan, limit, fresh, partial(target.only(plan.name, names).plan, **ends))
        for plan in plans
    ]
    exchange = (target.project, lambda *place: target.moved(*place).plans(**ends))
    outcomes = run_flows(screen, requests, exchange if is_supervised else None)
    if stats:
        _show_statistics(screen, plans, outcomes, is_list=target.is_of_several)
    if len(outcomes) == 1:
        _raise_failure(screen, outcomes[0])
    return max(outcome.exit_code for outcome in outcomes)


def _say_checked(screen: Screen, flows: Sequence[str]) -> int:
    if screen.is_json:
        screen.document({"flows": flows})
    else:
        screen.info(f"[torvyn] {', '.join(f'`{name}`' for name in flows)} can be run.")
    return 0


def _raise_failure(screen: Screen, outcome: Outcome) -> None:
    if outcome.state == "failed" and outcome.error is not None:
        screen.info("")
        raise outcome.error


def _run_on(
    screen: Screen, on: str, target: Target, ends: Ends, *, is_fresh: bool, has_statistics: bool
) -> int:
    """Runs the flow on a cluster."""
    from torvyn._cli.cluster_run import log_options, run_on_cluster
    from torvyn._cluster.session import ClusterRequest

    linker = target.linker(screen, **ends)
    [plan] = show_plans(screen, [linker.plan(target.flow)])
    request = ClusterRequest(
        plan, linker.manifest, linker.overrides, on, log_options(screen), is_fresh=is_fresh
    )
    with shown_logs(screen, [plan]):
        show_start(screen, plan)
        outcome, restarts = run_on_cluster(request, partial(notice, screen))
        if restarts:
            screen.info("", f"[torvyn] Processes that were started again: {restarts}")
        show_end(screen, plan, outcome)
    if has_statistics:
        _show_statistics(screen, [plan], [outcome], restarts, is_list=False)
    _raise_failure(screen, outcome)
    return outcome.exit_code


def _check_alone(
    *, segments: tuple[str, ...], limit: int | None, run_name: str, is_check: bool
) -> None:
    """Refuses options that have no meaning, or another one, on a cluster."""
    given = {
        "--segment": segments,
        "--run": run_name,
        "--limit": limit is not None,
        "--check": is_check,
    }
    hints = {
        "--segment": "a cluster runs all segments; leave one of the two options out",
        "--run": "the command names the run itself",
        "--limit": "limit the source by its own config",
        "--check": "`torvyn link --on` shows what the cluster would run",
    }
    for option, is_given in given.items():
        if is_given:
            message = f"`{option}` cannot be used together with `--on`"
            raise UsageError("cli.bad-usage", message, hint=hints.get(option))


def _check_several(given: Mapping[str, Any]) -> None:
    """Refuses options that are about one flow, or about a part of one."""
    paths = "set the path of each flow: `--config FLOW.NODE.path=FILE`"
    for option in [option for option, value in given.items() if value]:
        message = f"`{option}` is for one flow, and this process is to run several"
        hint = paths if option in ("--input", "--output") else "run this flow with a command alone"
        raise UsageError("cli.bad-usage", message, hint=hint)


def _show_statistics(
    screen: Screen,
    plans: Sequence[Plan],
    outcomes: Sequence[Outcome],
    restarts: int | None = None,
    *,
    is_list: bool,
) -> None:
    if screen.is_json:
        found = [*map(_statistics_fields, plans, outcomes)]
        if restarts is not None:
            found[0]["restarts"] = restarts
        screen.document({"flows": found} if is_list else found[0], indent=None)
        return
    from torvyn._cli.statistics import statistics_tables

    for plan, outcome in zip(plans, outcomes, strict=True):
        head = f"flow {plan.name}\n\n" if len(plans) > 1 else ""
        screen.message(f"\n{head}{statistics_tables(outcome.statistics)}")
    if restarts:
        screen.message("Nodes whose process died count since its last start.")


def _statistics_fields(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    warnings = [warning.to_dict() for warning in plan.warnings]
    return {**outcome.statistics.to_dict(), "outcome": outcome.state, "warnings": warnings}
