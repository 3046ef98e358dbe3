"""The workload of the inference benchmark: words, two guards, sentences, the expected output."""

from __future__ import annotations

from typing import Any

TOKENS = 50_000
TEXT = "The quick brown fox jumped over the lazy dog, and badword was never said by anyone at all."
WORDS = TEXT.split()
BLOCKED = ("badword", "otherword")


def tokens(count: int = TOKENS) -> list[str]:
    return [" " + WORDS[at % len(WORDS)] for at in range(count)]


def right(count: int = TOKENS) -> str:
    """The expected output."""
    return "".join(tokens(count)).replace("badword", "***")


def parts() -> tuple[Any, ...]:
    """The stages between the engine and its reader."""
    from torvyn.components import Blocklist, Redact, Sentence

    guard = Blocklist({"words": [*BLOCKED], "mode": "stream", "action": "replace"})
    return guard, Redact(), Sentence()
