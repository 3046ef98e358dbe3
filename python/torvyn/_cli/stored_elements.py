"""What a flow has stored: elements that wait on durable edges, dead letters, and damage."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torvyn.errors import FlowError, UsageError

if TYPE_CHECKING:
    from torvyn._durable.dead_letters import DeadLetter, DeadLetterStore
    from torvyn._link.plan import EdgePlan, Plan
    from torvyn.errors import Diagnostic


def store_warnings(*plans: Plan) -> list[Diagnostic]:
    """One warning per problem. A flow that runs is not looked into: it reports its losses."""
    return [warning for plan in plans if plan.checkpoint_s for warning in _warnings(plan)]


def _warnings(plan: Plan) -> list[Diagnostic]:
    from torvyn._durable.disk.salvage import inspect_store
    from torvyn._durable.segments import state_path
    from torvyn.errors import Diagnostic, Location

    path = state_path(plan)
    report = inspect_store(path)
    if report.state not in ("damaged", "unreadable"):
        return []
    hint = "start the flow: it copies what is readable, and reports the rest as lost"
    where = Location(file=str(path))
    return [
        Diagnostic(
            "durable.damaged",
            f"the stored data of flow `{plan.name}` is {report.state}: {problem}",
            where,
            hint,
            severity="warning",
        )
        for problem in report.problems
    ]


@dataclass(frozen=True, slots=True)
class WaitingElements:
    """What waits on a `disk` edge."""

    edge: str
    elements: int
    bytes: int
    oldest_ns: int | None


class StoredElements:
    def __init__(self, plan: Plan) -> None:
        from torvyn._durable.dead_letters import DeadLetterStore
        from torvyn._durable.durable_run import letters_path
        from torvyn._durable.segments import state_path

        self.plan = plan
        self.path: Path = state_path(plan)
        self.letters: DeadLetterStore = DeadLetterStore(letters_path(plan))
        self.letters.check()

    def running(self) -> dict[str, Any] | None:
        """The status of the flow, if it runs."""
        from torvyn._cli.flow_socket import statuses_of

        pid = _pid(self.path.with_name(self.path.name + ".lock"))
        found = statuses_of(pid) if pid is not None else []
        return next((each for each in found if each["flow"] == self.plan.name), None)

    def waiting(self) -> tuple[bool, list[WaitingElements]]:
        """Whether the flow runs, and what waits on each of its `disk` edges, as far as another
        process may know it."""
        from torvyn._durable.disk.salvage import log_statistics

        logs = log_statistics(self.path)
        if logs is not None:
            return False, [
                WaitingElements(name, log.elements, log.bytes, log.oldest_ns)
                for name, log in logs.items()
                if log.elements or name in self.logs()
            ]
        status = self.running()
        edges = status["statistics"]["edges"] if status is not None else ()
        return True, [
            WaitingElements(
                f"{edge['source']}:{edge['port']}->{edge['target']}",
                edge["stored"]["elements"],
                edge["stored"]["bytes"],
                edge["stored"]["oldest_ns"],
            )
            for edge in edges
            if edge["carrier"] == "disk" and edge["stored"]
        ]

    def logs(self) -> dict[str, EdgePlan]:
        """The `disk` edges of the flow, by the names of their logs."""
        return {
            f"{edge.source}:{edge.port}->{edge.target}": edge
            for edge in self.plan.edges
            if edge.carrier == "disk"
        }

    def takes_letters(self, node: str) -> bool:
        """Whether letters can be put back to a node: they go through the edge in front of it."""
        return any(edge.target == node for edge in self.logs().values())

    def drop_waiting(self, log: str) -> int:
        """Removes what waits on an edge of a flow that does not run; returns how much it was."""
        from torvyn._durable.backend import LogOptions
        from torvyn._durable.disk.store import DurableStore

        edge = self.logs().get(log)
        if edge is None and log not in dict.fromkeys(each.edge for each in self.waiting()[1]):
            hint = "`torvyn store show` lists the edges"
            message = f"flow `{self.plan.name}` has no `disk` edge `{log}`"
            raise UsageError("cli.bad-value", message, hint=hint)
        options = LogOptions(edge.max_bytes) if edge is not None else LogOptions(1 << 20)
        with DurableStore.open(self.path, {log: options}) as store:
            return store.discard_log(log)


def _pid(lock: Path) -> int | None:
    try:
        return int(lock.read_text())
    except (OSError, ValueError):
        return None


def chosen(
    stored: StoredElements, node: str | None, ids: Iterable[int], *, is_all: bool
) -> list[int]:
    """The letters that a command is for."""
    ids = list(ids)
    if not (ids or node or is_all):
        message = "say which dead letters: `--id N`, `--node NAME` or `--all`"
        hint = "`torvyn store show` lists them"
        raise UsageError("cli.missing-argument", message, hint=hint)
    if node is not None and node not in {each.name for each in stored.plan.nodes}:
        known = {each.node for each in stored.letters.nodes()}
        if node not in known:
            names = ", ".join(sorted(known)) or "none"
            message = f"flow `{stored.plan.name}` has no node `{node}`"
            raise UsageError("cli.bad-value", message, hint=f"with dead letters: {names}")
    found = stored.letters.letters(ids or None, node)
    missing = sorted(set(ids) - set(found))
    if missing:
        listing = ", ".join(map(str, missing))
        message = f"there is no dead letter {listing}"
        raise UsageError("cli.bad-value", message, hint="`torvyn store show` lists them")
    return found


@dataclass(frozen=True, slots=True)
class ShownLetter:
    """A dead letter, decoded."""

    letter: DeadLetter
    content_type: str
    attributes: dict[str, Any]
    payload: bytes

    @classmethod
    def of(cls, letter: DeadLetter) -> ShownLetter:
        try:
            content_type, attributes, payload = letter.content()
            decoded = json.loads(attributes) if attributes else {}
        except ValueError:
            return cls(letter, "", {}, letter.body)
        return cls(letter, content_type, decoded, payload)

    def text(self) -> str:
        """The payload on one line, safe to print."""
        from torvyn._io.safe_text import escape_line

        return escape_line(self.payload.decode(errors="backslashreplace"))

    def to_dict(self) -> dict[str, Any]:
        fields = asdict(self.letter)
        del fields["body"], fields["at_ns"]
        fields["time"] = iso_time(self.letter.at_ns)
        fields["content_type"], fields["attributes"] = self.content_type, self.attributes
        try:
            fields["payload"] = self.payload.decode()
        except UnicodeDecodeError:
            fields["base64"] = base64.b64encode(self.payload).decode()
        return fields


def iso_time(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat(timespec="seconds")


def durable_plan(plan: Plan) -> Plan:
    """Raises if the flow stores nothing."""
    if plan.checkpoint_s is None or not plan.state_dir:
        message = f"flow `{plan.name}` stores nothing: it has no `disk` edge and no `checkpoint`"
        hint = 'write `carrier = "disk"` on an edge to keep its elements'
        raise FlowError("cli.nothing-stored", message, hint=hint)
    return plan


def folder_text(path: Path) -> str:
    """The folder, relative to the current one if it is in it."""
    relative = os.path.relpath(path.parent)
    return str(path.parent) if relative.startswith("..") else relative
