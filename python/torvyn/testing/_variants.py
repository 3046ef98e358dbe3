"""Variants of a component that run on a thread, on an event loop, or in native code.

A test over all `VARIANTS` shows that a component does the same wherever it runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Generator
from typing import Any, Final

from torvyn._contract.config import init_argument
from torvyn._contract.enums import ConfigKind
from torvyn._contract.roles import METHODS, ROLES, Component
from torvyn._contract.signals import End
from torvyn._link.component_traits import call_style_of, role_of
from torvyn.testing._components import ScriptedSource

VARIANTS: Final = ("python", "thread", "async", "native")
"""`python`: inline, in Python. `thread`: on a thread. `async`: as coroutines on an event loop.
`native`: inline, in native code where it exists."""

WASM: Final = "wasm"
"""The variant that runs sync components in the sandbox. Needs componentize-py, unless the guest is
cached."""


def as_variant(component: Component, variant: str) -> Component:
    """The component as one of `VARIANTS`; unchanged if it is async or reads a stream."""
    if variant not in (*VARIANTS, WASM):
        raise ValueError(
            f"`variant` must be one of {', '.join((*VARIANTS, WASM))}, not {variant!r}"
        )
    if variant == "native" and isinstance(component, ScriptedSource):
        return _native_script(component)
    calls = call_style_of(component, role_of(component))
    if variant == "native" or calls.is_async is not False or calls.reads_stream:
        return component
    if variant == WASM:
        return _sandbox_variant(component)
    if variant == "async":
        is_iterated = component.role == "source" and hasattr(component, "__iter__")
        wrapper: type[Any] = _ITERATED if is_iterated else _ASYNC[component.role]
        wrapped: Component = wrapper(component)
        return wrapped
    component.native_stage = None  # type: ignore[attr-defined]
    if variant == "thread":
        component.run = "thread"
    return component


def _sandbox_variant(component: Component) -> Component:
    """A guest, unless the component has native code or must run on a thread."""
    if component.run == "thread" or getattr(component, "native_stage", None) is not None:
        return component
    # Imported late, because it loads the sandbox.
    from torvyn.testing._sandbox_variant import as_guest

    return as_guest(component)


def _native_script(source: ScriptedSource) -> Component:
    is_text = bool(source.items) and all(isinstance(item, str) for item in source.items)
    if is_text and source.end is None:
        script = ("scripted", {"tokens": source.items, "repeat": 1})
        source.native_stage = lambda config: script  # type: ignore[attr-defined]
    return source


class _AsyncVariant(Component):
    """Wraps a sync component: the same methods, as coroutines."""

    config_kind = ConfigKind.EITHER.value

    def __init__(self, original: Component) -> None:
        super().__init__(original.config)
        self.original: Any = original
        self.unit = original.unit
        if original.role == "router":
            self.ports = original.ports  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "_node":
            self.original._node = value

    async def init(self, config: str) -> None:
        self.original.init(init_argument(self.original, config))

    async def teardown(self) -> None:
        self.original.teardown()


def _async_class(role: str) -> type[Component]:
    async def call(self: _AsyncVariant, *element: Any) -> Any:
        return getattr(self.original, METHODS[role])(*element)

    async def flush(self: _AsyncVariant) -> Any:
        return self.original.flush()

    async def complete(self: _AsyncVariant, end: Any) -> None:
        self.original.complete(end)

    def notify_backpressure(self: _AsyncVariant, signal: Any) -> None:
        self.original.notify_backpressure(signal)

    methods: dict[str, Any] = {METHODS[role]: call}
    if role in ("processor", "filter", "aggregator"):
        methods["flush"] = flush
    if role == "sink":
        methods["complete"] = complete
    if role == "source":
        methods["notify_backpressure"] = notify_backpressure
    return type(f"Async{role.title()}", (_AsyncVariant, ROLES[role]), methods)


def _iterated(self: Any) -> Any:
    def with_end() -> Generator[Any, None, None]:
        # An async generator cannot return a value, so it yields the end.
        end = yield from self.original
        if isinstance(end, End):
            yield end

    async def items() -> AsyncIterator[Any]:
        with contextlib.closing(with_end()) as original:
            for item in original:
                yield item

    return items()


_ASYNC: Final = {role: _async_class(role) for role in ROLES}
_ITERATED: Final = type("AsyncIteratedSource", (_ASYNC["source"],), {"__aiter__": _iterated})
