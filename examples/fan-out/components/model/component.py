"""A stand-in for a language model: one element per token."""

from collections.abc import Iterator

import torvyn


class Model(torvyn.Source):
    unit = "tokens"

    def __iter__(self) -> Iterator[str]:
        yield from ("One", " buffer", ",", " many", " readers", ".")
