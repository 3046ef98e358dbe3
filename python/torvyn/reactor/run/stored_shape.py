"""Whether a flow has a place for what an earlier version of it has stored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from torvyn._link.plan import Plan
from torvyn.errors import FlowError


def state_path(plan: Plan) -> Path:
    """The database of a flow. Its folder is the flow's own."""
    return Path(plan.state_dir, quote(plan.name, safe=""), "flow.db")


def check_unread_store(plan: Plan, is_fresh: bool) -> None:
    """For a flow that uses no disk. Raises if elements or states wait there; `is_fresh` discards
    them."""
    # Most flows have none, and are started often.
    if not os.path.exists(f"{plan.state_dir}/{quote(plan.name, safe='')}/flow.db"):
        return
    # SQLite is imported only for flows that need it.
    from torvyn.durable import DurableStore, inspect_store

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


def shape_changed(flow: str, differences: Sequence[str]) -> FlowError:
    listing = "\n".join(f"  - {each}" for each in differences)
    return FlowError(
        "durable.shape-changed",
        f"flow `{flow}` does not fit its saved state:\n{listing}",
        hint="to keep it, undo the change and run the flow until nothing waits; to discard the "
        "saved state and what is stored, use `--fresh`",
    )
