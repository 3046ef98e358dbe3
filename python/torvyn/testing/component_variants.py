"""The same component in the hands of another runner: a thread, an event loop, or native code.

A test that runs over all `VARIANTS` shows that a stage does the same wherever it runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Generator
from typing import Any, Final

from torvyn.contract import ROLES, Component, End
from torvyn.contract.roles import METHODS
from torvyn.link.component_traits import calls_of, role_of
from torvyn.testing.components import ScriptedSource

VARIANTS: Final = ("python", "thread", "async", "native")
"""`python`: inline, no native code. `thread`, `async`: each stage on its own. `native`: inline,
native where a twin exists."""

WASM: Final = "wasm"
"""In the sandbox: what is sync runs as a guest. Needs componentize-py when the guest that runs
them all is not in the cache."""


def as_variant(component: Component, variant: str) -> Component:
    """The component as one of `VARIANTS`. What is async or reads a stream stays as it is."""
    if variant not in (*VARIANTS, WASM):
        raise ValueError(f"`variant` is one of {', '.join((*VARIANTS, WASM))}, not {variant!r}")
    if variant == "native" and isinstance(component, ScriptedSource):
        return _native_script(component)
    calls = calls_of(component, role_of(component))
    if variant == "native" or calls.is_async is not False or calls.reads_stream:
        return component
    if variant == WASM:
        return _sandboxed(component)
    if variant == "async":
        is_iterated = component.role == "source" and hasattr(component, "__iter__")
        twin = _ITERATED if is_iterated else _ASYNC[component.role]
        made: Component = twin(component)
        return made
    component.native_stage = None  # type: ignore[attr-defined]
    if variant == "thread":
        component.run = "thread"
    return component


def _sandboxed(component: Component) -> Component:
    """A guest, unless the component has native code or must run on a thread."""
    if component.run == "thread" or getattr(component, "native_stage", None) is not None:
        return component
    # Late: it brings the sandbox along.
    from torvyn.testing.sandbox_variant import as_guest

    return as_guest(component)


def _native_script(source: ScriptedSource) -> Component:
    plain = bool(source.items) and all(isinstance(item, str) for item in source.items)
    if plain and source.end is None:
        script = ("scripted", {"tokens": source.items, "repeat": 1})
        source.native_stage = lambda config: script  # type: ignore[attr-defined]
    return source


class _Twin(Component):
    """Stands in for a component on a loop: the same calls, as coroutines."""

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
        self.original.init(config)

    async def teardown(self) -> None:
        self.original.teardown()


def _twin(role: str) -> type[Component]:
    async def call(self: _Twin, *element: Any) -> Any:
        return getattr(self.original, METHODS[role])(*element)

    async def flush(self: _Twin) -> Any:
        return self.original.flush()

    async def complete(self: _Twin, end: Any) -> None:
        self.original.complete(end)

    def notify_backpressure(self: _Twin, signal: Any) -> None:
        self.original.notify_backpressure(signal)

    methods: dict[str, Any] = {METHODS[role]: call}
    if role in ("processor", "filter", "aggregator"):
        methods["flush"] = flush
    if role == "sink":
        methods["complete"] = complete
    if role == "source":
        methods["notify_backpressure"] = notify_backpressure
    return type(f"Async{role.title()}", (_Twin, ROLES[role]), methods)


def _iterated(self: Any) -> Any:
    def with_end() -> Generator[Any, None, None]:
        # An async generator cannot return its end, so it sends it.
        end = yield from self.original
        if isinstance(end, End):
            yield end

    async def items() -> AsyncIterator[Any]:
        with contextlib.closing(with_end()) as original:
            for item in original:
                yield item

    return items()


_ASYNC: Final = {role: _twin(role) for role in ROLES}
_ITERATED: Final = type("AsyncIteratedSource", (_ASYNC["source"],), {"__aiter__": _iterated})
