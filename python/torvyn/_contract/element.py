"""Elements: one item of data in a flow, such as a token or a sentence, and the batch of one call.

A running flow uses the native `Element` and `Batch`, which reads the queue in place. The classes
below are the same in Python, for places without the native module, such as a WebAssembly guest. One
test suite covers both.

A dict or a dataclass as a payload becomes JSON, and `Element.json()` reads it. The native core asks
`json_text` last, when it knows no other meaning of a component's result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, overload

from torvyn._contract.inspection import class_attribute, class_name, is_instance
from torvyn._contract.signals import End
from torvyn.errors import ContractError, InvalidInput

TEXT = "text/plain; charset=utf-8"
BINARY = "application/octet-stream"
MAX_CONTENT_TYPE_BYTES = 256

_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})
JSON: Final = "application/json"


class Dataclass(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


def _fields(value: Any) -> dict[str, Any]:
    """A dataclass inside of another object."""
    if not _is_dataclass(value):
        raise TypeError(f"an object of type {class_name(value)} has no form in JSON")
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}


def _is_dataclass(value: object) -> bool:
    kind = type(value)
    return class_attribute(kind, "__dataclass_fields__") is not None and not issubclass(kind, End)


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_fields
)


def json_text(value: object) -> str | None:
    """A dict or a dataclass as JSON; None for anything else."""
    if not is_instance(value, dict) and not _is_dataclass(value):
        return None
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"a {class_name(value)} cannot be sent as JSON: {error}"
        hint = "a payload is str, bytes, or a dict or dataclass of what JSON knows"
        raise ContractError("contract.wrong-result", message, hint=hint) from error


def read_json(element: Any) -> Any:
    """The payload of an element as JSON."""
    try:
        return json.loads(element.text)
    except ValueError as error:
        raise InvalidInput(f"the payload is not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class Context:
    """What all elements of a flow share."""

    flow_id: str
    flow_name: str
    trace_id: str
    deadline_ns: int | None = None
    """The monotonic time at which the flow is cancelled, or None."""
    request_id: str | None = None
    """The id of the request that the flow answers, if any."""
    epoch: str = ""
    """Behind a durable edge, the identity of the log that has numbered the elements: with
    `Element.sequence`, a key that stays the same in every run. Empty elsewhere."""
    redact: Callable[[str], str] | None = field(default=None, compare=False, repr=False)
    """Removes the secrets of the flow's configuration from a text; None if it has none."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The secrets that `redact` knows must not leave the process.
        names = ("flow_id", "flow_name", "trace_id", "deadline_ns", "request_id", "epoch")
        return (Context, tuple(getattr(self, name) for name in names))


class Output:
    """An emission with a content type, attributes or a port."""

    __slots__ = ("attributes", "content_type", "data", "keep", "port")

    def __init__(
        self,
        data: str | bytes | dict[str, Any] | Dataclass,
        *,
        content_type: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        keep: bool = False,
        port: str | None = None,
    ) -> None:
        self.data = data
        self.content_type = content_type
        self.attributes = attributes
        self.keep = keep
        """Whether the element survives an interrupt, which drops waiting elements."""
        self.port = port
        """The output port; None means the first one."""

    def __repr__(self) -> str:
        return f"Output({self.data!r})"


