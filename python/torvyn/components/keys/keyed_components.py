"""The components of all keys of a node, each with the elements of its key.

The component of a key is created when its first element arrives. Keys and their memory are limited:
beyond a limit, the component that was used least recently is flushed and torn down. Its outputs are
sent, so nothing is lost, and the eviction is counted. A later element of that key starts anew.
"""

from __future__ import annotations

import base64
import heapq
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from torvyn._contract.config import init_argument
from torvyn._contract.element import Element
from torvyn._contract.inspection import defines, own_attribute, read_attribute
from torvyn._contract.roles import METHODS, Component, Emissions
from torvyn.components.keys import KEY_BYTES
from torvyn.components.keys.oldest_elements import OldestElements

BY_MEMORY: Final = "evicted by memory"
"""Those of the evicted keys for which there was no memory, though `max_keys` allowed more."""
_MIB: Final = 1024 * 1024

logger = logging.getLogger("torvyn.keys")


class _Slot:
    """The component of one key."""

    __slots__ = ("component", "due_ns", "held_bytes", "method", "used_at")

    def __init__(self, component: Component, method: Callable[..., Any]) -> None:
        self.component = component
        self.method = method
        self.held_bytes = 0
        self.due_ns: int | None = None
        self.used_at = 0
        """The number of the call in which it was used last, over all keys."""


