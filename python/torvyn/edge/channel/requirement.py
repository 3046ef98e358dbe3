"""Which versions of torvyn an artifact runs on: `>=0.3,<2`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_PART: Final = re.compile(r"(>=|<=|==|!=|>|<)\s*(\d{1,9}(?:\.\d{1,9}){0,3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Requirement:
    parts: tuple[tuple[str, tuple[int, ...]], ...]
    """A comparison and a version each; all of them must hold."""

    @classmethod
    def parse(cls, text: str) -> Requirement:
        parts = []
        for part in filter(None, (each.strip() for each in text.split(","))):
            found = _PART.fullmatch(part)
            if found is None:
                raise ValueError(f"`{part}` is not a requirement such as `>=0.3`")
            parts.append((found[1], tuple(int(digits) for digits in found[2].split("."))))
        return cls(tuple(parts))

    def allows(self, version: str) -> bool:
        """What follows the numbers of a version, such as `rc1`, is ignored."""
        digits = re.match(r"\d+(?:\.\d+)*", version)
        own = tuple(int(part) for part in digits[0].split(".")) if digits else ()
        return all(_COMPARE[sign](_order(own, other), 0) for sign, other in self.parts)

    def __str__(self) -> str:
        return ",".join(f"{sign}{'.'.join(map(str, version))}" for sign, version in self.parts)


def _order(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """-1, 0 or 1; missing numbers are 0, so that 1.2 is 1.2.0."""
    length = max(len(one), len(other))
    first, second = (each + (0,) * (length - len(each)) for each in (one, other))
    return (first > second) - (first < second)
