"""Runs the component inside the guest: creates it, calls it and converts its results."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from componentize_py_types import Err  # type: ignore[import-not-found]
from wit_world.imports import details, types  # type: ignore[import-not-found]

from torvyn import errors
from torvyn._contract import functions
from torvyn._contract.config import init_argument
from torvyn._contract.element import (
    BINARY,
    JSON,
    TEXT,
    Batch,
    Context,
    Output,
    PureElement,
    json_text,
)
from torvyn._contract.roles import METHODS, batch_method_of, defines_method
from torvyn._contract.signals import Signal
from torvyn._sandbox.guest import deep_json

INCLUDED = (functions,)
"""A guest cannot import later, and a component may use this first when it is called."""

try:
    from wit_world.imports import buffer_allocator
except ImportError:
    # Sinks and routers emit no elements, so their worlds do not import it.
    buffer_allocator = None

deep_json.install()

Result = TypeVar("Result")

component_class: Callable[[], Any] = object
"""The component's class, set by the app that componentize-py builds."""

component: Any = None

poll_delay_ns: int | None = None
"""How long the host waits before it calls a pending source or a paused sink again; None: the host
decides."""

MAX_TRACEBACK_CHARS = 16 << 10

_CASES: tuple[tuple[type[errors.ComponentError], str], ...] = (
    (errors.InvalidInput, "InvalidInput"),
    (errors.Unavailable, "Unavailable"),
    (errors.Fatal, "Fatal"),
)


def _count_one_reference() -> int:
    thing = object()
    return sys.getrefcount(thing)


_ONE_REFERENCE = _count_one_reference()
"""The reference count of an object with one local name; it differs between interpreters."""


class BorrowedElement(PureElement):
    """An element whose payload and context stay with the host until they are read."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Any) -> None:
        set_slot = object.__setattr__
        set_slot(self, "_handle", handle)
        set_slot(self, "sequence", handle.meta.sequence)
        set_slot(self, "timestamp_ns", handle.meta.timestamp_ns)
        set_slot(self, "content_type", handle.meta.content_type)

    def __getattr__(self, name: str) -> Any:
        # Only called for empty slots.
        if name == "_data":
            value: Any = self._handle.payload.read_all()
        elif name == "context":
            value = context_from(self._handle.context)
        elif name == "attributes":
            value = _attributes(self._handle.payload)
        else:
            raise AttributeError(name)
        object.__setattr__(self, name, value)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return (PureElement, super().__reduce__()[1])

    def copy_data(self) -> None:
        """Copies the data before the borrow ends, for a component that keeps the element."""
        _ = self._data, self.context, self.attributes
        object.__setattr__(self, "_handle", None)


def _attributes(payload: Any) -> Mapping[str, Any]:
    return attributes_from(details.attributes(payload))


def attributes_from(attributes: Iterable[Any]) -> Mapping[str, Any]:
    return MappingProxyType({each.name: json.loads(each.value) for each in attributes})


def context_from(handle: Any) -> Context:
    left_ns = handle.deadline_ns()
    deadline_ns = time.monotonic_ns() + left_ns if left_ns else None
    return Context(handle.flow_id(), details.flow_name(), handle.trace_id(), deadline_ns)


def start(config: str) -> None:
    global component
    # Send each complete line at once, as in-process.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    _send_logs()
    component = component_class()
    component.init(init_argument(component, config))


def _send_logs() -> None:
    """Sends what the component logs, from the level info on, where it prints its errors."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.basicConfig(format="%(message)s", level=logging.INFO, force=True)


def stop() -> None:
    try:
        component.teardown()
    except Exception as error:
        report(error)
        details.failed(f"{type(error).__name__}: {error}")
    sys.stdout.flush()


def report(error: Exception) -> None:
    """Prints the traceback, which the host logs; a long one is cut at the start."""
    text = "".join(traceback.format_exception(error))
    sys.stderr.write(
        text if len(text) <= MAX_TRACEBACK_CHARS else "..." + text[-MAX_TRACEBACK_CHARS:]
    )


def notify(call: Callable[..., Any], *arguments: Any) -> None:
    """Calls without a result; a failure is printed and the stream continues."""
    try:
        call(*arguments)
    except Exception as error:
        report(error)


def call_component(call: Callable[..., Result], *arguments: Any) -> Result:
    """Calls; converts exceptions to the contract's errors."""
    try:
        return call(*arguments)
    except Exception as error:
        raise Err(process_error(error)) from error


def call_with_element(call: Callable[[PureElement], Result], handle: Any) -> Result:
    """Calls with an element that is borrowed for the length of the call."""
    element = BorrowedElement(handle)
    result = call_component(call, element)
    if sys.getrefcount(element) > _ONE_REFERENCE:
        element.copy_data()
    return result


