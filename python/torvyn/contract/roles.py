"""Roles: the six kinds of component, and what each is asked.

A component subclasses one role and overrides its method, sync or `async def`. The reactor fetches
the bound methods once, when the flow starts. `init` is called before the first element and
`teardown` after the last, whatever happened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from torvyn.contract.element import Context, Element, Output
from torvyn.contract.options import RunMode
from torvyn.contract.signals import End, Pending, Signal
from torvyn.contract.verdict import Verdict

# What a method may answer. Not `Any`: a type checker then reports what the reactor would refuse. A
# coroutine answers the same, awaited.
Emission: TypeAlias = str | bytes | Output | Element
Item: TypeAlias = Emission | Pending | End
"""What a source may be iterated for."""
Emissions: TypeAlias = Emission | Sequence[Emission] | Iterator[Emission | None] | None
"""None, one, or many: a list, a tuple or a generator, in which None stands for nothing."""
PullResult: TypeAlias = Item | None
FilterResult: TypeAlias = bool | Verdict
RouteResult: TypeAlias = Iterable[str] | None
PushResult: TypeAlias = Signal | None


class Component:
    """What the six roles share."""

    role: ClassVar[str] = ""
    interface: ClassVar[str] = ""
    unit: str | None = None
    """What the outputs are called in summaries; for a sink, what it receives."""
    run: RunMode | None = None
    """`inline`, `async` or `thread`; found from the methods when None."""
    config: Any = ""

    _node: Any = None
    """The running node, set by the reactor while the flow runs."""
    _context: Context | None = None
    """What all elements of the flow share, set by the reactor before the first of them."""

    def __init__(self, config: Any = "") -> None:
        self.config = config

    def init(self, config: str) -> Awaitable[None] | None:
        """Called when the flow starts, with the node's config (a table arrives as JSON)."""

    def teardown(self) -> Awaitable[None] | None:
        """Called when the flow has ended, in whatever way."""


class Source(Component):
    """Makes elements: by `pull`, or by `__iter__` / `__aiter__`."""

    role = "source"
    interface = "torvyn:streaming/source"

    def pull(self) -> PullResult | Awaitable[PullResult]:
        """The next element; `None` or `End` when there is none left; `PENDING` when there is none
        yet."""
        raise NotImplementedError(f"{type(self).__name__} has neither `pull` nor `__iter__`")

    def notify_backpressure(self, signal: Signal) -> Awaitable[None] | None:
        """Told once when the flow stops taking (`PAUSE`) and once when it takes again (`READY`)."""

    def wake(self) -> None:
        """Ask to be pulled again after `PENDING`. May be called from any thread."""
        if self._node is not None:
            self._node.wake()

    def interrupt(self) -> None:
        """Drop what waits downstream of this source, except elements sent with `keep=True`."""
        if self._node is not None:
            self._node.interrupt()


class Processor(Component):
    """Turns an element into none, one or many."""

    role = "processor"
    interface = "torvyn:streaming/processor"

    def process(
        self, element: Element
    ) -> Emissions | Awaitable[Emissions] | AsyncIterator[Emission]:
        raise NotImplementedError

    def flush(self) -> Emissions | Awaitable[Emissions]:
        """What is still to be sent when the input has ended."""


class Filter(Component):
    """Judges an element; makes none but what it has kept back."""

    role = "filter"
    interface = "torvyn:filtering/filter"

    def evaluate(self, element: Element) -> FilterResult | Awaitable[FilterResult]:
        raise NotImplementedError

    def flush(self) -> Verdict | Emissions | Awaitable[Verdict | Emissions]:
        """What a filter that keeps text back still has when the input has ended. A
        `Verdict.block` ends the stream with `content_filter`."""


class Router(Component):
    """Directs an element to the ports it names; to none, and the element is dropped and counted."""

    role = "router"
    interface = "torvyn:filtering/router"
    ports: Iterable[str] = ()

    def route(self, element: Element) -> RouteResult | Awaitable[RouteResult]:
        raise NotImplementedError


class Aggregator(Component):
    """Takes elements in and now and then gives one out."""

    role = "aggregator"
    interface = "torvyn:aggregation/aggregator"

    def ingest(self, element: Element) -> Emissions | Awaitable[Emissions]:
        raise NotImplementedError

    def flush(self) -> Emissions | Awaitable[Emissions]:
        """What is left when the input has ended."""
        return []


class Sink(Component):
    """Delivers elements to the world."""

    role = "sink"
    interface = "torvyn:streaming/sink"

    def push(self, element: Element) -> PushResult | Awaitable[PushResult]:
        """Deliver one element. `Signal.PAUSE` stops pushes until `self.resume()`."""
        raise NotImplementedError

    def complete(self, end: End) -> Awaitable[None] | None:
        """The stream has ended and everything was pushed. Not called when a flow fails or is
        cancelled."""

    def resume(self) -> None:
        """Take elements again after `Signal.PAUSE`. May be called from any thread."""
        if self._node is not None:
            self._node.resume()


ROLES: Final[dict[str, type[Component]]] = {
    cls.role: cls for cls in (Source, Processor, Filter, Router, Aggregator, Sink)
}
INTERFACES: Final[dict[str, str]] = {cls.interface: role for role, cls in ROLES.items()}

METHODS: Final[dict[str, str]] = {
    "source": "pull",
    "processor": "process",
    "filter": "evaluate",
    "router": "route",
    "aggregator": "ingest",
    "sink": "push",
}

OPTIONAL_METHODS: Final[dict[str, tuple[str, ...]]] = {
    "source": ("notify_backpressure",),
    "processor": ("flush",),
    "filter": ("flush",),
    "router": (),
    "aggregator": ("flush",),
    "sink": ("complete",),
}
"""The methods of each role beside its main one and those that all have."""
