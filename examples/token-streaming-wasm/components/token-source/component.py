"""A stand-in for a language model: one element per token."""

from collections.abc import Iterator

import torvyn

TEXT = (
    "The| quick| brown| fox| jumped| over| the| lazy| dog|."
    "| The| blocked_word| was| filtered|."
    "| Torvyn| handles| streaming| tokens|."
)


class TokenSource(torvyn.Source):
    unit = "tokens"

    def __iter__(self) -> Iterator[str]:
        return iter(TEXT.split("|"))
