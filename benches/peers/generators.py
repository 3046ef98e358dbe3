"""Plain generators, one per stage: the lowest cost of a separate stage in Python.

No queue, no accounting, no concurrency and no back-pressure other than being pulled: a floor, not a
runtime.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator

from benches.work import BLOCKED_WORDS, STOPS, Result

NAME = "generators"


def VERSION() -> str:
    return f"Python {platform.python_version()}"


def available() -> str | None:
    return None


class _Filter:
    """A generator with one thing to remember: how many tokens it dropped."""

    def __init__(self) -> None:
        self.filtered = 0

    def stream(self, stream: Iterator[str]) -> Iterator[str]:
        blocked = BLOCKED_WORDS
        for token in stream:
            if token.strip().lower() in blocked:
                self.filtered += 1
            else:
                yield token


def _source(tokens: list[str]) -> Iterator[str]:
    yield from tokens


def _sentences(stream: Iterator[str]) -> Iterator[str]:
    buffer: list[str] = []
    for token in stream:
        buffer.append(token)
        if token.rstrip().endswith(STOPS):
            yield "".join(buffer).strip()
            buffer.clear()
    rest = "".join(buffer).strip()
    if rest:
        yield rest


def _sink(stream: Iterator[str]) -> list[str]:
    texts: list[str] = []
    for text in stream:
        texts.append(text)
    return texts


def run(tokens: list[str]) -> Result:
    guard = _Filter()
    texts = _sink(_sentences(guard.stream(_source(tokens))))
    return Result(len(texts), guard.filtered, texts)
