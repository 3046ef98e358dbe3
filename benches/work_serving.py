"""The workload of the serving benchmarks: an answer, a block-list, and the expected output.

Tokens are words, one in seventeen of them blocked; the guard replaces it however it is split. The
guard here is what a careful engineer writes in Python: it releases everything at once, except a
last word that may still become a blocked one.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from benches.work_stream import WORDS

BLOCKED: Final = (
    *("badword", "otherword", "secretkey", "internalname", "codename", "swearing", "cursing"),
    *("passphrase", "credential", "projectx", "launchdate", "salaries", "merger", "layoff"),
    *("lawsuit", "breach", "exploit", "backdoor", "racket", "scandal"),
)
REPLACEMENT: Final = "***"
GUARD: Final = {"words": [*BLOCKED], "mode": "stream", "action": "replace"}
MODEL: Final = "chat"
RATE_FLOW: Final = "rate"
"""A flow beside it, whose tokens come at a rate, each with the time at which it was generated."""


def answer(tokens: int) -> list[str]:
    return [" " + WORDS[at % len(WORDS)] for at in range(tokens)]


def right(tokens: int) -> str:
    """What leaves the guard."""
    return "".join(answer(tokens)).replace("badword", REPLACEMENT)


class Guard:
    """The joined results of `put` and `finish` are the guarded text."""

    _found = re.compile(r"\b(?:" + "|".join(BLOCKED) + r")\b", re.IGNORECASE)
    _beginnings = frozenset(word[:end] for word in BLOCKED for end in range(1, len(word) + 1))

    def __init__(self) -> None:
        self._pending = ""

    def put(self, text: str) -> str:
        text = self._pending + text
        cut = text.rfind(" ") + 1
        if text[cut:].lower() not in self._beginnings:
            cut = len(text)
        self._pending = text[cut:]
        return self._found.sub(REPLACEMENT, text[:cut])

    def finish(self) -> str:
        text, self._pending = self._pending, ""
        return self._found.sub(REPLACEMENT, text)


def is_guarded_right() -> bool:
    """Checks that the guard finds its words however they are split."""
    text = " It was a BadWord, not badwords."
    for places in [[at] for at in range(1, len(text))]:
        guard = Guard()
        parts = [text[a:b] for a, b in pairwise([0, *places, len(text)])]
        text_out = "".join([guard.put(part) for part in parts]) + guard.finish()
        if text_out != " It was a ***, not badwords.":
            return False
    return True
