"""`torvyn trace`: runs a flow and shows the calls for each element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn._cli.target import artifact_options, end_options, flow_options, link_with_ends

if TYPE_CHECKING:
    from torvyn._cli.timeline import Call, ElementTrace
    from torvyn._flow.flow import Flow

EXAMPLE = """\
torvyn trace --limit 10
torvyn trace flow.main --format json > trace.json"""


@make_command("trace", example=EXAMPLE)
@flow_options
@artifact_options
@end_options
def command(screen: Screen, **options: Any) -> int:
    """Run a flow and show what happens to each element.

    Torvyn times every call and counts every copy. This slows the flow; use `torvyn bench` to
    measure it. Output of components goes to standard error, or nowhere with `-q`.
    """
    from torvyn._cli.foreground import run_in_foreground
    from torvyn._cli.screen import output_to_stderr
    from torvyn._cli.timeline import timelines
    from torvyn._flow.flow import Flow

    plan, limit = link_with_ends(screen, options)
    flow = Flow.from_plan(plan).trace()
    if limit is not None:
        flow.limit(limit)
    with output_to_stderr(discard=screen.is_quiet):
        outcome = run_in_foreground(flow)
    elements = timelines(flow)
    if screen.is_json:
        _show_json(screen, flow, elements, outcome.state)
    else:
        _show(screen, flow, elements, outcome.state)
    if outcome.state == "failed" and outcome.error is not None:
        raise outcome.error
    return outcome.exit_code


def _show_json(screen: Screen, flow: Flow, elements: list[ElementTrace], state: str) -> None:
    from torvyn._cli.timeline import untraced_nodes

    fields = {
        "flow": flow.name,
        "outcome": state,
        "elements": [element.to_dict() for element in elements],
        "copies": flow.statistics.copies,
        "missed_calls": flow.take_trace()[1],
        "untraced_nodes": untraced_nodes(flow),
    }
    screen.document(fields)


def _show(screen: Screen, flow: Flow, elements: list[ElementTrace], state: str) -> None:
    from torvyn._cli.statistics import summary_line
    from torvyn._cli.timeline import untraced_nodes

    for element in elements:
        screen.data(render_element(element))
    statistics = flow.statistics
    copied = sum(node.copied_bytes for node in statistics.nodes.values())
    screen.info(
        f"[torvyn] Flow '{flow.name}' {state}.",
        f"[torvyn] {summary_line(statistics)}",
        f"[torvyn] {statistics.copies} copies, {copied} bytes copied",
    )
    if untraced_nodes(flow):
        nodes = ", ".join(f"`{name}`" for name in untraced_nodes(flow))
        screen.info(f"[torvyn] Not traced, because they do not run inline: {nodes}")
    if flow.take_trace()[1]:
        screen.info(f"[torvyn] The trace was full: {flow.take_trace()[1]} calls are missing.")


def render_element(element: ElementTrace) -> str:
    """The element's name and time, then one line per call: start, node, outcome, duration."""
    from torvyn._cli.statistics import duration

    width = max(len(call.node) for call in element.calls)
    took = duration((element.end_ns - element.start_ns) / 1e9)
    copied = f", {element.copied_bytes} bytes copied" if element.copied_bytes else ""
    lines = [f"{element.name}  {took}{copied}"]
    for call in element.calls:
        after = "+" + duration((call.start_ns - element.start_ns) / 1e9)
        took = duration(call.duration_ns / 1e9)
        line = f"  {after:>9}  {call.node:{width}}  {call.outcome:8}  {took:>8}{_notes(call)}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _notes(call: Call) -> str:
    copied = f"  {call.copied_bytes} bytes copied" if call.copied_bytes else ""
    return copied + (f"  -> {', '.join(call.outputs)}" if call.outputs else "")
