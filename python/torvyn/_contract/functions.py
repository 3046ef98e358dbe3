"""Functions as components, so that a small step needs no class.

torvyn.Flow(torvyn.source(["a", "b"]), torvyn.filter(lambda e: e.text != "a"))
"""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)
from typing import Any, TypeAlias

from torvyn._contract.element import Element
from torvyn._contract.inspection import class_name, describe_error, is_class, safe_repr
from torvyn._contract.roles import (
    Aggregator,
    Component,
    Emission,
    Emissions,
    Filter,
    FilterResult,
    Item,
    Processor,
    PushResult,
    Router,
    RouteResult,
    Sink,
    Source,
)
from torvyn._contract.signals import End
from torvyn.errors import ContractError

Items: TypeAlias = Iterable[Item] | AsyncIterable[Item]
StreamFunction: TypeAlias = (
    Callable[[Iterator[Element]], Iterable[Emission | End]]
    | Callable[[AsyncIterator[Element]], AsyncIterable[Emission | End]]
)
ElementFunction: TypeAlias = Callable[
    [Element], Emissions | Awaitable[Emissions] | AsyncIterator[Emission]
]
ComponentLike: TypeAlias = (
    Component | type[Component] | Items | Callable[[], Items] | ElementFunction | StreamFunction
)
"""What `as_component` makes a component of."""
Stage: TypeAlias = str | ComponentLike
"""Whatever `Flow` accepts as a node; a text is the name of a built-in component."""


class IterableSource(Source):
    """A source from an iterable, or from a function that returns one."""

    def __init__(self, items: Any) -> None:
        super().__init__()
        self._items = items

    def __iter__(self) -> Any:
        items = self._items() if callable(self._items) else self._items
        return iter(items)


class AsyncIterableSource(Source):
    """A source from an async iterable, or from an async generator function."""

    def __init__(self, items: Any) -> None:
        super().__init__()
        self._items = items

    def __aiter__(self) -> Any:
        items = self._items() if callable(self._items) else self._items
        return aiter(items)


def _iterable_source(items: Any) -> Source:
    if inspect.isasyncgenfunction(items) or isinstance(items, AsyncIterable):
        return AsyncIterableSource(items)
    return IterableSource(items)


class FunctionFilter(Filter):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.evaluate = function  # type: ignore[method-assign]


class FunctionProcessor(Processor):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.process = function  # type: ignore[method-assign]


class FunctionRouter(Router):
    def __init__(self, function: Callable[..., Any], ports: Iterable[str]) -> None:
        super().__init__()
        self.route = function  # type: ignore[method-assign]
        self.ports = tuple(ports)


class FunctionAggregator(Aggregator):
    def __init__(
        self,
        ingest: Callable[..., Any],
        flush: Callable[..., Any] | None,
        held_elements: Callable[[], int] | None,
    ) -> None:
        super().__init__()
        self.ingest = ingest  # type: ignore[method-assign]
        if flush is not None:
            self.flush = flush  # type: ignore[method-assign]
        if held_elements is not None:
            self.held_elements = held_elements


class FunctionSink(Sink):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.push = function  # type: ignore[method-assign]


class StreamProcessor(Processor):
    """A generator function over the stream: sync (runs on a thread) or async (on the loop)."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.stream_function = function
        self.run = "async" if inspect.isasyncgenfunction(function) else "thread"


def source(items: Items | Callable[[], Items]) -> Source:
    """A source from an iterable, an async iterable, or a function that returns one."""
    if not (callable(items) or isinstance(items, (Iterable, AsyncIterable))):
        raise _wrong("source", "an iterable, an async iterable or a generator function", items)
    return _iterable_source(items)


def filter(function: Callable[[Element], FilterResult | Awaitable[FilterResult]]) -> Filter:
    """A filter from `function(element) -> bool | Verdict`."""
    return FunctionFilter(_callable("filter", function))


def processor(function: ElementFunction) -> Processor:
    """A processor from `function(element) -> None | one | list | generator`."""
    return FunctionProcessor(_callable("processor", function))


def router(
    function: Callable[[Element], RouteResult | Awaitable[RouteResult]], ports: Iterable[str]
) -> Router:
    """A router from `function(element) -> port names`, with the ports it may name."""
    return FunctionRouter(_callable("router", function), ports)


def aggregator(
    ingest: Callable[[Element], Emissions | Awaitable[Emissions]],
    flush: Callable[[], Emissions | Awaitable[Emissions]] | None = None,
    held_elements: Callable[[], int] | None = None,
) -> Aggregator:
    """An aggregator from `ingest(element) -> None | one` and an optional `flush() -> list`.

    `held_elements()` returns how many elements it took since the oldest one that is not in an
    output yet, with that one. It is needed behind a source that waits for acknowledgements.
    """
    return FunctionAggregator(_callable("aggregator", ingest), flush, held_elements)


def sink(function: Callable[[Element], PushResult | Awaitable[PushResult]]) -> Sink:
    """A sink from `function(element) -> None | Signal`."""
    return FunctionSink(_callable("sink", function))


def stream(function: StreamFunction) -> Processor:
    """A processor from a generator over the stream.

    `async def node(stream): async for x in stream: yield y`, or the same without `async`. If it
    yields an `End`, the stream ends there for the nodes after it.
    """
    if not (inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)):
        raise _wrong("stream", "a generator function that takes the stream", function)
    return StreamProcessor(function)


def as_component(thing: ComponentLike) -> Component:
    """The component for an object that was passed to `Flow` as a node."""
    try:
        return _as_component(thing)
    except (ContractError, KeyboardInterrupt):
        raise
    except BaseException as error:
        message = f"cannot inspect an object of type {class_name(thing)}: {describe_error(error)}"
        raise ContractError("contract.not-a-component", message) from error


def _as_component(thing: Any) -> Component:
    if isinstance(thing, Component):
        return thing
    if is_class(thing) and issubclass(thing, Component):
        return _instantiate(thing)
    if type(thing) is list:
        return IterableSource(thing)
    if isinstance(thing, (AsyncIterable, Iterable)) and not isinstance(thing, (str, bytes)):
        return _iterable_source(thing)
    if callable(thing) and not is_class(thing):
        return _of_function(thing)
    raise ContractError(
        "contract.not-a-component",
        f"{safe_repr(thing)} is not a component",
        hint="pass a component, its class, the name of a built-in one, a function of an element, "
        "or an iterable",
    )


def _of_function(function: Callable[..., Any]) -> Component:
    """Without an argument it makes the items of a source; a generator reads the whole stream."""
    if not _takes_argument(function):
        return _iterable_source(function)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return StreamProcessor(function)
    return FunctionProcessor(function)


def _instantiate(cls: type[Component]) -> Component:
    try:
        return cls()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ContractError(
            "contract.not-a-component",
            f"cannot create `{class_name(cls)}`: {describe_error(error)}",
            hint="`__init__` must work without arguments, or pass an instance",
        ) from error


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        return bool(inspect.signature(function).parameters)
    except ValueError:
        # Some built-in functions do not say.
        return True


def _callable(name: str, function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise _wrong(name, "a function", function)
    return function  # type: ignore[no-any-return]


def _wrong(name: str, expected: str, got: Any) -> ContractError:
    return ContractError(
        "contract.not-a-component",
        f"torvyn.{name} takes {expected}, not {type(got).__name__}",
    )
