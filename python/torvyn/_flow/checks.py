"""What a flow must fit before it runs: what an earlier version has stored, and its aggregators.

A source that waits for acknowledgements forgets an element once it is settled, and a saved position
is never read again. So a crash must not lose what an aggregator behind them has collected: it says
which elements it still holds, or is saved together with the position.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from torvyn._contract.enums import Role
from torvyn._contract.inspection import has_attribute, read_attribute
from torvyn._contract.roles import acknowledges, counts_held_elements
from torvyn._flow.runner import Runner
from torvyn._link.plan import NodePlan, Plan
from torvyn.errors import FlowError


def check_unread_store(plan: Plan, is_fresh: bool) -> None:
    """For a flow that uses no disk. Raises if elements or states wait there; `is_fresh` discards
    them."""
    # Most flows have none, and are started often.
    if not os.path.exists(f"{plan.state_dir}/{quote(plan.name, safe='')}/flow.db"):
        return
    # SQLite is imported only for flows that need it.
    from torvyn._durable.disk.salvage import inspect_store
    from torvyn._durable.disk.store import DurableStore
    from torvyn._durable.segments import shape_changed, state_path

    path = state_path(plan)
    report = inspect_store(path, is_quick=True)
    unread = [
        f"{count} elements wait on the `disk` edge `{log}`, which is gone"
        for log, count in report.elements.items()
        if count
    ]
    unread += [f"`{each}` has a saved state, and none is saved now" for each in report.segments]
    if not unread:
        return
    if is_fresh:
        with DurableStore.open(path, {}) as store:
            store.discard()
        return
    raise shape_changed(plan.name, unread)


CODE: Final = "durable.unsafe-aggregator"


def check_aggregators(
    plan: Plan, runners: Sequence[Runner], is_saved: Sequence[bool] | None = None
) -> None:
    """Raises if a crash could lose elements inside an aggregator. `is_saved`: for each node,
    whether its sources are acknowledged by checkpoints."""
    for at, runner in enumerate(runners):
        if runner.node.role != Role.AGGREGATOR:
            continue
        if is_saved is not None and is_saved[at]:
            if not has_attribute(runner.component, "snapshot"):
                raise _unsaved(runner.node)
        elif not _says_what_it_holds(runner) and (origin := _acknowledged(plan, runners, at)):
            raise _silent(runner, origin)


def _says_what_it_holds(runner: Runner) -> bool:
    is_native = read_attribute(runner.component, "native_stage", None) is not None
    is_inline = runner.node.run == "inline"
    return (is_native and is_inline) or counts_held_elements(runner.component, Role.AGGREGATOR)


def _acknowledged(plan: Plan, runners: Sequence[Runner], at: int) -> str | None:
    """What before the node waits for acknowledgements: a source, or an edge on the disk."""
    by_name = {runner.node.name: runner for runner in runners}
    seen, left = set(), [runners[at].node.name]
    while left:
        name = left.pop()
        runner = by_name[name]
        if runner.node.component.kind == "carrier":
            return f"the edge `{name.removesuffix(' (reader)')}`"
        if runner.node.role == Role.SOURCE and acknowledges(runner.component):
            return f"source `{name}`"
        seen.add(name)
        sources = [edge.source for edge in plan.edges if edge.target == name]
        left += [source for source in sources if source not in seen]
    return None


def _unsaved(node: NodePlan) -> FlowError:
    return _unsafe(
        node,
        "cannot save them: a crash would lose them, because its source continues behind them",
        "define `snapshot` and `restore` on it, or separate it from the nodes that have a state by "
        'an edge with `carrier = "disk"`',
    )


def _silent(runner: Runner, origin: str) -> FlowError:
    if has_attribute(runner.component, "snapshot"):
        hint = 'set `checkpoint = "1s"` on the flow: then what it has collected is saved'
    elif read_attribute(runner.component, "is_guest", False) is True:
        hint = "export `snapshot` and `restore`, and set `checkpoint` on the flow"
    else:
        hint = (
            "define `held_elements()`: how many elements it took since the oldest one that is not "
            "in an output yet, with that one"
        )
    what = f"does not say which it still holds: a crash would lose what {origin} was told to forget"
    return _unsafe(runner.node, what, hint)


def _unsafe(node: NodePlan, what: str, hint: str) -> FlowError:
    error = FlowError(CODE, f"node `{node.name}` collects elements and {what}", hint=hint)
    error.node = node.name
    return error
