"""The element: one item of data in a flow, such as a token or a sentence.

A running flow uses the native `Element`. The class below is the same in Python, for places without
the native module, such as a WebAssembly guest. One test suite covers both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torvyn.contract.json_payload import JSON, Dataclass, json_text, read_json
from torvyn.errors import InvalidInput

TEXT = "text/plain; charset=utf-8"
BINARY = "application/octet-stream"
MAX_CONTENT_TYPE_BYTES = 256

_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


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
