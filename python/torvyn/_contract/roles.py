"""Roles: the six kinds of component, and which methods a component has.

A component subclasses one role and overrides its method, sync or `async def`. It may also define
the batch method of its role (`BATCH_METHODS`), or only that. The reactor reads the bound methods
once, when the flow starts. It calls `init` before the first element and `teardown` after the last,
however the flow ends.

Last are the two roles of a request in a flow: the source that emits it, and the processor that
answers it. Only the texts flow between them, so that guards filter them like any other text. The
rest goes directly from one to the other, so no component between can see or forge it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, ClassVar, Final, TypeAlias

from torvyn._contract.element import Context, Dataclass, Element, Output
from torvyn._contract.inspection import class_attribute, has_attribute, is_class, namespaces
from torvyn._contract.options import RunMode
from torvyn._contract.signals import End, Pending, Signal, Verdict

# What a method may return. Not `Any`, so that a type checker reports what the reactor would reject.
Emission: TypeAlias = str | bytes | dict[str, Any] | Dataclass | Output | Element
"""A payload, perhaps with more. A dict or a dataclass is sent as JSON."""
Item: TypeAlias = Emission | Pending | End
"""What iterating a source may yield."""
Emissions: TypeAlias = Emission | Sequence[Emission] | Iterator[Emission | None] | None
"""None, one, or many: a list, a tuple or a generator, which may yield None for nothing."""
PullResult: TypeAlias = Item | None
FilterResult: TypeAlias = bool | Verdict
BatchResult: TypeAlias = Sequence[Emission | Sequence[Emission] | Exception | None] | None
"""What `process_batch` returns: an entry for each element, or None for nothing at all. An exception
is the error of its element."""
VerdictList: TypeAlias = Sequence[bool | Verdict | Exception]
"""What `evaluate_batch` returns: an entry for each element."""
RouteResult: TypeAlias = Iterable[str] | None
PushResult: TypeAlias = Signal | None


class Component:
    """What the six roles share."""

    role: ClassVar[str] = ""
    interface: ClassVar[str] = ""
    unit: str | None = None
    """The plural noun for the outputs in summaries; for a sink, for its inputs."""
    run: RunMode | None = None
    """`inline`, `async` or `thread`; None: determined by the methods."""
    waits_without_limit: ClassVar[bool] = False
    """Whether its calls wait for something outside, for as long as that is away. `call_timeout`
    then limits them only if the node sets it."""
    is_exclusive: bool = False
    """Whether only one instance can have what `init` opens, such as a port or a device. A swap then
    tears the old component down before it initializes the new one."""
    is_successor: bool = False
    """Whether it takes the place of a component of a running flow, set before `init`: what that one
    has written must stay."""
    config_kind: ClassVar[str | None] = None
    """The config that it takes: `text`, `table`, `either` or `none`. Another kind is an error when
    the flow is linked. None: determined by the type of the parameter of `init`."""
    config: Any = ""

    _node: Any = None
    """The running node, set by the reactor while the flow runs."""
    _wall_clock: Callable[[], int] = staticmethod(time.time_ns)
    """The wall clock, which a test may replace."""
    _context: Context | None = None
    """What all elements of the flow share, set by the reactor before the first element."""

    def __init__(self, config: Any = "") -> None:
        self.config = config

    def init(self, config: Any) -> Awaitable[None] | None:
        """Called when the flow starts, with the node's config.

        The type of `config` says what the component takes: `str`, a `dict`, or both. A table is
        JSON text for an `init` that takes a `str`."""

    def teardown(self) -> Awaitable[None] | None:
        """Called after the flow has ended, however it ended."""

    def unblock(self) -> None:
        """Called from another thread when the flow has ended and the component runs on a thread of
        its own: a call that waits must return or raise soon, so that `teardown` can follow."""

    def now_ns(self) -> int:
        """The flow's time, which never goes back: that of `Element.timestamp_ns` and timers."""
        now_ns = None if self._node is None else self._node.now_ns
        return time.monotonic_ns() if now_ns is None else now_ns

    def wall_ns(self) -> int:
        """The wall clock, as Unix nanoseconds. It may be wrong, and it may be set at any time."""
        return self._wall_clock()


