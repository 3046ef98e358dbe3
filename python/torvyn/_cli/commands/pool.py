"""`torvyn pool`: shows the members of a server's pools, and changes them while it serves."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.command import command_group
from torvyn._cli.screen import Screen

Function = TypeVar("Function", bound=Callable[..., Any])
DEFAULT: Final = "http://127.0.0.1:8080"
EPILOG: Final = """\b
Examples:
  torvyn pool status
  torvyn pool drain gpu1:8000
  torvyn pool replace gpu1:8000 http://gpu9:8000/v1
"""
_HEADS: Final = ("flow", "member", "state", "in flight", "limit", "done", "failed", "first text")


@command_group("pool", epilog=EPILOG)
def command() -> None:
    """Show and change the members of a server's pools.

    A pool is an engine with several servers as its members (`engine:pool`). Nothing breaks an
    answer: a member that is drained or removed ends those that it has begun, and a new one gets
    requests once it is well.
    """


def server_options(function: Function) -> Function:
    options = (
        click.option("--server", default=DEFAULT, show_default=True, help="The Torvyn server."),
        click.option("--key", help="Its admin key. Prefer the variable TORVYN_KEY."),
        click.option("--flow", metavar="NAME", help="The flow, if several have a pool."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@make_command("status", example="torvyn pool status --format json")
@server_options
def status(screen: Screen, server: str, key: str | None, flow: str | None) -> int:
    """Show the members: their state, their load, and what they have done."""
    pools = _call(screen, server, key, lambda client: client.pools())
    if flow is not None:
        pools = {name: state for name, state in pools.items() if name == flow}
    if screen.is_json:
        screen.document({"pools": pools})
    elif pools:
        _show(screen, pools)
    else:
        screen.info("[torvyn] The server has no pool.")
    return 0


@make_command("drain", example="torvyn pool drain gpu1:8000")
@click.argument("member", metavar="MEMBER")
@server_options
def drain(screen: Screen, member: str, **where: str | None) -> int:
    """Send a member no more requests. Those that it has run to their end."""
    return _change(screen, where, "drain", member=member)


@make_command("resume", example="torvyn pool resume gpu1:8000")
@click.argument("member", metavar="MEMBER")
@server_options
def resume(screen: Screen, member: str, **where: str | None) -> int:
    """Send a drained member requests again."""
    return _change(screen, where, "resume", member=member)


@make_command("remove", example="torvyn pool remove gpu1:8000")
@click.argument("member", metavar="MEMBER")
@server_options
def remove(screen: Screen, member: str, **where: str | None) -> int:
    """Drain a member; it leaves the pool when its last request has ended."""
    return _change(screen, where, "remove", member=member)


@make_command("add", example="torvyn pool add http://gpu9:8000/v1")
@click.argument("address", metavar="URL")
@server_options
def add(screen: Screen, address: str, **where: str | None) -> int:
    """Add a member. It gets requests once a health check has succeeded."""
    return _change(screen, where, "add", address=address)


@make_command("replace", example="torvyn pool replace gpu1:8000 http://gpu9:8000/v1")
@click.argument("member", required=False, metavar="[MEMBER")
@click.argument("address", required=False, metavar="URL]")
@server_options
def replace(screen: Screen, member: str | None, address: str | None, **where: str | None) -> int:
    """Replace a member by another one: the new one joins, then the old one is drained.

    Without arguments, replaces all members of a pool on Ray, one after another.
    """
    if member is None:
        return _change(screen, where, "replace_all")
    if address is None:
        from torvyn.errors import UsageError

        message = "the address of the new member is missing"
        raise UsageError("cli.missing-argument", message)
    return _change(screen, where, "replace", member=member, address=address)


for _subcommand in (status, drain, resume, remove, add, replace):
    command.add_command(_subcommand)


def _change(screen: Screen, where: dict[str, str | None], action: str, **fields: str) -> int:
    server, flow = where["server"] or DEFAULT, where["flow"]
    named = fields if flow is None else {"flow": flow, **fields}
    state = _call(screen, server, where["key"], lambda each: each.change_pool(action, **named))
    if screen.is_json:
        screen.document(state)
    else:
        _show(screen, {flow or "": state})
    return 0


def _call(screen: Screen, server: str, key: str | None, ask: Callable[[Any], Any]) -> Any:
    from torvyn.client import Client

    key = key or os.environ.get("TORVYN_KEY")
    screen.secrets = frozenset({key} if key else ())
    with Client(server, key=key) as client:
        return ask(client)


def _show(screen: Screen, pools: dict[str, Any]) -> None:
    from torvyn._cli.statistics import table

    rows = []
    for flow, state in pools.items():
        for member in state["members"]:
            outcomes = member["outcomes"]
            failed = sum(count for name, count in outcomes.items() if name not in ("done", "left"))
            figures = (member["in_flight"], member["limit"], outcomes.get("done", 0), failed)
            first_text = f"{member['first_text_s'] * 1e3:.0f} ms"
            rows.append((flow, member["name"], member["state"], *map(str, figures), first_text))
    screen.data(table(_HEADS, rows))
    for flow, state in pools.items():
        if state["waiting"]:
            screen.info(f"[torvyn] {flow}: {state['waiting']} requests wait for a member.")
