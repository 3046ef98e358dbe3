"""`torvyn reload`: brings a running flow up to date with its files."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn._cli.target import duration_s
from torvyn.errors import Diagnostic, FlowError, Location, UsageError

EXAMPLE = """\
torvyn reload
torvyn reload main --dry-run
torvyn reload 4711 --yes --timeout 30s --format json"""


_POLL_S: Final = 0.02


@make_command("reload", example=EXAMPLE)
@click.argument("target", required=False, metavar="[FLOW|PID]")
@click.option("--dry-run", is_flag=True, help="Show what has changed, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--discard-state",
    is_flag=True,
    help="Let the new components start without the states of the old ones.",
)
@click.option(
    "--timeout",
    metavar="DURATION",
    default="10s",
    show_default=True,
    help="How long to wait until an element has passed each new component.",
)
def command(
    screen: Screen, target: str | None, dry_run: bool, yes: bool, discard_state: bool, timeout: str
) -> int:
    """Bring a running flow up to date with its files.

    Reads the manifest and the components of a flow that `torvyn run` runs, or of all flows of a
    process, shows what has changed, and swaps the components of these nodes between two
    elements: nothing is lost or repeated, and the flow goes on. Then it waits until an element has
    passed each new component. One that fails is swapped for the old one again, and the command
    fails with the reason. A flow with durable edges or checkpoints whose graph has changed restarts
    from its checkpoint, in the same process. Other flows with a new graph need a new process.
    """
    found = _find(target)
    request = _Request(dry_run, yes, discard_state, duration_s("--timeout", timeout))
    documents, errors = [], []
    for path, flow in found:
        try:
            document, answer = _reload(screen, path, flow, request)
            documents.append(document)
            errors += answer.get("errors", [])
        except FlowError as error:
            if len(found) == 1:
                raise
            errors += [each.to_dict() for each in error.diagnostics]
    if screen.is_json:
        screen.document(documents[0] if len(found) == 1 else {"flows": documents})
    _raise_errors({"errors": errors})
    return 0


@dataclass(frozen=True)
class _Request:
    dry_run: bool
    yes: bool
    discard_state: bool
    timeout_s: float


def _reload(
    screen: Screen, path: Path, flow: str, request: _Request
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Brings one flow up to date. Returns what the command says about it, and its answer."""
    difference = _ask(path, "difference")
    _show_difference(screen, flow, difference)
    if request.dry_run or not (difference["nodes"] or difference["graph"]):
        return {"flow": flow, "difference": difference, "swaps": []}, {}
    _raise_refusals(flow, difference, request.discard_state)
    if not request.yes and not _is_wanted(screen):
        return {"flow": flow, "difference": difference, "swaps": []}, {}
    token = difference["token"]
    answer = _ask(path, "reload", token=token, discard_state=request.discard_state)
    verdicts = _wait_for_verdicts(path, answer, request.timeout_s)
    _show_answer(screen, answer)
    answer["errors"] = [*answer.get("errors", []), *verdicts]
    done = {"swaps": answer["swaps"], "restarted_ms": answer.get("restarted_ms")}
    return {"flow": flow, "difference": difference, **done}, answer


def _show_answer(screen: Screen, answer: dict[str, Any]) -> None:
    for swap in answer["swaps"]:
        state = {"restored": "its state was kept", "empty": "its state was discarded"}
        what = state.get(swap["state"], "it has no state")
        pause = f"paused for {swap['pause_ms']:.2f} ms"
        screen.info(f"[torvyn] {swap['node']}: {pause}; {what}; {_outcome(swap)}")
    if "restarted_ms" in answer and not answer.get("errors"):
        how = f"restarted from its checkpoint in {answer['restarted_ms']:.0f} ms"
        screen.info(f"[torvyn] The new graph runs: the flow {how}.")


def _outcome(swap: dict[str, Any]) -> str:
    """What became of a component that was exchanged, as far as it is known."""
    left = f"on trial for {swap['trial_left_s']:g} s more"
    if swap["verdict"] == "returned":
        return "the old component is back"
    if swap["verdict"] == "proved":
        return "its trial is over"
    if swap["verdict"] == "passed":
        return f"an element has passed it; {left}"
    return f"no element has passed it yet; {left}: `torvyn reload --dry-run` shows it if it fails"


