"""The element: one token, one reading, one sentence on its way through a flow.

The native `Element` is the one a running flow hands out. The class below it is the same thing in
Python for places without the native module, such as a WebAssembly guest; one test suite runs over
both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torvyn.errors import InvalidInput

TEXT = "text/plain; charset=utf-8"
BINARY = "application/octet-stream"
LONGEST_CONTENT_TYPE = 256

_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Context:
    """What all elements of one flow share."""

    flow_id: str
    flow_name: str
    trace_id: str
    deadline_ns: int | None = None
    """Monotonic time at which the flow is cut, or None."""
    request_id: str | None = None
    """Of the request that the flow works for, when it serves one."""
    redact: Callable[[str], str] | None = field(default=None, compare=False, repr=False)
    """Removes the secrets of the flow's configuration from a text; None if it has none."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The secrets that `redact` knows must not leave the process.
        names = ("flow_id", "flow_name", "trace_id", "deadline_ns", "request_id")
        return (Context, tuple(getattr(self, name) for name in names))


class Output:
    """What a component emits when text or bytes alone do not say enough."""

    __slots__ = ("attributes", "content_type", "data", "keep")

    def __init__(
        self,
        data: str | bytes,
        *,
        content_type: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        keep: bool = False,
    ) -> None:
        self.data = data
        self.content_type = content_type
        self.attributes = attributes
        self.keep = keep
        """An interrupt drops what waits downstream, but not this."""

    def __repr__(self) -> str:
        return f"Output({self.data!r})"


class Element:
    """`Element` in Python. Frozen; owns its data."""

    if not TYPE_CHECKING:
        __slots__ = ("_data", "attributes", "content_type", "context", "sequence", "timestamp_ns")

    def __init__(
        self,
        data: str | bytes,
        sequence: int = 0,
        timestamp_ns: int = 0,
        content_type: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        context: Context | None = None,
    ) -> None:
        if not isinstance(data, (str, bytes)):
            raise TypeError(f"an element's data is str or bytes, not {type(data).__name__}")
        length = len((content_type or "").encode())
        if length > LONGEST_CONTENT_TYPE:
            most = f"a content type is at most {LONGEST_CONTENT_TYPE} bytes long"
            raise ValueError(f"{most}, not {length}")
        put = object.__setattr__
        put(self, "_data", data)
        put(self, "sequence", sequence)
        put(self, "timestamp_ns", timestamp_ns)
        put(self, "content_type", content_type or (TEXT if isinstance(data, str) else BINARY))
        put(
            self,
            "attributes",
            MappingProxyType(dict(attributes)) if attributes else _NO_ATTRIBUTES,
        )
        put(self, "context", context)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an element is frozen: `{name}` cannot be set")

    @property
    def text(self) -> str:
        """The payload as text; raises `InvalidInput` when it is not UTF-8."""
        if isinstance(self._data, str):
            return self._data
        try:
            return self._data.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"the payload is not UTF-8: {error.reason}") from error

    def text_lossy(self) -> str:
        """The payload as text, bad bytes replaced by U+FFFD."""
        return self._data if isinstance(self._data, str) else self._data.decode(errors="replace")

    @property
    def data(self) -> memoryview:
        """The payload as a read-only view of bytes."""
        return memoryview(self._data.encode() if isinstance(self._data, str) else self._data)

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PureElement):
            return NotImplemented
        return self._facts() == other._facts()

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

    def _facts(self) -> tuple[object, ...]:
        return (
            bytes(self.data),
            self.sequence,
            self.timestamp_ns,
            self.content_type,
            dict(self.attributes),
        )

    if TYPE_CHECKING:
        # Slots at run time. Declared as properties, so that an assignment is reported.
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
        # Pickle finds a class by its name, and `Element` is the native one here.
        PureElement.__name__ = PureElement.__qualname__ = "PureElement"
