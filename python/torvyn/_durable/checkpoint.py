"""The states of components: taken at rest, stored with the position of their input, restored.

A component takes part when it defines `snapshot()`, which returns bytes or a value that JSON can
hold, and `restore(state)`, which receives the same: from a checkpoint, or when a new version takes
the place of an old one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from torvyn._contract.enums import Role
from torvyn._contract.inspection import has_attribute, is_instance
from torvyn._contract.roles import AnswerNode, Component, RequestProcessor, acknowledges
from torvyn._durable.backend import LogStatistics
from torvyn._durable.segments import WiredPlan
from torvyn._durable.state_log import (
    KEYED,
    Checkpoint,
    PartName,
    SavedState,
    StateLog,
    chunk,
    has_keys,
    join_chunks,
    key_of,
    key_part,
)
from torvyn.components.keys.keyed_roles import Keyed
from torvyn.errors import ContractError

if TYPE_CHECKING:
    from torvyn._contract.roles import Component
    from torvyn._link.plan import NodePlan


_PLAIN = "plain"
"""The origin of states without keys: what has changed is found by comparing them."""


class StateHolder(Protocol):
    """What holds the component of a node while the flow runs: its runner."""

    node: NodePlan
    component: Component


class CheckpointStore(Protocol):
    """What keeps the states of segments: a database, or entries on a broker."""

    def segments(self) -> list[str]: ...
    def checkpoint(self, segment: str) -> SavedState | None: ...
    def replace_checkpoints(self, old: Sequence[str], new: Sequence[Checkpoint]) -> None: ...
    def logs(self) -> dict[str, LogStatistics]: ...


class Checkpoints:
    """Which segments of a flow have states, and what a checkpoint of each must fit."""

    def __init__(
        self, wired: WiredPlan, runners: Sequence[StateHolder], discards: Collection[str] = ()
    ) -> None:
        self.wired = wired
        self.runners = runners
        self._discards = discards
        """The nodes whose saved states are discarded, once all components are initialized."""
        stateful = [needs_checkpoints(runner) for runner in runners]
        self.by_checkpoint = [
            any(has for has, of in zip(stateful, wired.segment_of, strict=True) if of == segment)
            for segment in range(len(wired.segments))
        ]
        """For each segment, whether its sources are acknowledged by its checkpoints."""
        has_states = {
            of
            for of, each in zip(wired.segment_of, runners, strict=True)
            if has_state(each.component)
        }
        self.source_segments = [at for at in sorted(has_states) if not self.by_checkpoint[at]]
        """The segments where only sources that wait for acknowledgements have a state."""
        tell_saved(runners)
        self.logs = [StateLog() for _ in wired.segments]
        self.emitted: Callable[[int], int] = lambda _: 0
        """How many elements a node has emitted, while the flow runs."""

    def nodes(self, segment: int) -> list[tuple[int, StateHolder]]:
        """The nodes of a segment, with their numbers."""
        pairs = zip(self.runners, self.wired.segment_of, strict=True)
        return [(at, runner) for at, (runner, of) in enumerate(pairs) if of == segment]

    def take(
        self, segment: int, native: Sequence[tuple[int, bytes]], finished: Sequence[int] = ()
    ) -> Checkpoint:
        """What has changed in a segment that is at rest, since its last checkpoint was stored."""
        log = self.logs[segment]
        change: dict[PartName, bytes | None] = {}
        plain: dict[str, bytes] = {}
        keyed: dict[str, Any] = {}
        for node, state in self._states(segment, native, finished):
            if isinstance(state, bytes):
                plain[node] = state
                if log.tells_all(node, _PLAIN):
                    change |= dict.fromkeys(log.names(node))
                change |= log.changed_chunks(node, state)
            else:
                keyed[node] = state
                if is_all := log.tells_all(node, state) or not state.tells_changes:
                    change |= dict.fromkeys(log.names(node))
                    change[node, KEYED] = b""
                states = state.changed_states(is_all=is_all)
                change |= {(node, key_part(key)): value for key, value in states.items()}
        for node in log.told_by - plain.keys() - keyed.keys():
            change |= dict.fromkeys(log.names(node))
            log.told_by.discard(node)
        encode = partial(_encode_part, plain, keyed)
        return log.take(self.wired.segments[segment], self.shape(segment), change, encode)

    def _states(
        self, segment: int, native: Sequence[tuple[int, bytes]], finished: Sequence[int]
    ) -> list[tuple[str, Any]]:
        """By node its encoded state, or the component that knows which of its keys have changed.
        Nodes that have flushed theirs have none, except that a source which has ended still has its
        position."""
        names = self.wired.plan.nodes
        states: dict[str, Any] = {names[at].name: BYTES + state for at, state in native}
        for at, runner in self.nodes(segment):
            component = runner.component
            if is_instance(component, RequestProcessor):
                # Saved after its end, too: what was answered must not be answered again.
                component.emitted = self.emitted(at)
            elif at in finished and runner.node.role != Role.SOURCE:
                continue
            if runner.node.name in states:
                continue
            if has_state(component):
                states[runner.node.name] = (
                    component
                    if is_instance(component, Keyed)
                    else encode(runner.node.name, component.snapshot())  # type: ignore[attr-defined]
                )
        return list(states.items())

    def empty(self, segment: int) -> Checkpoint:
        """What a flow leaves that has ended in order: the next run starts afresh."""
        return self.logs[segment].empty(self.wired.segments[segment], self.shape(segment))

    def shape(self, segment: int) -> str:
        """The components whose states a checkpoint holds, as JSON."""
        nodes = [runner for _, runner in self.nodes(segment) if has_state(runner.component)]
        return json.dumps({runner.node.name: component_name(runner.node) for runner in nodes})

    def restore(self, store: CheckpointStore) -> None:
        """Gives every component its last state, except where it is discarded."""
        saved = {name: each for name in store.segments() if (each := store.checkpoint(name))}
        states = {
            node: own
            for each in saved.values()
            for node, own in each.by_node().items()
            if node not in self._discards
        }
        before = {name: each.nodes for name, each in saved.items() if each.parts}
        if self._arranged(states) != before:
            # The graph has changed: from now on every segment saves its own nodes.
            store.replace_checkpoints(list(saved), self.arrange(states))
            saved = {}
        for segment, name in enumerate(self.wired.segments):
            origins: dict[str, object] = {}
            for _, runner in self.nodes(segment):
                if (own := states.get(runner.node.name)) is not None:
                    origins[runner.node.name] = _restore(runner, own)
            if (kept := saved.get(name)) is not None:
                self.logs[segment].load(kept, origins)

    def _arranged(self, states: Mapping[str, Any]) -> dict[str, list[str]]:
        """The nodes with a state by the segments that they are in now."""
        found: dict[str, list[str]] = {}
        for segment, name in enumerate(self.wired.segments):
            names = sorted(runner.node.name for _, runner in self.nodes(segment))
            if own := [each for each in names if each in states]:
                found[name] = own
        return found

    def arrange(self, states: Mapping[str, Mapping[str, bytes]]) -> list[Checkpoint]:
        """The parts of nodes as checkpoints of the segments that the nodes are in now."""
        found = []
        for name, nodes in self._arranged(states).items():
            shape = self.shape(self.wired.segments.index(name))
            parts = {(node, part): value for node in nodes for part, value in states[node].items()}
            found.append(Checkpoint.whole(name, shape, parts))
        return found

    def _without_keys(self, nodes: set[str]) -> list[str]:
        return [
            f"node `{runner.node.name}` had a state per key and has no `key` now"
            for runner in self.runners
            if runner.node.name in nodes and not is_instance(runner.component, Keyed)
        ]

    def differences(self, store: CheckpointStore) -> list[str]:
        """What the stored state holds and the flow has no place for."""
        now: dict[str, str] = {}
        for segment in range(len(self.wired.segments)):
            now |= json.loads(self.shape(segment))
        found = []
        for name in store.segments():
            checkpoint = store.checkpoint(name)
            if checkpoint is not None and checkpoint.parts:
                then = json.loads(checkpoint.shape)
                nodes = [node for node in checkpoint.nodes if node not in self._discards]
                found += self._without_keys(checkpoint.keyed_nodes - {*self._discards})
                found += _changed(then, now, nodes)
        logs = {edge.log for edge in self.wired.edges}
        for log, statistics in store.logs().items():
            if log not in logs and statistics.elements:
                count = statistics.elements
                found.append(f"{count} elements wait on the `disk` edge `{log}`, which is gone")
        return found


def _encode_part(plain: Mapping[str, bytes], keyed: Mapping[str, Keyed], name: PartName) -> bytes:
    node, part = name
    if node in keyed:
        key = key_of(part)
        return b"" if key is None else keyed[node].key_state(key)
    return chunk(plain[node], part)


def _restore(runner: StateHolder, parts: Mapping[str, bytes]) -> object:
    """Returns what the component's changes are compared with from now on."""
    component: Any = runner.component
    if not has_keys(parts):
        component.restore(decode(join_chunks(parts)))
        return _PLAIN
    keys = ((key_of(part), value) for part, value in parts.items())
    component.restore_states([(key, value) for key, value in keys if key is not None])
    return component


