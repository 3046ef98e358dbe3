"""The batch: the elements of one call of a batch method, as a sequence.

A running flow uses the native `Batch`, which reads the queue in place. The class below is the same
in Python, for places without the native module, such as a WebAssembly guest. One test suite covers
both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from torvyn.contract.element import Element
from torvyn.contract.json_payload import Dataclass


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
