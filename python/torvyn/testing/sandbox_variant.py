"""Runs a component of a test in the sandbox: one Python guest, built once, runs any of them.

The test's own object shows the state in the guest: changes of attributes are copied back after each
call, and `wake`, `resume` and `interrupt` send the object's numbers, texts and flags to the guest.
"""

from __future__ import annotations

import base64
import json
import pickle
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from torvyn._contract.enums import ConfigKind
from torvyn._contract.roles import Component
from torvyn._io.files import write_atomically
from torvyn.sandbox.component import GuestComponent, guest_class
from torvyn.testing.serialized_component import CONTAINERS, serialize
from torvyn.testing.universal_guest import universal_guest

MEMORY_BYTES: Final = 64 << 20
"""The minimum for the interpreter."""
_REPORT_START: Final = "\x1e"


class SandboxVariant(GuestComponent):
    """Replaces a component of a test and keeps its state up to date."""

    config_kind = ConfigKind.EITHER.value
    original: Component
    serialized: str
    captured: list[Any]
    _updates: UpdateFolder | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "_node":
            has_node = value is not None and self._updates is not None
            node = NodeProxy(self.original, self._updates, value) if has_node else None
            self.original._node = node

    def init(self, config: str) -> None:
        self._updates = UpdateFolder()
        limits = self.limits
        assert limits is not None
        grants = (*limits.grants, f"filesystem:read:{self._updates.folder}")
        memory_bytes = max(limits.max_memory_bytes, MEMORY_BYTES)
        self.limits = replace(limits, grants=grants, max_memory_bytes=memory_bytes)
        super().init(json.dumps([self.serialized, str(self._updates.folder), config]))

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self._updates = None

    def printer(self, node: str) -> Callable[[str, str, bool], None]:
        lines: list[str] = []
        return partial(_receive, weakref.ref(self), lines, super().printer(node))


def as_guest(component: Component) -> Component:
    """The component as a guest; raises `NotSerializable` if it cannot run there."""
    serialized, captured = serialize(component)
    variant: Any = _variant_class(component.role)()
    variant.original, variant.serialized, variant.captured = component, serialized, captured
    variant.config, variant.unit = component.config, component.unit
    if component.role == "router":
        variant.ports = component.ports  # type: ignore[attr-defined]
    return variant  # type: ignore[no-any-return]


@lru_cache(maxsize=8)
def _variant_class(role: str) -> type[GuestComponent]:
    return guest_class(universal_guest(), role, role=role, kind=SandboxVariant)


class UpdateFolder:
    """A folder that the guest reads: one file per update from the test."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="torvyn-updates-"))
        self._close = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._sent = 0

    def send(self, state: dict[str, Any]) -> None:
        write_atomically(self.folder / str(self._sent), pickle.dumps(state), is_durable=False)
        self._sent += 1


class NodeProxy:
    """The running node for the test's object; sends the object's state before each call."""

    def __init__(self, original: Component, updates: UpdateFolder | None, node: Any) -> None:
        self._original, self._updates, self._node = weakref.ref(original), updates, node

    def __getattr__(self, name: str) -> Any:
        original = self._original()
        if self._updates is not None and original is not None:
            scalars = (bool, int, float, str, type(None))
            state = vars(original).items()
            self._updates.send({key: value for key, value in state if isinstance(value, scalars)})
        return getattr(self._node, name)


def _receive(
    reference: weakref.ref[SandboxVariant],
    lines: list[str],
    printer: Callable[[str, str, bool], None],
    channel: str,
    text: str,
    is_granted: bool,
) -> None:
    """Handles a line of the guest: part of a report, or something that the component printed."""
    if not text.startswith(_REPORT_START):
        printer(channel, text, is_granted)
        return
    lines.append(text[1:-1])
    if text.endswith(_REPORT_START):
        report = pickle.loads(base64.b85decode("".join(lines)))
        lines.clear()
        variant = reference()
        if variant is not None:
            _apply(variant, *report)


def _apply(variant: SandboxVariant, changes: list[tuple[Any, str, Any]], calls: list[str]) -> None:
    state = vars(variant.original)
    for key, extent, value in changes:
        current: Any = variant.captured[key] if isinstance(key, int) else state.get(key)
        if extent == "tail":
            current.extend(value)
        elif isinstance(current, CONTAINERS) and type(current) is type(value):
            # Changed in place, because the test may refer to the container itself.
            current.clear()
            (current.extend if isinstance(current, list) else current.update)(value)
        else:
            state[key] = value
    for name in calls:
        if variant._node is not None:
            getattr(variant._node, name)()