class Element:
    """An element that owns its data. Immutable."""

    if not TYPE_CHECKING:
        __slots__ = ("_data", "attributes", "content_type", "context", "sequence", "timestamp_ns")

    def __init__(
        self,
        data: str | bytes | dict[str, Any] | Dataclass,
        sequence: int = 0,
        timestamp_ns: int = 0,
        content_type: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        context: Context | None = None,
    ) -> None:
        if not isinstance(data, (str, bytes)):
            text = json_text(data)
            if text is None:
                raise TypeError(
                    f"the data of an element must be str or bytes, not {type(data).__name__}"
                )
            data, content_type = text, content_type or JSON
        length = len((content_type or "").encode())
        if length > MAX_CONTENT_TYPE_BYTES:
            limit = f"a content type may have at most {MAX_CONTENT_TYPE_BYTES} bytes"
            raise ValueError(f"{limit}, not {length}")
        set_slot = object.__setattr__
        set_slot(self, "_data", data)
        set_slot(self, "sequence", sequence)
        set_slot(self, "timestamp_ns", timestamp_ns)
        set_slot(self, "content_type", content_type or (TEXT if isinstance(data, str) else BINARY))
        set_slot(
            self,
            "attributes",
            MappingProxyType(dict(attributes)) if attributes else _NO_ATTRIBUTES,
        )
        set_slot(self, "context", context)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an element is immutable: cannot set `{name}`")

    @property
    def text(self) -> str:
        """The payload as text; raises `InvalidInput` if it is not UTF-8."""
        if isinstance(self._data, str):
            return self._data
        try:
            return self._data.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"the payload is not UTF-8: {error.reason}") from error

    def text_lossy(self) -> str:
        """The payload as text; invalid bytes become U+FFFD."""
        return self._data if isinstance(self._data, str) else self._data.decode(errors="replace")

    def json(self) -> Any:
        """The payload as JSON; raises `InvalidInput` if it is not JSON."""
        return read_json(self)

    @property
    def data(self) -> memoryview:
        """The payload as a read-only view of its bytes."""
        return memoryview(self._data.encode() if isinstance(self._data, str) else self._data)

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PureElement):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((bytes(self.data), self.sequence))

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            type(self),
            (
                self._data,
                self.sequence,
                self.timestamp_ns,
                self.content_type,
                dict(self.attributes) or None,
                self.context,
            ),
        )

    def __repr__(self) -> str:
        return f"Element({self._data!r}, sequence={self.sequence})"

    def _fields(self) -> tuple[object, ...]:
        return (
            bytes(self.data),
            self.sequence,
            self.timestamp_ns,
            self.content_type,
            dict(self.attributes),
        )

    if TYPE_CHECKING:
        # Slots at run time; declared as properties so that type checkers reject assignments.
        _data: str | bytes

        @property
        def sequence(self) -> int: ...
        @property
        def timestamp_ns(self) -> int: ...
        @property
        def content_type(self) -> str: ...
        @property
        def attributes(self) -> Mapping[str, Any]: ...
        @property
        def context(self) -> Context | None: ...


PureElement = Element

if not TYPE_CHECKING:
    try:
        from torvyn._native import Element
    except ImportError:
        pass
    else:
        # Pickle finds a class by name, and `Element` is the native class here.
        PureElement.__name__ = PureElement.__qualname__ = "PureElement"


class Batch(Sequence[Element]):
    """Elements in the order in which they waited."""

    __slots__ = ("_elements",)

    def __init__(
        self, elements: Iterable[Element | str | bytes | dict[str, Any] | Dataclass]
    ) -> None:
        self._elements = tuple(
            item if isinstance(item, Element) else Element(item) for item in elements
        )

    @property
    def texts(self) -> list[str]:
        """The payloads as text; raises `InvalidInput` when one is not UTF-8."""
        return [element.text for element in self._elements]

    @property
    def payloads(self) -> list[bytes]:
        """The payloads as bytes."""
        return [bytes(element.data) for element in self._elements]

    def __len__(self) -> int:
        return len(self._elements)

    @overload
    def __getitem__(self, at: int) -> Element: ...
    @overload
    def __getitem__(self, at: slice) -> list[Element]: ...
    def __getitem__(self, at: int | slice) -> Element | list[Element]:
        return list(self._elements[at]) if isinstance(at, slice) else self._elements[at]

    def __iter__(self) -> Iterator[Element]:
        return iter(self._elements)

    def __repr__(self) -> str:
        return f"Batch({list(self._elements)!r})"


PureBatch = Batch

if not TYPE_CHECKING:
    try:
        from torvyn._native import Batch
    except ImportError:
        pass
    else:
        Sequence.register(Batch)
        # Pickle finds a class by name, and `Batch` is the native class here.
        PureBatch.__name__ = PureBatch.__qualname__ = "PureBatch"