AnyComponent: TypeAlias = Component | type[Component]
"""A live component, or a class: what can be told about either before it runs."""


class _Stateful(Component):
    """What processors and aggregators share: timers, further ports and named inputs."""

    ports: Iterable[str] = ()
    """Further output ports, besides `output`. An `Output` names one with `port=`. A port without an
    edge drops its elements, and they are counted."""
    inputs: Iterable[str] = ()
    """The names of the inputs, for a component that tells them apart. An edge names one in
    `to = "node:input"`, and `self.input` is the name for the current element."""
    input: str = ""
    """The input of the current element, for a component with `inputs`."""
    key: str | None = None
    """The key of the elements that this component receives, if its node has a `key`."""

    def due_ns(self) -> int | None:
        """Returns when `on_timer` is to be called, in the flow's time, or None. Asked again after
        each call of the component."""
        return None

    def on_timer(self) -> Emissions:
        """Called once the time of `due_ns` has come. Returns what to send."""
        return None


class Source(Component):
    """Produces elements, with `pull` or with `__iter__` / `__aiter__`.

    A source that has several elements at once may define `pull_batch(self, most)`, besides `pull`
    or instead of it. It returns a list of one to `most` elements and does not wait for more, or
    what `pull` returns if there are none.

    A source that defines `acknowledge(self, count)` asks for acknowledgements: the flow calls it
    when its next `count` elements, in the order in which it produced them, are settled. An element
    is settled when the sinks have accepted everything that was made from it, or when it was
    filtered, dropped or dead-lettered. What a flow left unread when it ended is never acknowledged.
    """

    role = "source"
    interface = "torvyn:streaming/source"

    def pull(self) -> PullResult | Awaitable[PullResult]:
        """Returns the next element, `None` or `End` at the end, or `PENDING` if none is ready."""
        raise NotImplementedError(f"{type(self).__name__} has neither `pull` nor `__iter__`")

    def notify_backpressure(self, signal: Signal) -> Awaitable[None] | None:
        """Called once when the flow stops pulling (`PAUSE`) and once when it resumes (`READY`)."""

    def wake(self) -> None:
        """Requests another `pull` after `PENDING`. May be called from any thread."""
        if self._node is not None:
            self._node.wake()

    def interrupt(self) -> None:
        """Drops the elements waiting downstream, except those sent with `keep=True`."""
        if self._node is not None:
            self._node.interrupt()


class Processor(_Stateful):
    """Turns an element into zero, one or many."""

    role = "processor"
    interface = "torvyn:streaming/processor"

    def process(
        self, element: Element
    ) -> Emissions | Awaitable[Emissions] | AsyncIterator[Emission]:
        raise NotImplementedError

    def flush(self) -> Emissions | Awaitable[Emissions]:
        """Returns what is left to send when the input has ended."""


class Filter(Component):
    """Decides about each element; emits only elements that it held."""

    role = "filter"
    interface = "torvyn:filtering/filter"

    def evaluate(self, element: Element) -> FilterResult | Awaitable[FilterResult]:
        raise NotImplementedError

    def flush(self) -> Verdict | Emissions | Awaitable[Verdict | Emissions]:
        """Returns the text that the filter still buffers when the input has ended. A
        `Verdict.block` ends the stream with `content_filter`."""


class Router(Component):
    """Sends an element to the ports it returns; with none, the element is dropped and counted."""

    role = "router"
    interface = "torvyn:filtering/router"
    ports: Iterable[str] = ()

    def route(self, element: Element) -> RouteResult | Awaitable[RouteResult]:
        raise NotImplementedError


