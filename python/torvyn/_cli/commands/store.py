"""`torvyn store`: what flows have stored, elements that wait and dead letters."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.command import command_group
from torvyn._cli.screen import Screen
from torvyn._cli.target import Target, manifest_option, set_option
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._cli.stored_elements import ShownLetter, StoredElements
    from torvyn._link.plan import Plan

Function = TypeVar("Function", bound=Callable[..., Any])

EPILOG = """\b
Examples:
  torvyn store show
  torvyn store retry main --node uplink
  torvyn store drop main --id 7
"""
_PAYLOAD_CHARACTERS: Final = 40
_REASON_CHARACTERS: Final = 70


@command_group("store", epilog=EPILOG)
def command() -> None:
    """Show and settle what a flow has stored.

    A flow with a `disk` edge keeps the elements that wait for the node behind the edge, its
    backlog. An element that a node refuses for good, such as one that a server answers with 400,
    would stop everything behind it: it is set aside as a dead letter, and stays one until you put
    it back or drop it.
    """


def _arguments(function: Function) -> Function:
    for option in (
        set_option,
        manifest_option,
        click.argument("flow", required=False, metavar="[FLOW]"),
    ):
        function = option(function)
    return function


def _choice(function: Function) -> Function:
    """Which dead letters are meant."""
    options = (
        click.option("--node", metavar="NAME", help="The dead letters of this node."),
        click.option(
            "--id", "ids", type=int, multiple=True, metavar="N", help="This one. Repeatable."
        ),
        click.option("--all", "is_all", is_flag=True, help="All dead letters of the flow."),
    )
    for option in reversed(options):
        function = option(function)
    return function


SHOW_EXAMPLE = """\
torvyn store show
torvyn store show main --node uplink --limit 100
torvyn store show main --id 7
torvyn store show --format json"""


@make_command("show", example=SHOW_EXAMPLE)
@_arguments
@click.option("--node", metavar="NAME", help="Only the dead letters of this node.")
@click.option(
    "--id",
    "ids",
    type=int,
    multiple=True,
    metavar="N",
    help="Only this dead letter, in full. Repeatable.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="How many dead letters to show, the oldest first.",
)
def show(
    screen: Screen,
    flow: str | None,
    manifest: str,
    settings: tuple[str, ...],
    node: str | None,
    ids: tuple[int, ...],
    limit: int,
) -> int:
    """Show what waits on each edge, and the dead letters.

    Without FLOW, all flows of the manifest that store something. Looks at a flow that runs as well
    as at one that does not, and changes nothing. Control characters of payloads are escaped.
    """
    from torvyn._cli.stored_elements import StoredElements

    plans = [_one(screen, flow, manifest, settings)] if flow else _all(screen, manifest, settings)
    documents, texts = [], []
    for plan in plans:
        stored = StoredElements(plan)
        document, text = _shown(stored, node, ids, limit)
        documents.append(document)
        texts.append(text)
    if screen.is_json:
        screen.document({"flows": documents})
    elif texts:
        screen.data("\n".join(texts))
    else:
        screen.info("[torvyn] No flow of this manifest stores elements.")
    return 0


RETRY_EXAMPLE = """\
torvyn store retry main --all
torvyn store retry main --node uplink
torvyn store retry main --id 7 --id 8"""


@make_command("retry", example=RETRY_EXAMPLE)
@_arguments
@_choice
def retry(
    screen: Screen,
    flow: str | None,
    manifest: str,
    settings: tuple[str, ...],
    node: str | None,
    ids: tuple[int, ...],
    is_all: bool,
) -> int:
    """Put dead letters back to the node that refused them.

    They become new elements of the `disk` edge in front of that node, behind what waits there. A
    flow that runs takes them within a second or two, any other one when it starts the next time.
    One that is refused again becomes a dead letter again.
    """
    from torvyn._cli.statistics import count
    from torvyn._cli.stored_elements import StoredElements, chosen

    stored = StoredElements(_one(screen, flow, manifest, settings))
    found = chosen(stored, node, ids, is_all=is_all)
    by_node = {each.id: each.node for each in stored.letters.read(found)}
    stuck = [name for name in dict.fromkeys(by_node.values()) if not stored.takes_letters(name)]
    for name in stuck:
        message = f"dead letters of `{name}` cannot be put back: no `disk` edge leads to it"
        if not is_all:
            hint = 'write `carrier = "disk"` on the edge in front of it, or drop them'
            raise UsageError("cli.bad-value", message, hint=hint)
        screen.info(f"[torvyn] {message[0].upper()}{message[1:]}.")
    marked = stored.letters.retry([id for id, name in by_node.items() if name not in stuck])
    is_running = stored.waiting()[0]
    if screen.is_json:
        screen.document({"flow": stored.plan.name, "retried": marked, "running": is_running})
    else:
        when = "now" if is_running else "when the flow starts the next time"
        screen.info(f"[torvyn] {count(marked, 'dead letter')} put back; delivered {when}.")
    return 0


DROP_EXAMPLE = """\
torvyn store drop main --id 7
torvyn store drop main --node uplink --yes
torvyn store drop main --edge "readings:output->uplink" """


@make_command("drop", example=DROP_EXAMPLE.rstrip())
@_arguments
@_choice
@click.option(
    "--edge",
    metavar="EDGE",
    help="Drop what waits on this edge instead, as `show` names it. The flow must not run.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(
    screen: Screen,
    flow: str | None,
    manifest: str,
    settings: tuple[str, ...],
    node: str | None,
    ids: tuple[int, ...],
    is_all: bool,
    edge: str | None,
    yes: bool,
) -> int:
    """Remove dead letters, or the elements that wait on an edge.

    What is removed cannot be brought back. It is counted as discarded. Dead letters may be dropped
    while the flow runs.
    """
    from torvyn._cli.statistics import count
    from torvyn._cli.stored_elements import StoredElements, chosen

    stored = StoredElements(_one(screen, flow, manifest, settings))
    if edge is not None:
        waiting = {each.edge: each.elements for each in stored.waiting()[1]}
        what = count(waiting.get(edge, 0), "element")
        dropped = stored.drop_waiting(edge) if _is_wanted(screen, what, yes) else 0
    else:
        found = chosen(stored, node, ids, is_all=is_all)
        what = count(len(found), "dead letter")
        is_wanted = not found or _is_wanted(screen, what, yes)
        dropped = stored.letters.remove(found, "discarded") if is_wanted else 0
    if screen.is_json:
        screen.document({"flow": stored.plan.name, "dropped": dropped})
    else:
        screen.info(f"[torvyn] {count(dropped, 'element')} dropped.")
    return 0


for subcommand in (show, retry, drop):
    command.add_command(subcommand)


def _is_wanted(screen: Screen, what: str, yes: bool) -> bool:
    if yes:
        return True
    if screen.is_json or not sys.stdin.isatty():
        hint = "`torvyn store show` shows what would be dropped"
        raise UsageError("cli.missing-argument", "nobody can be asked; add `--yes`", hint=hint)
    return click.confirm(f"Drop {what} for ever?", err=True)


def _one(screen: Screen, flow: str | None, manifest: str, settings: tuple[str, ...]) -> Plan:
    from torvyn._cli.stored_elements import durable_plan

    target = _target(flow, manifest, settings)
    if flow is None:
        found = _all(screen, manifest, settings)
        if len(found) == 1:
            return found[0]
    return durable_plan(target.plan(screen))


def _all(screen: Screen, manifest: str, settings: tuple[str, ...]) -> list[Plan]:
    linker = _target(None, manifest, settings).linker(screen)
    return [plan for plan in linker.plans_of(None) if plan.checkpoint_s and plan.state_dir]


def _target(flow: str | None, manifest: str, settings: tuple[str, ...]) -> Target:
    return Target.of(
        flows=() if flow is None else (flow,),
        flow_name=None,
        manifest=manifest,
        overrides=(),
        settings=settings,
    )


def _shown(
    stored: StoredElements, node: str | None, ids: Sequence[int], limit: int
) -> tuple[dict[str, Any], str]:
    from torvyn._cli.stored_elements import ShownLetter, chosen, iso_time

    is_running, waiting = stored.waiting()
    found = chosen(stored, node, ids, is_all=True)
    shown = [ShownLetter.of(each) for each in stored.letters.read(found[:limit])]
    accounts = [each for each in stored.letters.nodes() if node in (None, each.node)]
    edges = [asdict(each) for each in waiting]
    nodes = [asdict(each) for each in accounts]
    for each in (*edges, *nodes):
        oldest_ns = each.pop("oldest_ns")
        each["oldest"] = None if oldest_ns is None else iso_time(oldest_ns)
    document = {
        "flow": stored.plan.name,
        "folder": str(stored.path.parent),
        "running": is_running,
        "edges": edges,
        "dead_letters": {
            "nodes": nodes,
            "letters": [each.to_dict() for each in shown],
            "more": len(found) - len(shown),
        },
    }
    if ids:
        return document, "\n".join(map(_whole, shown))
    return document, _tables(stored, document, shown)


def _tables(stored: StoredElements, document: dict[str, Any], shown: Sequence[ShownLetter]) -> str:
    from torvyn._cli.statistics import count, size, table
    from torvyn._cli.stored_elements import folder_text

    state = "running" if document["running"] else "not running"
    blocks = [f"flow {stored.plan.name}   {state}   {folder_text(stored.path)}\n"]
    edges = document["edges"]
    rows = [
        (each["edge"], str(each["elements"]), size(each["bytes"]), _age(each["oldest"]))
        for each in edges
    ]
    if rows:
        blocks.append(table(("edge", "waiting", "bytes", "oldest"), rows))
    counts = ("waiting", "set_aside", "returned", "discarded", "dropped", "damaged")
    rows = [
        (each["node"], *(str(each[name]) for name in counts), _age(each["oldest"]))
        for each in document["dead_letters"]["nodes"]
    ]
    if rows:
        heads = (name.replace("_", " ") for name in counts)
        blocks.append(table(("dead letters of", *heads, "oldest"), rows))
    if shown:
        blocks.append(_letter_table(shown))
        if more := document["dead_letters"]["more"]:
            blocks.append(f"and {count(more, 'more dead letter')}: `--limit N` shows them\n")
    elif not document["dead_letters"]["nodes"]:
        blocks.append("No dead letters.\n")
    return "\n".join(blocks)


def _letter_table(shown: Sequence[ShownLetter]) -> str:
    from torvyn._cli.statistics import table
    from torvyn._cli.stored_elements import iso_time
    from torvyn._io.safe_text import escape_line

    rows = [
        (
            str(each.letter.id),
            each.letter.node,
            _age(iso_time(each.letter.at_ns)),
            each.letter.state,
            _short(each.text(), _PAYLOAD_CHARACTERS),
            _short(escape_line(each.letter.message), _REASON_CHARACTERS),
        )
        for each in shown
    ]
    return table(("id", "node", "age", "state", "payload", "reason"), rows)


def _whole(each: ShownLetter) -> str:
    from torvyn._cli.stored_elements import iso_time
    from torvyn._io.safe_text import escape_line

    letter = each.letter
    facts = {
        "id": letter.id,
        "node": letter.node,
        "time": iso_time(letter.at_ns),
        "state": letter.state,
        "number": "-" if letter.sequence is None else f"{letter.sequence} of {letter.epoch}",
        "reason": f"{letter.message} ({letter.code})",
        "content type": each.content_type or "-",
        "attributes": each.attributes or "-",
        "payload": each.text(),
    }
    return "".join(f"{name:14}{escape_line(str(value))}\n" for name, value in facts.items())


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _age(iso: str | None) -> str:
    from datetime import datetime

    from torvyn._cli.statistics import age

    if iso is None:
        return "-"
    return age(time.time() - datetime.fromisoformat(iso).timestamp())
