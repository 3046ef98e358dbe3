"""The states of components: taken at rest, stored with the position of their input, restored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from torvyn.contract.enums import Role
from torvyn.contract.inspection import is_instance
from torvyn.contract.request_roles import AnswerNode, RequestProcessor
from torvyn.durable import Checkpoint, DurableStore
from torvyn.link.plan import NodePlan
from torvyn.reactor.carriers.wired_plan import GONE, WiredPlan
from torvyn.reactor.run.component_state import BYTES, decode, encode, has_state
from torvyn.reactor.run.method_binding import acknowledges

if TYPE_CHECKING:
    from torvyn.reactor.runners import Runner


class Checkpoints:
    """Which segments of a flow have states, and what a checkpoint of each must fit."""

    def __init__(self, wired: WiredPlan, runners: Sequence[Runner]) -> None:
        self.wired = wired
        self.runners = runners
        stateful = [needs_checkpoints(runner) for runner in runners]
        self.by_checkpoint = [
            any(has for has, of in zip(stateful, wired.segment_of, strict=True) if of == segment)
            for segment in range(len(wired.segments))
        ]
        """For each segment, whether its sources are acknowledged by its checkpoints."""
        has_states = {
            of
            for of, each in zip(wired.segment_of, runners, strict=True)
            if of != GONE and has_state(each.component)
        }
        self.source_segments = [at for at in sorted(has_states) if not self.by_checkpoint[at]]
        """The segments where only sources that wait for acknowledgements have a state."""
        tell_saved(runners)
        self.emitted: Callable[[int], int] = lambda _: 0
        """How many elements a node has emitted, while the flow runs."""

    def nodes(self, segment: int) -> list[tuple[int, Runner]]:
        """The nodes of a segment, with their numbers."""
        pairs = zip(self.runners, self.wired.segment_of, strict=True)
        return [(at, runner) for at, (runner, of) in enumerate(pairs) if of == segment]

    def take(
        self, segment: int, native: Sequence[tuple[int, bytes]], finished: Sequence[int] = ()
    ) -> Checkpoint:
        """The states of a segment that is at rest. Nodes that have flushed theirs have none, except
        that a source which has ended still has its position."""
        names = self.wired.plan.nodes
        states = {names[at].name: BYTES + state for at, state in native}
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
                state = component.snapshot()  # type: ignore[attr-defined]
                states[runner.node.name] = encode(runner.node.name, state)
        return Checkpoint(self.wired.segments[segment], self.shape(segment), states)

    def empty(self, segment: int) -> Checkpoint:
        """What a flow leaves that has ended in order: the next run starts afresh."""
        return Checkpoint(self.wired.segments[segment], self.shape(segment), {})

    def shape(self, segment: int) -> str:
        """The components whose states a checkpoint holds, as JSON."""
        nodes = [runner for _, runner in self.nodes(segment) if has_state(runner.component)]
        return json.dumps({runner.node.name: component_name(runner.node) for runner in nodes})

    def restore(self, store: DurableStore) -> int:
        """Gives every component its last state; returns how many got one."""
        saved = [each for name in store.segments() if (each := store.checkpoint(name)) is not None]
        states = {node: state for each in saved for node, state in each.states.items()}
        now = {each.segment: set(each.states) for each in self.arrange(states)}
        if now != {each.segment: set(each.states) for each in saved if each.states}:
            # The graph has changed: from now on every segment saves its own nodes.
            store.replace_checkpoints(self.arrange(states))
        for segment in range(len(self.wired.segments)):
            for _, runner in self.nodes(segment):
                if (state := states.get(runner.node.name)) is not None:
                    runner.component.restore(decode(state))  # type: ignore[attr-defined]
        return len(states)

    def arrange(self, states: Mapping[str, bytes]) -> list[Checkpoint]:
        """The states of nodes as checkpoints of the segments that the nodes are in now."""
        found = []
        for segment, name in enumerate(self.wired.segments):
            names = [runner.node.name for _, runner in self.nodes(segment)]
            own = {each: states[each] for each in names if each in states}
            if own:
                found.append(Checkpoint(name, self.shape(segment), own))
        return found

    def differences(self, store: DurableStore) -> list[str]:
        """What the stored state holds and the flow has no place for."""
        now: dict[str, str] = {}
        for segment in range(len(self.wired.segments)):
            now |= json.loads(self.shape(segment))
        found = []
        for name in store.segments():
            checkpoint = store.checkpoint(name)
            if checkpoint is not None and checkpoint.states:
                then = json.loads(checkpoint.shape)
                found += _changed(then, now, checkpoint.states)
        logs = {edge.log for edge in self.wired.edges}
        for log, statistics in store.logs().items():
            if log not in logs and statistics.elements:
                count = statistics.elements
                found.append(f"{count} elements wait on the `disk` edge `{log}`, which is gone")
        return found


def _changed(
    then: Mapping[str, str], now: Mapping[str, str], states: Mapping[str, bytes]
) -> list[str]:
    found = []
    for node in states:
        if node not in now:
            found.append(f"node `{node}` ({then.get(node, '?')}) has a saved state and is gone")
        elif now[node] != then.get(node):
            found.append(f"node `{node}` was `{then.get(node)}` and is `{now[node]}` now")
    return found


def component_name(node: NodePlan) -> str:
    return node.component.name or node.component.target


def tell_saved(runners: Sequence[Runner]) -> None:
    """Engines keep account of their answers from now on."""
    for runner in runners:
        if is_instance(runner.component, AnswerNode):
            runner.component.is_saved = True


def needs_checkpoints(runner: Runner) -> bool:
    """Whether a node's state must fit the position of its input. That of a source which waits for
    acknowledgements has nothing to do with its position."""
    is_acknowledged = runner.node.role == Role.SOURCE and acknowledges(runner.component)
    return has_state(runner.component) and not is_acknowledged
