"""A component of a test in the sandbox: one guest in Python, built once, runs any of them.

The test's own object shows what happens in the guest: changes of its attributes come back after
each call, and `wake`, `resume` and `interrupt` take its numbers, texts and flags along.
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

from torvyn.contract import Component
from torvyn.sandbox.component import GuestComponent, guest_class
from torvyn.testing.serialized_component import CONTAINERS, pack
from torvyn.testing.universal_guest import universal_guest

MEMORY_BYTES: Final = 64 << 20
"""An interpreter wants more than tests allow for what a component holds."""
_MARK: Final = "\x1e"


class SandboxVariant(GuestComponent):
    """Stands in for a component of a test, and keeps it told."""

    original: Component
    parcel: str
    captured: list[Any]
    _letters: Letters | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "_node":
            has_node = value is not None and self._letters is not None
            self.original._node = Courier(self.original, self._letters, value) if has_node else None

    def init(self, config: str) -> None:
        self._letters = Letters()
        allowed = self.limits
        assert allowed is not None
        grants = (*allowed.grants, f"filesystem:read:{self._letters.folder}")
        memory_bytes = max(allowed.max_memory_bytes, MEMORY_BYTES)
        self.limits = replace(allowed, grants=grants, max_memory_bytes=memory_bytes)
        super().init(json.dumps([self.parcel, str(self._letters.folder), config]))

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self._letters = None

    def printer(self, node: str) -> Callable[[str, str, bool], None]:
        pages: list[str] = []
        return partial(_hear, weakref.ref(self), pages, super().printer(node))


def as_guest(component: Component) -> Component:
    """The component as a guest; raises `NotSerializable` for one that must stay here."""
    parcel, captured = pack(component)
    twin: Any = _twin_class(component.role)()
    twin.original, twin.parcel, twin.captured = component, parcel, captured
    twin.config, twin.unit = component.config, component.unit
    if component.role == "router":
        twin.ports = component.ports  # type: ignore[attr-defined]
    return twin  # type: ignore[no-any-return]


@lru_cache(maxsize=8)
def _twin_class(role: str) -> type[GuestComponent]:
    return guest_class(universal_guest(), role, role=role, kind=SandboxVariant)


class Letters:
    """A folder that the guest may read: one file for each change that the test made."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="torvyn-letters-"))
        self._close = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._sent = 0

    def send(self, state: dict[str, Any]) -> None:
        part = self.folder / "part"
        part.write_bytes(pickle.dumps(state))
        part.rename(self.folder / str(self._sent))
        self._sent += 1


class Courier:
    """The running node in the hands of the test's object."""

    def __init__(self, original: Component, letters: Letters | None, node: Any) -> None:
        self._original, self._letters, self._node = weakref.ref(original), letters, node

    def __getattr__(self, name: str) -> Any:
        original = self._original()
        if self._letters is not None and original is not None:
            plain = (bool, int, float, str, type(None))
            state = vars(original)
            self._letters.send({key: state[key] for key in state if isinstance(state[key], plain)})
        return getattr(self._node, name)


def _hear(
    reference: weakref.ref[SandboxVariant],
    pages: list[str],
    printer: Callable[[str, str, bool], None],
    channel: str,
    text: str,
    is_granted: bool,
) -> None:
    """A report of the guest, in one or several lines; or something that the component printed."""
    if not text.startswith(_MARK):
        printer(channel, text, is_granted)
        return
    pages.append(text[1:-1])
    if text.endswith(_MARK):
        report = pickle.loads(base64.b85decode("".join(pages)))
        pages.clear()
        twin = reference()
        if twin is not None:
            _apply(twin, *report)


def _apply(twin: SandboxVariant, changes: list[tuple[Any, str, Any]], asked: list[str]) -> None:
    state = vars(twin.original)
    for key, what, value in changes:
        here: Any = twin.captured[key] if isinstance(key, int) else state.get(key)
        if what == "tail":
            here.extend(value)
        elif isinstance(here, CONTAINERS) and type(here) is type(value):
            # The test may hold the container itself.
            here.clear()
            (here.extend if isinstance(here, list) else here.update)(value)
        else:
            state[key] = value
    for name in asked:
        if twin._node is not None:
            getattr(twin._node, name)()