def _wait_for_verdicts(
    path: Path, answer: dict[str, Any], timeout_s: float
) -> list[dict[str, Any]]:
    """Waits until something has become of each new component. Notes it in the answer, and returns
    the errors of those that are gone again."""
    names, until_s = [swap["node"] for swap in answer["swaps"]], time.monotonic() + timeout_s
    if not names:
        return []
    while True:
        found = _ask(path, "verdicts", nodes=names)
        waits = any(each["verdict"] == "waiting" for each in found["verdicts"].values())
        if found["errors"] or not waits or time.monotonic() >= until_s:
            break
        time.sleep(_POLL_S)
    for swap in answer["swaps"]:
        swap.update(found["verdicts"][swap["node"]])
    return list(found["errors"])


def _is_wanted(screen: Screen) -> bool:
    if screen.is_json or not sys.stdin.isatty():
        hint = "`--dry-run` shows the changes"
        raise UsageError("cli.missing-argument", "nobody can be asked; add `--yes`", hint=hint)
    return click.confirm("Exchange them?", err=True)


def _find(target: str | None) -> list[tuple[Path, str]]:
    """The control sockets of the flows that are meant, and their names: one flow, or all of a
    process."""
    from torvyn._cli.flow_socket import flows_and_sockets

    found = flows_and_sockets()
    names = ", ".join(f"{each['flow']} ({each['pid']})" for each, _ in found)
    if target is not None:
        found = [each for each in found if target in (each[0]["flow"], str(each[0]["pid"]))]
    hint = f"the running flows are {names}" if names else "start one with `torvyn run`"
    if not found:
        which = f"`{target}`" if target else "of yours"
        raise UsageError("cli.flow-unknown", f"no flow {which} is running", hint=hint)
    if len({document["pid"] for document, _ in found}) > 1 or (target is None and len(found) > 1):
        which = f"are named `{target}`" if target else "are running"
        message = f"{len(found)} flows {which}; say which one"
        raise UsageError("cli.flow-unknown", message, hint=f"give its process: {names}")
    return [(path, document["flow"]) for document, path in found]


def _ask(path: Path, name: str, **fields: Any) -> dict[str, Any]:
    from torvyn._cli.flow_socket import request

    try:
        answer = request(path, name, **fields)
    except (OSError, ValueError) as error:
        message = f"the flow does not answer: {error}"
        hint = "only flows that `torvyn run` runs from a manifest can be reloaded"
        raise FlowError("cli.reload-failed", message, hint=hint) from error
    if "swaps" not in answer:
        _raise_errors(answer)
    return answer


def _raise_errors(answer: dict[str, Any]) -> None:
    """Raises what the other process reported."""
    errors = answer.get("errors", [])
    if errors:
        raise FlowError.of([_diagnostic(each) for each in errors])


def _diagnostic(fields: dict[str, Any]) -> Diagnostic:
    place = fields.get("location")
    location = None if place is None else Location(**place)
    return Diagnostic(fields["code"], fields["message"], location, fields.get("hint"))


def _raise_refusals(flow: str, difference: dict[str, Any], discard_state: bool) -> None:
    if difference["graph"]:
        from torvyn._flow.plan_difference import refuse_graph

        if difference["lost"] is None or not discard_state:
            refuse_graph(flow, difference["graph"], difference["lost"])
        return
    for change in difference["nodes"]:
        if change["refused"]:
            raise FlowError("swap.unfit", change["refused"], hint="restart the flow")


def _show_difference(screen: Screen, flow: str, difference: dict[str, Any]) -> None:
    if not (difference["nodes"] or difference["graph"]):
        screen.info(f"[torvyn] Flow '{flow}' is up to date.")
    elif not screen.is_json:
        lines = [f"  {each['node']}: {', '.join(each['changed'])}" for each in difference["nodes"]]
        lines += [f"  {each}" for each in difference["graph"]]
        screen.data("\n".join([f"Changes of flow '{flow}':", *lines]) + "\n")
    if difference["graph"] and difference["lost"] is not None:
        screen.info("[torvyn] With a new graph the flow restarts from its checkpoint.")
    for name in difference["later"]:
        screen.info(f"[torvyn] `{name}` has changed too: it applies when the flow starts again.")
