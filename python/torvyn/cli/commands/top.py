"""`torvyn top`: shows the flows that run on this machine, and what their nodes use."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.screen import Screen
from torvyn.cli.target import duration_s

_CLEAR: Final = "\x1b[H\x1b[2J"

Before = dict[tuple[int, str], dict[str, Any]]
"""The documents of the flows as they were last shown."""

EXAMPLE = """\
torvyn top
torvyn top --once --format json"""


@make_command("top", example=EXAMPLE)
@click.option(
    "--interval",
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="How often to refresh the tables.",
)
@click.option("--once", is_flag=True, help="Print the tables once; rates are since the start.")
@click.option(
    "--check",
    "is_check",
    is_flag=True,
    help="Print only the flows that stand still. The exit code is 1 if there is one, or no flow.",
)
@click.option("--pid", type=int, metavar="N", help="Show only the flows of this process.")
def command(screen: Screen, interval: str, once: bool, is_check: bool, pid: int | None) -> int:
    """Show the running flows, and what each node uses.

    Lists the flows of `torvyn run` that you may see, with the elements per second of each node, the
    bytes that wait in its queues, the memory and the CPU time that it uses. Ctrl-C ends it. Where
    standard output is not a terminal, the tables are printed once.
    """
    interval_s = duration_s("--interval", interval)
    if is_check:
        return _check(screen, _flows(pid))
    if screen.is_json or once or not sys.stdout.isatty():
        return _show_once(screen, pid)
    before: Before = {}
    try:
        while True:
            found = _flows(pid)
            sys.stdout.write(_CLEAR)
            screen.data(_render(found, before))
            before = {_key(document): document for document in found}
            time.sleep(interval_s)
    except KeyboardInterrupt:
        return 0


def _show_once(screen: Screen, pid: int | None) -> int:
    found = _flows(pid)
    if screen.is_json:
        screen.document({"flows": found})
    else:
        screen.data(_render(found, {}))
    return 0


def _check(screen: Screen, found: list[dict[str, Any]]) -> int:
    """For the probe of a container."""
    from torvyn.reactor.health import FAILED

    failed = [each for each in found if each["health"]["state"] in FAILED]
    if screen.is_json:
        screen.document({"flows": failed})
    elif failed or not found:
        screen.data(_render(failed, {}))
    return 1 if failed or not found else 0


def _flows(pid: int | None) -> list[dict[str, Any]]:
    from torvyn.cli.supervision.running_flows import running_flows

    return [document for document in running_flows() if pid in (None, document["pid"])]


def _key(document: dict[str, Any]) -> tuple[int, str]:
    return document["pid"], document["flow"]


def _render(found: list[dict[str, Any]], before: Before) -> str:
    from torvyn.cli.supervision.top_table import render_flow

    if not found:
        return "No flow is running.\n"
    return "\n".join(render_flow(document, before.get(_key(document))) for document in found)