def process_error(error: Exception) -> Any:
    for kind, case in _CASES:
        if isinstance(error, kind):
            return getattr(types, f"ProcessError_{case}")(error.message)
    if isinstance(error, errors.ContractError):
        details.wrong_answer()
        return types.ProcessError_Internal(error.message)
    if isinstance(error, errors.DeadlineExceeded):
        return types.ProcessError_DeadlineExceeded()
    if isinstance(error, errors.Internal):
        return types.ProcessError_Internal(error.message)
    report(error)
    return types.ProcessError_Internal(f"{type(error).__name__}: {error}")


def wrong_result(result: Any, expected: str) -> errors.ContractError:
    """The error for a result that the role does not allow."""
    message = f"returned {type(result).__name__}, expected {expected}"
    return errors.ContractError("contract.wrong-result", message)


EMISSIONS = "None, str, bytes, a dict, a dataclass, Output, a list or a generator of them"


def outputs(result: Any) -> list[Any]:
    """Zero, one or several `output-element`s."""
    if result is None:
        return []
    if is_emission(result):
        return [output(result)]
    return [output(item) for item in items_of(result)]


def is_emission(result: Any) -> bool:
    """Whether it is one emission: a dict can be iterated, too."""
    kinds = (str, bytes, dict, Output, PureElement)
    return isinstance(result, kinds) or hasattr(type(result), "__dataclass_fields__")


def items_of(result: Any) -> list[Any]:
    """The items of a list or generator, without None."""
    if not isinstance(result, Iterable):
        raise wrong_result(result, EMISSIONS)
    return [item for item in result if item is not None]


def one_output(result: Any) -> Any:
    """Zero or one: `ingest` of a sandboxed aggregator cannot return more."""
    emitted = outputs(result)
    if len(emitted) > 1:
        raise errors.ContractError(
            "contract.wrong-result",
            f"returned {len(emitted)} elements; `ingest` in the sandbox may return one, "
            "`flush` any number",
        )
    return emitted[0] if emitted else None


def output(item: Any, expected: str = EMISSIONS) -> Any:
    data, content_type, attributes, keep = parts_of(item, expected)
    payload = _buffer(data)
    pairs = attribute_pairs(attributes)
    if pairs is not None:
        details.set_attributes(payload, [details.Attribute(*pair) for pair in pairs])
    if keep:
        details.keep(payload)
    return types.OutputElement(types.ElementMeta(0, 0, content_type), payload)


def parts_of(
    item: Any, expected: str = EMISSIONS
) -> tuple[bytes, str, Mapping[str, Any] | None, bool]:
    """The bytes, the content type, the attributes and `keep` of an output."""
    if type(item) is str:
        return _encode(item), TEXT, None, False
    data, content_type, attributes, keep = item, None, None, False
    if isinstance(item, Output):
        data, content_type, attributes = item.data, item.content_type, item.attributes
        keep = item.keep
    elif isinstance(item, PureElement):
        data, content_type, attributes = bytes(item.data), item.content_type, item.attributes
    if not isinstance(data, (str, bytes)):
        text = json_text(data)
        if text is None:
            raise wrong_result(data, expected)
        data, content_type = text, content_type or JSON
    content_type = content_type or (TEXT if isinstance(data, str) else BINARY)
    return _encode(data), content_type, attributes, keep


def _encode(data: str | bytes) -> bytes:
    try:
        return data.encode() if isinstance(data, str) else data
    except UnicodeEncodeError as error:
        message = "the text contains half of a surrogate pair and cannot be encoded"
        raise errors.InvalidInput(message) from error


def attribute_pairs(attributes: Mapping[str, Any] | None) -> list[tuple[str, str]] | None:
    """Names and JSON values; None for outputs that inherit their attributes."""
    if attributes is None:
        return None
    return [
        (name, json.dumps(value, default=str, ensure_ascii=False))
        for name, value in attributes.items()
    ]


def has_batch_method() -> bool:
    """Whether the component has a batch method that no closer class overrides by the single one."""
    return batch_method_of(component, component.role) is not None


def call_method(name: str, element: PureElement) -> Any:
    """Calls the method for one element; if the component has only the batch method, that one."""
    if defines_method(component, component.role, METHODS[component.role]):
        return getattr(component, name)(element)
    result = getattr(component, f"{name}_batch")(Batch([element]))
    if name != "ingest" and isinstance(result, (list, tuple)):
        (result,) = result
    if isinstance(result, BaseException):
        raise result
    return result


def signal_of(result: Any) -> Signal:
    """The signal that a sink returned."""
    signal = Signal.READY if result is None else result
    if not isinstance(signal, Signal):
        raise wrong_result(result, "None or Signal")
    if signal is Signal.PAUSE and poll_delay_ns is not None:
        details.ask_after(poll_delay_ns)
    return signal


def _buffer(data: bytes) -> Any:
    try:
        with buffer_allocator.allocate(len(data)) as buffer:
            if data:
                buffer.append(data)
            return buffer.freeze()
    except Err as error:
        raise errors.Internal(
            f"cannot allocate a buffer of {len(data)} bytes: {error.value}"
        ) from error


class Lifecycle:
    """The interface `torvyn:streaming/lifecycle`."""

    def init(self, config: str) -> None:
        call_component(start, config)

    def teardown(self) -> None:
        stop()
