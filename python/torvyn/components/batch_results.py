"""What a sink answers for a batch: which of its elements it refuses for good, one by one.

A sink says that an element is refused for good with `InvalidInput`, and with nothing else: what may
pass by itself is waited for inside the sink. A refusal of several elements together is divided
until it is that of single ones, so that one of them does not take the others along: at most
`1 + 2 * refused * log2(batch)` requests, and never two per element.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from torvyn._contract.element import Element
from torvyn.errors import InvalidInput

T = TypeVar("T")
Results = list[Exception | None]
"""For each element None, or why it was refused. None instead of the list: none was."""


class BatchResults(Generic[T]):
    """The elements of a batch as what is sent of them, without those that cannot be sent."""

    def __init__(self, elements: Sequence[Element], encode: Callable[[Element], T]) -> None:
        self._errors: Results = [None] * len(elements)
        self.sendable: list[tuple[int, T]] = []
        """Positions in the batch, and what is sent."""
        for at, element in enumerate(elements):
            try:
                self.sendable.append((at, encode(element)))
            except InvalidInput as error:
                self._errors[at] = error

    @property
    def values(self) -> list[T]:
        return [value for _, value in self.sendable]

    def refuse(self, at: int, error: Exception) -> None:
        self._errors[at] = error

    @property
    def answer(self) -> Results | None:
        return self._errors if any(self._errors) else None

    def send(self, attempt: Callable[[list[T]], object]) -> Results | None:
        """Sends everything together, or what of it is not refused; returns the answer."""
        parts = [self.sendable] if self.sendable else []
        while parts:
            part = parts.pop()
            try:
                attempt([value for _, value in part])
            except InvalidInput as error:
                parts += self._divide(part, error)
        return self.answer

    async def send_async(
        self, parts: list[list[tuple[int, T]]], attempt: Callable[[list[int]], Awaitable[object]]
    ) -> Results | None:
        """The same for requests that have a part of the batch each, by their positions."""
        parts = parts[::-1]
        while parts:
            part = parts.pop()
            try:
                await attempt([at for at, _ in part])
            except InvalidInput as error:
                parts += self._divide(part, error)
            except Exception as error:
                if not any(each is None for each in self._errors[: part[0][0]]):
                    raise
                # What was delivered before it stays so.
                for at, _ in [*part, *(each for rest in parts for each in rest)]:
                    self._errors[at] = error
                break
        return self.answer

    def _divide(self, part: list[tuple[int, T]], error: InvalidInput) -> list[list[tuple[int, T]]]:
        """The halves of what was refused, the first one last."""
        if len(part) == 1:
            self._errors[part[0][0]] = error
            return []
        middle = len(part) // 2
        return [part[middle:], part[:middle]]


def raise_refusal(answer: Results | None) -> None:
    """For a batch of one element."""
    if answer is not None and answer[0] is not None:
        raise answer[0]
