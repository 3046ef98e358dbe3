"""The workload of every entry: read tokens, drop blocked words, assemble and deliver sentences.

It provides the tokens, the result type and the expected result, computed by a simple loop that no
entry shares. It must never be called inside a timed region.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

SEED_TOKENS = (
    *("The", " quick", " brown", " fox", " jumped", " over", " the", " lazy", " dog", "."),
    *(" The", " blocked_word", " was", " filtered", "."),
    *(" Torvyn", " handles", " streaming", " tokens", "."),
)
BLOCKED = "blocked_word"
BLOCKED_WORDS = frozenset({BLOCKED})
"""Entries look up `token.strip().lower()`; the tokens are ASCII, so that is ASCII case."""
STOPS = (".", "!", "?")
QUEUE_DEPTH = 64
DEEP_QUEUE = 1024
"""For entries that take large batches."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run delivered. `texts` is None for a sink that only counts."""

    sentences: int
    filtered: int
    texts: Sequence[str] | None = field(default=None, repr=False)

    @property
    def checksum(self) -> str:
        """A digest of the sentences in order, computed on demand: no timed run pays for it."""
        if self.texts is None:
            return ""
        return hashlib.blake2b("\x00".join(self.texts).encode(), digest_size=16).hexdigest()


def tokens(count: int) -> list[str]:
    """The seed's twenty tokens, repeated up to `count`."""
    rounds, rest = divmod(count, len(SEED_TOKENS))
    return [*SEED_TOKENS * rounds, *SEED_TOKENS[:rest]]


def expected(stream: Sequence[str]) -> Result:
    """The expected result, from the simplest loop."""
    texts: list[str] = []
    buffer = ""
    filtered = 0
    for token in stream:
        if token.strip().lower() in BLOCKED_WORDS:
            filtered += 1
            continue
        buffer += token
        if token.rstrip().endswith(STOPS):
            texts.append(buffer.strip())
            buffer = ""
    if buffer.strip():
        texts.append(buffer.strip())
    return Result(len(texts), filtered, texts)
