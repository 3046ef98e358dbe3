"""The elements that the components of a node's keys hold, by the order in which the node took them.

The node's source is acknowledged up to the oldest of them.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any


class OldestElements:
    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        """An entry counts if it is still the oldest element of its key."""
        self._oldest: dict[str, int] = {}
        self._elements: dict[str, deque[int]] = {}

    def start(self, key: str, component: Any) -> None:
        """A key whose component took elements before they were counted."""
        self._elements[key] = deque([0] * component.held_elements())
        self.note(key, component, None)

    def note(self, key: str, component: Any, index: int | None) -> None:
        """The component of a key was called; `index` is the element that it took, if any."""
        # A component that knows its oldest element saves us from remembering all of them.
        is_indexed = hasattr(type(component), "oldest_held")
        oldest = component.oldest_held if is_indexed else self._trim(key, component, index)
        if oldest is None:
            self._oldest.pop(key, None)
        elif self._oldest.get(key) != oldest:
            self._oldest[key] = oldest
            heapq.heappush(self._heap, (oldest, key))

    def _trim(self, key: str, component: Any, index: int | None) -> int | None:
        """Forgets what the component no longer holds; returns the oldest element that it does."""
        elements = self._elements.setdefault(key, deque())
        if index is not None:
            elements.append(index)
        held = component.held_elements()
        while len(elements) > held:
            elements.popleft()
        return elements[0] if elements else None

    def forget(self, key: str) -> None:
        """The component of a key has ended."""
        self._oldest.pop(key, None)
        self._elements.pop(key, None)

    def oldest(self) -> int | None:
        while self._heap:
            oldest, key = self._heap[0]
            if self._oldest.get(key) == oldest:
                return oldest
            heapq.heappop(self._heap)
        return None