class Aggregator(_Stateful):
    """Combines elements into fewer elements."""

    role = "aggregator"
    interface = "torvyn:aggregation/aggregator"

    def ingest(self, element: Element) -> Emissions | Awaitable[Emissions]:
        raise NotImplementedError

    def flush(self) -> Emissions | Awaitable[Emissions]:
        """Returns what is left when the input has ended."""
        return []


class Sink(Component):
    """Delivers elements to the outside."""

    role = "sink"
    interface = "torvyn:streaming/sink"

    def push(self, element: Element) -> PushResult | Awaitable[PushResult]:
        """Delivers one element. Returning `Signal.PAUSE` stops pushes until `self.resume()`."""
        raise NotImplementedError

    def complete(self, end: End) -> Awaitable[None] | None:
        """Called when the stream has ended and every element was pushed. Not called when the flow
        fails or is cancelled."""

    def resume(self) -> None:
        """Accepts elements again after `Signal.PAUSE`. May be called from any thread."""
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

BATCH_METHODS: Final[dict[str, str]] = {
    role: f"{METHODS[role]}_batch"
    for role in ("source", "processor", "filter", "aggregator", "sink")
}
"""The methods that take, or for a source return, several elements in one call. A component may
define one of them besides its role's method, or instead of it."""

OPTIONAL_METHODS: Final[dict[str, tuple[str, ...]]] = {
    "source": ("notify_backpressure",),
    "processor": ("flush",),
    "filter": ("flush",),
    "router": (),
    "aggregator": ("flush",),
    "sink": ("complete",),
}
"""The methods of each role besides its main one and those that all roles have."""

TIMER_METHODS: Final = ("due_ns", "on_timer")
"""The methods that a processor or an aggregator with a timer overrides."""
TIMED_ROLES: Final = ("processor", "aggregator")


def defines_method(component: AnyComponent, role: str, method: str) -> bool:
    """Whether it has a method of its own, not only the one of its role, which raises or does
    nothing."""
    cls: Any = component
    if not is_class(component):
        cls = type(component)
        if method in object.__getattribute__(component, "__dict__"):
            return True
    return class_attribute(cls, method) is not _of_role(role, method)


@cache
def _of_role(role: str, method: str) -> Any:
    return class_attribute(ROLES[role], method)


def batch_method_of(component: AnyComponent, role: str) -> str | None:
    """The name of its batch method. None if it has none, or if a class closer to it overrides only
    the role's method: then that one must be called."""
    name = BATCH_METHODS.get(role)
    for namespace in namespaces(component):
        if name in namespace:
            return name
        if METHODS[role] in namespace:
            return None
    return None


def has_timer(component: AnyComponent, role: str) -> bool:
    """Whether it is to be called when a time has come."""
    return role in TIMED_ROLES and defines_method(component, role, TIMER_METHODS[0])


def acknowledges(component: Component) -> bool:
    """Whether a source asks for acknowledgements."""
    return has_attribute(component, "acknowledge")


def counts_held_elements(component: Component, role: str) -> bool:
    """Whether an aggregator says how many elements it holds."""
    return role == "aggregator" and has_attribute(component, "held_elements")


class RequestSource(Source):
    """Emits the texts of a request."""

    request: Any = None
    """The whole request; set when the source is initialised."""


class AnswerNode:
    """A node that makes an answer; it keeps account of it only for a flow that saves its state."""

    is_saved = False
    """Whether the flow saves its state; set by the reactor before the flow starts."""


class RequestProcessor(Processor, AnswerNode):
    """Answers the request whose texts it receives."""

    request_source: RequestSource | None = None
    """Holds the rest of the request; set by the reactor before the flow starts."""
    emitted = 0
    """How many outputs the flow has taken; set by the reactor before it calls `snapshot`."""

    def drain(self) -> None:
        """Ends the answer after the elements sent so far. May be called from any thread."""
