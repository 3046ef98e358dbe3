"""A processor or an aggregator whose elements go to one component per key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torvyn._contract.inspection import has_attribute
from torvyn._contract.roles import Aggregator, Component, Processor
from torvyn.components.keys.keyed_components import KeyedComponents


class Keyed(Component):
    """What the two roles share: each call goes to the component of a key."""

    def __init__(self, keyed: KeyedComponents, has_timer: bool, has_state: bool) -> None:
        super().__init__()
        self._keyed = keyed
        self.counts = keyed.counts
        self.inputs: Iterable[str] = tuple(getattr(keyed.model, "inputs", ()))
        setattr(self, keyed.method_name, keyed.call)
        if has_timer:
            keyed.use_timers()
            self.due_ns = keyed.due_ns
            self.on_timer = self._on_timer
        if has_attribute(keyed.model, "held_elements"):
            self.held_elements = keyed.held_elements
        if has_state:
            self.snapshot = keyed.snapshot
            self.restore = keyed.restore
            self.changed_states = keyed.changed_states
            self.key_state = keyed.key_state
            self.restore_states = keyed.restore_states

    @property
    def tells_changes(self) -> bool:
        return self._keyed.tells_changes

    @property
    def _node(self) -> Any:
        return self._keyed.node

    @_node.setter
    def _node(self, node: Any) -> None:
        self._keyed.set_node(node)

    def _get_input(self) -> str:
        return self._keyed.input

    def _set_input(self, name: str) -> None:
        self._keyed.input = name

    input = property(_get_input, _set_input)

    def init(self, config: str) -> None:
        self._keyed.init(config, self.__dict__.get("_wall_clock"))

    def flush(self) -> list[Any]:
        return list(self._keyed.flush())

    def _on_timer(self) -> list[Any]:
        return list(self._keyed.on_timer(self.now_ns()))

    def teardown(self) -> None:
        self._keyed.teardown()


class KeyedProcessor(Keyed, Processor):
    """A processor per key."""


class KeyedAggregator(Keyed, Aggregator):
    """An aggregator per key."""
