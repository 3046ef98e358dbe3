"""`torvyn link`: shows the plan of a flow without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn._cli.target import Target, artifact_options, flow_options
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._link.plan import Plan

EXAMPLE = """\
torvyn link flow.main
torvyn link --config filter.words=secret --format json
torvyn link flow.main --format svg > flow.svg
torvyn link flow.main --on ray
torvyn link flow.main --on kubernetes --image registry.example/shop:1.2 -o manifests"""

PICTURES = ("svg", "mermaid", "dot")


@make_command("link", example=EXAMPLE, formats=("human", "json", *PICTURES))
@flow_options
@artifact_options
@click.option(
    "--on",
    "cluster",
    type=click.Choice(["ray", "kubernetes"]),
    help="Show what a cluster would run: groups of nodes, what they need, and their edges; for "
    "Kubernetes, as manifests.",
)
@click.option("--image", metavar="NAME", help="Kubernetes: the image with torvyn and the project.")
@click.option("--namespace", metavar="NAME", help="Kubernetes: the namespace of all objects.")
@click.option(
    "--nats",
    metavar="URL",
    help="Kubernetes: a broker that exists. By default `nats` of `[cluster]`, unless that is on "
    "this machine; else the manifests have one.",
)
@click.option(
    "--job",
    metavar="RUN",
    help="Kubernetes: the groups are Jobs, which end with the flow, and this is the name of the "
    "run. By default they are StatefulSets, which run for ever.",
)
@click.option(
    "-o", "--output", metavar="FOLDER", help="Kubernetes: write the manifests to this folder."
)
def command(
    screen: Screen,
    cluster: str | None,
    image: str | None,
    namespace: str | None,
    nats: str | None,
    job: str | None,
    output: str | None,
    **options: Any,
) -> int:
    """Show the plan of a flow without running it.

    Lists the nodes in the order in which they start, with their roles and components, and the
    edges with the capacities of their queues. `--format svg` draws the same as a picture for light
    and dark pages; `mermaid` and `dot` are for tools that lay out graphs themselves. `--on
    kubernetes` prints manifests for `kubectl apply`, in which every group of the flow is a
    StatefulSet, or with `--job` a Job.
    """
    from torvyn._cli.kubernetes_output import KubernetesArguments, show_manifests

    if cluster is not None and screen.format in PICTURES:
        raise UsageError("cli.bad-usage", f"`--on {cluster}` has no `--format {screen.format}`")
    arguments = KubernetesArguments(image, namespace, nats, job, output)
    target = Target.of(**options)
    if cluster == "kubernetes":
        return show_manifests(screen, target, arguments)
    for option in arguments.given:
        raise UsageError("cli.bad-usage", f"`{option}` is only for `--on kubernetes`")
    plan = target.link(screen)
    if cluster is not None:
        _show_placement(screen, plan, cluster)
    elif screen.is_json:
        screen.document(plan.to_dict())
    elif screen.format in PICTURES:
        from torvyn._link import picture

        screen.data(getattr(picture, f"render_{screen.format}")(plan))
    else:
        screen.data(plan.render())
    return 0


def _show_placement(screen: Screen, plan: Plan, cluster: str) -> None:
    from torvyn._cluster.placement import place

    placement = place(plan)
    if screen.is_json:
        screen.document(placement.to_dict())
    else:
        screen.data(plan.redact(placement.render(cluster)))
