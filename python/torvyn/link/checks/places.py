"""`place` on nodes: one per segment, and replicas only where they cannot change the result."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from torvyn.contract.enums import Role
from torvyn.link.option_values import place_of, table_values
from torvyn.link.plan import NodePlan, PlacePlan, Plan
from torvyn.link.segments import Segment, segments_of
from torvyn.manifest.problems import Problems, quoted
from torvyn.manifest.records import NodeRecord
from torvyn.manifest.schema.tables import PLACE

CODE: Final = "link.bad-place"

SEPARATE: Final = 'put `carrier = "nats"` on the edge between them'


def parse_place(record: NodeRecord, path: str, problems: Problems) -> PlacePlan | None:
    """What the node's group needs; None if the node does not say, or is wrong about it."""
    if record.place is None:
        return None
    before, location = len(problems), place_of(record, "place", f"{path}.place")
    values = table_values(PLACE, record.place, CODE, location, problems)
    if len(problems) > before:
        return None
    return PlacePlan(**{**values, "resources": values["resources"] or {}})


def check_places(plan: Plan, stateful: Set[str], problems: Problems) -> None:
    """Adds a problem for every `place` that cannot be met. `stateful`: nodes that keep state."""
    if all(node.place is None for node in plan.nodes):
        return
    for segment in segments_of(plan):
        placed = [node for node in segment.nodes if node.place is not None]
        for node in placed[1:]:
            if node.place != placed[0].place:
                message = (
                    f"`{placed[0].name}` and `{node.name}` run in one process, but have different "
                    "places"
                )
                problems.add(CODE, message, node.location, SEPARATE)
        if placed and placed[0].place is not None and placed[0].place.replicas > 1:
            wrong = _wrong_replicas(segment, placed[0], stateful)
            if wrong is not None:
                problems.add(CODE, wrong[0], placed[0].location, wrong[1])


def _wrong_replicas(
    segment: Segment, placed: NodePlan, stateful: Set[str]
) -> tuple[str, str] | None:
    """The reason why the segment cannot have replicas, and a hint."""
    what = f"`{placed.name}` cannot have replicas: "
    sources = [node.name for node in segment.nodes if node.role == Role.SOURCE]
    if sources:
        reason = f"it runs in one process with the source {quoted(sources)}, which would run twice"
        return what + reason, 'put `carrier = "nats"` on the edge that leads to it'
    local = [edge for edge in segment.inputs if edge.carrier != "nats"]
    if local:
        reason = f"the edge from `{local[0].source}` is kept on the disk of one machine"
        return what + reason, 'set `carrier = "nats"` on it'
    keyless = [node.name for node in segment.nodes if node.key is None and node.name in stateful]
    if keyless:
        reason = f"`{keyless[0]}` keeps one state for all elements"
        return what + reason, f"set `key` on `{keyless[0]}`: each replica has its share of the keys"
    return _wrong_keys(segment, what)


def _wrong_keys(segment: Segment, what: str) -> tuple[str, str] | None:
    """Elements are shared by the key of the first node, so all states must have the same key."""
    keyed = [node for node in segment.nodes if node.key is not None]
    first = {edge.target for edge in segment.inputs}
    if keyed and any(node.key is None for node in segment.nodes if node.name in first):
        names = [node.name for node in segment.nodes if node.name in first and node.key is None]
        reason = f"its elements are shared out in front of `{names[0]}`, which has no `key`"
        hint = f'put `carrier = "nats"` on the edge that leads to `{keyed[0].name}`'
        return what + reason, hint
    for node in keyed[1:]:
        if node.key != keyed[0].key:
            reason = f"`{keyed[0].name}` and `{node.name}` have different keys"
            return what + reason, SEPARATE
    return None
