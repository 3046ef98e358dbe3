"""The environment of a pack: a variable that is not set here will be set on the gateway."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final


class Placeholders(Mapping[str, str]):
    """An environment in which every variable has a value: the given one, or `${NAME}`."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> str:
        return self._values.get(name, f"${{{name}}}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


PLACEHOLDERS: Final = Placeholders({})
"""No variable has a value: what is packed must not depend on the environment."""


def with_placeholders() -> Placeholders:
    """This process's environment, with a placeholder for what is not set."""
    return Placeholders(os.environ)