def _changed(then: Mapping[str, str], now: Mapping[str, str], nodes: Sequence[str]) -> list[str]:
    found = []
    for node in nodes:
        if node not in now:
            found.append(f"node `{node}` ({then.get(node, '?')}) has a saved state and is gone")
        elif now[node] != then.get(node):
            found.append(f"node `{node}` was `{then.get(node)}` and is `{now[node]}` now")
    return found


def tell_saved(runners: Sequence[StateHolder]) -> None:
    """Engines keep account of their answers from now on."""
    for runner in runners:
        if is_instance(runner.component, AnswerNode):
            runner.component.is_saved = True


def needs_checkpoints(runner: StateHolder) -> bool:
    """Whether a node's state must fit the position of its input. That of a source which waits for
    acknowledgements has nothing to do with its position."""
    is_acknowledged = runner.node.role == Role.SOURCE and acknowledges(runner.component)
    return has_state(runner.component) and not is_acknowledged


BYTES: Final = b"b"
_JSON: Final = b"j"


def has_state(component: Component) -> bool:
    return has_attribute(component, "snapshot")


def component_name(node: NodePlan) -> str:
    """Whose state it is: that of another component does not fit."""
    return node.component.name or node.component.target


def encode(node: str, state: Any) -> bytes:
    if isinstance(state, (bytes, bytearray, memoryview)):
        return BYTES + bytes(state)
    try:
        return _JSON + json.dumps(state, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        message = f"`snapshot` of node `{node}` returned what JSON cannot hold: {error}"
        hint = "return bytes, or lists, dicts, strings, numbers, booleans and None"
        raise ContractError("contract.bad-snapshot", message, hint=hint) from error


def decode(state: bytes) -> Any:
    return state[1:] if state[:1] == BYTES else json.loads(state[1:])