class KeyedComponents:
    """The components of all keys of one node."""

    def __init__(
        self,
        make: Callable[[], Component],
        read_key: Callable[[Element], str],
        max_keys: int,
        max_bytes: int,
        name: str = "",
    ) -> None:
        """`name`: of the node, for the log."""
        self._name = name
        self._make = make
        self._read_key = read_key
        self._max_keys = max_keys
        self._max_bytes = max_bytes
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        """By last use, oldest first."""
        self._timers: list[tuple[int, str]] = []
        """A heap. An entry counts if its time is still that of its slot."""
        self._held_bytes = 0
        self._taken = 0
        """How many elements the components of all keys have taken."""
        self._calls = 0
        """The number of the last call, over all runs."""
        self._changed: dict[str, None] | None = None
        """The keys whose states may differ from those that were told last; None if none were."""
        self._held: OldestElements | None = None
        """None until somebody asks for it."""
        self.counts: dict[str, int] = {}
        """Shared by the components of all keys."""
        self._spare: Component | None = make()
        """Created and initialized before the first key, so that a bad config fails at the start."""
        self.method_name = METHODS[self._spare.role]
        self._has_timer = False
        self._has_inputs = bool(read_attribute(self._spare, "inputs", ()))
        self.input = ""
        self._reports_bytes = defines(self._spare, "held_bytes")
        self.node: Any = None
        self._wall: Any = None

    @property
    def model(self) -> Component:
        """A component that has not been initialized."""
        assert self._spare is not None
        return self._spare

    # Attributes that the reactor sets on a component belong to the components of all keys.

    def set_node(self, node: Any) -> None:
        self.node = node
        for slot in self._slots.values():
            slot.component._node = node

    def init(self, config: str, wall_clock: Any) -> None:
        self._config, self._wall = config, wall_clock
        spare = self._spare if self._spare is not None else self._make()
        self._begin(spare)
        spare.init(init_argument(spare, config))
        self._spare = spare
        self._slots.clear()
        self._timers.clear()
        self._held_bytes = 0
        self._taken = self._calls = 0
        self._changed = None
        self._held = None
        self.counts.clear()
        self.counts.update(keys=0, evicted=0)

    def use_timers(self) -> None:
        self._has_timer = True

    def _begin(self, component: Component) -> None:
        component._node = self.node
        if self._wall is not None:
            component._wall_clock = self._wall

    def _open(self, key: str) -> _Slot:
        spare = self._spare
        for_key = None if spare is None else getattr(spare, "for_key", None)
        if for_key is not None:
            component = for_key(key)
            self._begin(component)
        elif spare is not None:
            component, self._spare = spare, None
            self._begin(component)
        else:
            component = self._make()
            self._begin(component)
            component.init(init_argument(component, self._config))
        component.key = key
        self._share_counts(component)
        slot = self._slots[key] = _Slot(component, getattr(component, self.method_name))
        self._held_bytes += KEY_BYTES + len(key)
        self.counts["keys"] += 1
        return slot

    def _share_counts(self, component: Component) -> None:
        own = own_attribute(component, "counts")
        if type(own) is dict:
            for name, count in own.items():
                self.counts.setdefault(name, count)
            component.counts = self.counts  # type: ignore[attr-defined]

    # Elements

    def call(self, element: Element) -> Emissions:
        """Calls the component of the element's key."""
        key = self._read_key(element)
        slot = self._slots.get(key)
        evicted: list[Any] = []
        if slot is None:
            slot = self._open(key)
            if self._is_full():
                evicted += self._evict()
        else:
            self._slots.move_to_end(key)
        if self._has_inputs:
            slot.component.input = self.input  # type: ignore[attr-defined]
        self._calls += 1
        slot.used_at = self._calls
        if self._changed is not None:
            self._changed[key] = None
        result = slot.method(element)
        if self._reports_bytes and slot.component.held_bytes != slot.held_bytes:  # type: ignore[attr-defined]
            self._measure(slot)
            if self._is_full():
                evicted += self._evict()
        if self._held is not None:
            self._held.note(key, slot.component, self._taken)
        self._taken += 1
        if self._has_timer:
            self._set_timer(key, slot)
        return [*evicted, *_items(result)] if evicted else result

    def _is_full(self) -> bool:
        return len(self._slots) > self._max_keys or self._held_bytes > self._max_bytes

    def _measure(self, slot: _Slot) -> None:
        held_bytes: int = slot.component.held_bytes  # type: ignore[attr-defined]
        self._held_bytes += held_bytes - slot.held_bytes
        slot.held_bytes = held_bytes

    def _evict(self) -> Iterator[Any]:
        """Closes the keys that were used least recently; the one in use stays."""
        while self._is_full() and len(self._slots) > 1:
            if len(self._slots) <= self._max_keys:
                self._note_memory()
            key, slot = self._slots.popitem(last=False)
            self.counts["evicted"] += 1
            yield from self._close(key, slot)

    def _note_memory(self) -> None:
        """A key is evicted because of the memory, though there may be more of them."""
        if not self.counts.get(BY_MEMORY):
            count = len(self._slots)
            needed = self._held_bytes // count * self._max_keys
            logger.warning(
                "node `%s` evicts keys before it has `max_keys` (%d): %d keys take up its "
                "`max_memory` of %.4g MiB; so many would need about %.4g MiB",
                self._name,
                self._max_keys,
                count,
                self._max_bytes / _MIB,
                needed / _MIB,
                extra={"event": "keys.memory", "node": self._name, "keys": count},
            )
        self.counts[BY_MEMORY] = self.counts.get(BY_MEMORY, 0) + 1

    def _close(self, key: str, slot: _Slot) -> Iterator[Any]:
        self._held_bytes -= slot.held_bytes + KEY_BYTES + len(key)
        self.counts["keys"] -= 1
        if self._changed is not None:
            self._changed[key] = None
        slot.due_ns = None
        if self._held is not None:
            self._held.forget(key)
        try:
            yield from _items(slot.component.flush())  # type: ignore[attr-defined]
        finally:
            slot.component.teardown()

    def flush(self) -> Iterator[Any]:
        for slot in self._slots.values():
            yield from _items(slot.component.flush())  # type: ignore[attr-defined]

    def teardown(self) -> None:
        """Tears down every component, even if some of them fail."""
        failure: BaseException | None = None
        components = [slot.component for slot in self._slots.values()]
        for component in [*components, *([self._spare] if self._spare is not None else [])]:
            try:
                component.teardown()
            except Exception as error:
                failure = failure or error
        self._slots.clear()
        self._timers.clear()
        self._spare = None
        if failure is not None:
            raise failure

    # Timers

    def due_ns(self) -> int | None:
        timers = self._timers
        while timers and not self._is_current(*timers[0]):
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def _is_current(self, due_ns: int, key: str) -> bool:
        slot = self._slots.get(key)
        return slot is not None and slot.due_ns == due_ns

    def _set_timer(self, key: str, slot: _Slot) -> None:
        due_ns = slot.component.due_ns()  # type: ignore[attr-defined]
        if due_ns != slot.due_ns:
            slot.due_ns = due_ns
            if due_ns is not None:
                heapq.heappush(self._timers, (due_ns, key))

    def on_timer(self, now_ns: int) -> Iterator[Any]:
        """Calls the components whose time has come, each once."""
        ready = []
        while (due_ns := self.due_ns()) is not None and due_ns <= now_ns:
            key = heapq.heappop(self._timers)[1]
            ready.append(key)
            self._slots[key].due_ns = None
        for key in ready:
            slot = self._slots[key]
            if self._changed is not None:
                self._changed[key] = None
            yield from _items(slot.component.on_timer())  # type: ignore[attr-defined]
            if self._held is not None:
                self._held.note(key, slot.component, None)
            self._set_timer(key, slot)

    # Acknowledgements

    def held_elements(self) -> int:
        """How many elements were taken since the oldest one that some key holds, with it."""
        if self._held is None:
            self._held = OldestElements()
            for key, slot in self._slots.items():
                self._held.start(key, slot.component)
        oldest = self._held.oldest()
        return 0 if oldest is None else self._taken - oldest

    # State

    def snapshot(self) -> bytes:
        """The states of all keys, in the order of their last use."""
        states = [
            (key, _encoded(slot.component.snapshot()))  # type: ignore[attr-defined]
            for key, slot in self._slots.items()
        ]
        return json.dumps(states, separators=(",", ":")).encode()

    def restore(self, state: bytes) -> None:
        for key, own in json.loads(state):
            self._restore_key(key, own)

    @property
    def tells_changes(self) -> bool:
        """Whether the keys that have changed are known."""
        return self._changed is not None

    def changed_states(self, *, is_all: bool) -> dict[str, bytes | None]:
        """The states of the keys that were used since the last call, or of all keys; None for those
        that have ended."""
        slots = self._slots
        names = slots if is_all or self._changed is None else self._changed
        states = {key: self.key_state(key) if key in slots else None for key in names}
        self._changed = {}
        return states

    def key_state(self, key: str) -> bytes:
        slot = self._slots[key]
        state = _encoded(slot.component.snapshot())  # type: ignore[attr-defined]
        return json.dumps((slot.used_at, state), separators=(",", ":")).encode()

    def restore_states(self, states: Sequence[tuple[str, bytes]]) -> None:
        """Takes back what `changed_states` and `key_state` have told."""
        keys, texts = zip(*states, strict=True) if states else ((), ())
        # One text is parsed several times faster than its parts.
        found = json.loads(b"[%s]" % b",".join(texts))
        for (used_at, own), key in sorted(zip(found, keys, strict=True), key=_used_at):
            self._restore_key(key, own).used_at = self._calls = used_at
        self._changed = {}

    def _restore_key(self, key: str, own: Any) -> _Slot:
        slot = self._open(key)
        self._calls += 1
        slot.used_at = self._calls
        slot.component.restore(_decoded(own))  # type: ignore[attr-defined]
        if self._reports_bytes:
            self._measure(slot)
        if self._has_timer:
            self._set_timer(key, slot)
        return slot


def _used_at(state: tuple[tuple[int, Any], str]) -> int:
    return state[0][0]


def _items(result: Any) -> Iterable[Any]:
    if result is None:
        return ()
    if isinstance(result, (list, tuple, Iterator)):
        return result
    return (result,)


def _encoded(state: Any) -> Any:
    if isinstance(state, bytes):
        return {"bytes": base64.b64encode(state).decode()}
    return {"value": state}


def _decoded(state: Any) -> Any:
    return base64.b64decode(state["bytes"]) if "bytes" in state else state["value"]
