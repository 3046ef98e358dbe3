"""The components of the Torvyn entries, as a user would write them. Importing this imports torvyn.

They do what the token-streaming example does, with a sink that keeps the text instead of printing
it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torvyn
from benches.work import STOPS


class TokenSource(torvyn.Source):
    unit = "tokens"

    def __init__(self, tokens: list[str]) -> None:
        super().__init__()
        self.tokens = tokens

    def __iter__(self) -> Iterator[str]:
        yield from self.tokens


class PullSource(torvyn.Source):
    """The same with `pull`, as in the example."""

    unit = "tokens"

    def __init__(self, tokens: list[str]) -> None:
        super().__init__()
        self.tokens = tokens
        self.index = 0

    def pull(self) -> str | None:
        if self.index == len(self.tokens):
            return None
        token = self.tokens[self.index]
        self.index += 1
        return token


class BatchSource(torvyn.Source):
    """The same with `pull_batch`."""

    unit = "tokens"

    def __init__(self, tokens: list[str]) -> None:
        super().__init__()
        self.tokens = tokens
        self.index = 0

    def pull_batch(self, most: int) -> list[str] | None:
        tokens = self.tokens[self.index : self.index + most]
        self.index += most
        return tokens or None


class ContentFilter(torvyn.Filter):
    def init(self, config: str) -> None:
        self.blocked = frozenset(word.strip().lower() for word in config.split(","))
        self.filtered = 0

    def evaluate(self, element: torvyn.Element) -> bool:
        if element.text.strip().lower() in self.blocked:
            self.filtered += 1
            return False
        return True


class SentenceAggregator(torvyn.Aggregator):
    unit = "sentences"

    def init(self, config: str) -> None:
        self.buffer: list[str] = []

    def ingest(self, element: torvyn.Element) -> str | None:
        token = element.text
        self.buffer.append(token)
        if token.rstrip().endswith(STOPS):
            return self.take()
        return None

    def flush(self) -> list[str]:
        rest = self.take()
        return [rest] if rest else []

    def take(self) -> str:
        text = "".join(self.buffer).strip()
        self.buffer.clear()
        return text


class TextSink(torvyn.Sink):
    def init(self, config: str) -> None:
        self.texts: list[str] = []

    def push(self, element: torvyn.Element) -> None:
        self.texts.append(element.text)


class BatchFilter(torvyn.Filter):
    """The same in batches, with the loops of the peers that work in batches."""

    def init(self, config: str) -> None:
        self.blocked = frozenset(word.strip().lower() for word in config.split(","))
        self.filtered = 0

    def evaluate_batch(self, elements: torvyn.Batch) -> list[bool]:
        blocked = self.blocked
        verdicts = [text.strip().lower() not in blocked for text in elements.texts]
        self.filtered += verdicts.count(False)
        return verdicts


class BatchAggregator(torvyn.Aggregator):
    unit = "sentences"

    def init(self, config: str) -> None:
        self.buffer: list[str] = []

    def ingest_batch(self, elements: torvyn.Batch) -> list[str]:
        out: list[str] = []
        buffer = self.buffer
        for token in elements.texts:
            buffer.append(token)
            if token.rstrip().endswith(STOPS):
                out.append("".join(buffer).strip())
                buffer.clear()
        return out

    def flush(self) -> list[str]:
        rest = "".join(self.buffer).strip()
        return [rest] if rest else []


class BatchSink(torvyn.Sink):
    def init(self, config: str) -> None:
        self.texts: list[str] = []

    def push_batch(self, elements: torvyn.Batch) -> None:
        self.texts += elements.texts
