"""The component inside the guest: made when the flow starts, called, its answers sent."""

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
from torvyn.contract.element import BINARY, TEXT, Context, Output, PureElement
from torvyn.sandbox.guest import deep_json

try:
    from wit_world.imports import buffer_allocator
except ImportError:
    # The worlds of sinks and routers have none: they make no elements.
    buffer_allocator = None

deep_json.install()

Answer = TypeVar("Answer")

make: Callable[[], Any] = object
"""The component's class, set by the app that componentize-py builds."""

component: Any = None

patience_ns: int | None = None
"""How long a source that has nothing yet, or a sink that pauses, is left alone; None: as the host
likes."""

REPORT_MAX = 16 << 10
"""Characters of a traceback that are printed."""

_CASES: tuple[tuple[type[errors.ComponentError], str], ...] = (
    (errors.InvalidInput, "InvalidInput"),
    (errors.Unavailable, "Unavailable"),
    (errors.Fatal, "Fatal"),
)


def _alone() -> int:
    thing = object()
    return sys.getrefcount(thing)


_ALONE = _alone()
"""What is counted of an object that only one local name holds; it differs between interpreters."""


class LentElement(PureElement):
    """An element whose payload and context stay with the host until somebody asks for them."""

    __slots__ = ("_lent",)

    def __init__(self, lent: Any) -> None:
        put = object.__setattr__
        put(self, "_lent", lent)
        put(self, "sequence", lent.meta.sequence)
        put(self, "timestamp_ns", lent.meta.timestamp_ns)
        put(self, "content_type", lent.meta.content_type)

    def __getattr__(self, name: str) -> Any:
        # Slots that are still empty; what is set never comes here.
        if name == "_data":
            value: Any = self._lent.payload.read_all()
        elif name == "context":
            value = _context(self._lent.context)
        elif name == "attributes":
            value = _attributes(self._lent.payload)
        else:
            raise AttributeError(name)
        object.__setattr__(self, name, value)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return (PureElement, super().__reduce__()[1])

    def keep(self) -> None:
        """The loan ends: a component that still holds the element has its bytes."""
        _ = self._data, self.context, self.attributes
        object.__setattr__(self, "_lent", None)


def _attributes(payload: Any) -> Mapping[str, Any]:
    found = details.attributes(payload)
    return MappingProxyType({each.name: json.loads(each.value) for each in found})


def _context(lent: Any) -> Context:
    left_ns = lent.deadline_ns()
    deadline_ns = time.monotonic_ns() + left_ns if left_ns else None
    return Context(lent.flow_id(), details.flow_name(), lent.trace_id(), deadline_ns)


def start(config: str) -> None:
    global component
    # Lines leave when they are complete, as they do in-process.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    component = make()
    component.init(config)


def stop() -> None:
    try:
        component.teardown()
    except Exception as error:
        report(error)
        details.failed(f"{type(error).__name__}: {error}")
    sys.stdout.flush()


def report(error: Exception) -> None:
    """Prints the traceback, which the host logs; of a long one the end, where the error is."""
    text = "".join(traceback.format_exception(error))
    sys.stderr.write(text if len(text) <= REPORT_MAX else "..." + text[-REPORT_MAX:])


def heed(call: Callable[..., Any], *arguments: Any) -> None:
    """Calls what has no answer; the stream goes on when it fails."""
    try:
        call(*arguments)
    except Exception as error:
        report(error)


def guarded(call: Callable[..., Answer], *arguments: Any) -> Answer:
    """Calls; what it raises becomes an error of the contract."""
    try:
        return call(*arguments)
    except Exception as error:
        raise Err(_process_error(error)) from error


def lend(call: Callable[[PureElement], Answer], lent: Any) -> Answer:
    """Calls with an element that is the component's for the length of the call."""
    element = LentElement(lent)
    answer = guarded(call, element)
    if sys.getrefcount(element) > _ALONE:
        element.keep()
    return answer


def _process_error(error: Exception) -> Any:
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


def wrong(answer: Any, expected: str) -> errors.ContractError:
    """An answer that the role does not allow."""
    message = f"returned {type(answer).__name__}, expected {expected}"
    return errors.ContractError("contract.wrong-result", message)


EMISSIONS = "None, str, bytes, Output, a list or a generator of them"


def outputs(answer: Any) -> list[Any]:
    """Nothing, one or several, as `output-element`s."""
    if answer is None:
        return []
    if isinstance(answer, (str, bytes, Output, PureElement)):
        return [output(answer)]
    if isinstance(answer, Iterable):
        return [output(item) for item in answer if item is not None]
    raise wrong(answer, EMISSIONS)


def one_output(answer: Any) -> Any:
    """Nothing or one: more do not fit into what a sandboxed aggregator answers to an element."""
    found = outputs(answer)
    if len(found) > 1:
        raise errors.ContractError(
            "contract.wrong-result",
            f"returned {len(found)} elements at once; a sandboxed aggregator returns one, "
            "and more from `flush`",
        )
    return found[0] if found else None


def output(item: Any, expected: str = EMISSIONS) -> Any:
    data, content_type, attributes, keep = item, None, None, False
    if isinstance(item, Output):
        data, content_type, attributes = item.data, item.content_type, item.attributes
        keep = item.keep
    elif isinstance(item, PureElement):
        data, content_type, attributes = bytes(item.data), item.content_type, item.attributes
    if not isinstance(data, (str, bytes)):
        raise wrong(data, expected)
    content_type = content_type or (TEXT if isinstance(data, str) else BINARY)
    payload = _buffer(_encoded(data))
    if attributes is not None:
        details.set_attributes(payload, [_attribute(name, attributes[name]) for name in attributes])
    if keep:
        details.keep(payload)
    return types.OutputElement(types.ElementMeta(0, 0, content_type), payload)


def _encoded(data: str | bytes) -> bytes:
    try:
        return data.encode() if isinstance(data, str) else data
    except UnicodeEncodeError as error:
        message = "the text contains a lone surrogate and cannot be encoded as UTF-8"
        raise errors.InvalidInput(message) from error


def _attribute(name: str, value: Any) -> Any:
    return details.Attribute(name, json.dumps(value, default=str, ensure_ascii=False))


def _buffer(data: bytes) -> Any:
    try:
        with buffer_allocator.allocate(len(data)) as buffer:
            if data:
                buffer.append(data)
            return buffer.freeze()
    except Err as error:
        raise errors.Internal(f"no buffer of {len(data)} bytes: {error.value}") from error


class Lifecycle:
    """The interface `torvyn:streaming/lifecycle`."""

    def init(self, config: str) -> None:
        guarded(start, config)

    def teardown(self) -> None:
        stop()
