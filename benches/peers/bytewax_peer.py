"""bytewax: source, filter, keyed state for the sentences, sink; one worker, in this process.

The fastest idiomatic form found: a `DynamicSource` of our own (the testing source looks at every
item), `flat_map_batch` for the filter and `stateful_batch` for the aggregator, whose state bytewax
can recover and flush at the end. Item by item (batches of 1) and in batches of 64. `-closure` hides
the state in a stateless operator: half the cost, not recovered, not flushed, one worker only.
"""

# The peer may be missing or untyped; mypy must give the same result in both cases.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call"
# mypy: no-warn-unused-ignores

from __future__ import annotations

import importlib.util
from typing import Any

from benches.peers import distribution_version
from benches.work import BLOCKED_WORDS, STOPS, Result

NAME = "bytewax-item"
BATCH = 64


def VERSION() -> str:
    return f"bytewax {distribution_version('bytewax')}"


def available() -> str | None:
    if importlib.util.find_spec("bytewax") is None:
        return "bytewax is not installed"
    return None


class _Sentences:
    """What both forms of the aggregator do; bytewax's own classes wrap it."""

    def __init__(self) -> None:
        self.buffer: list[str] = []

    def take(self, batch: list[str]) -> list[str]:
        out: list[str] = []
        buffer = self.buffer
        for token in batch:
            buffer.append(token)
            if token.rstrip().endswith(STOPS):
                out.append("".join(buffer).strip())
                buffer.clear()
        return out

    def rest(self) -> list[str]:
        rest = "".join(self.buffer).strip()
        return [rest] if rest else []


class _Filter:
    def __init__(self) -> None:
        self.filtered = 0

    def take(self, batch: list[str]) -> list[str]:
        blocked = BLOCKED_WORDS
        kept = [token for token in batch if token.strip().lower() not in blocked]
        self.filtered += len(batch) - len(kept)
        return kept


def _source(tokens: list[str], size: int) -> Any:
    from bytewax.inputs import DynamicSource, StatelessSourcePartition

    class Partition(StatelessSourcePartition[str]):
        def __init__(self) -> None:
            self.batches = (tokens[at : at + size] for at in range(0, len(tokens), size))

        def next_batch(self) -> list[str]:
            return next(self.batches)

    class Source(DynamicSource[str]):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Partition:
            return Partition()

    return Source()


def _logic() -> Any:
    from bytewax.operators import StatefulBatchLogic

    class Logic(StatefulBatchLogic[str, str, list[str]]):
        def __init__(self, state: list[str] | None) -> None:
            self.sentences = _Sentences()
            self.sentences.buffer.extend(state or [])

        def on_batch(self, values: list[str]) -> tuple[list[str], bool]:
            return self.sentences.take(values), self.RETAIN

        def on_eof(self) -> tuple[list[str], bool]:
            return self.sentences.rest(), self.DISCARD

        def snapshot(self) -> list[str]:
            return list(self.sentences.buffer)

    return Logic


def _run(tokens: list[str], size: int, closure: bool = False) -> Result:
    from bytewax import operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, run_main

    texts: list[str] = []
    guard, sentences = _Filter(), _Sentences()
    flow = Dataflow("token_streaming")
    stream = op.flat_map_batch("filter", op.input("in", flow, _source(tokens, size)), guard.take)
    if closure:
        out = op.flat_map_batch("sentences", stream, sentences.take)
    else:
        keyed = op.key_on("key", stream, lambda _token: "all")
        out = op.key_rm("unkey", op.stateful_batch("sentences", keyed, _logic()))
    op.output("out", out, TestingSink(texts))
    run_main(flow)
    texts += sentences.rest()
    return Result(len(texts), guard.filtered, texts)


def run(tokens: list[str]) -> Result:
    return _run(tokens, 1)


VARIANTS = {
    f"bytewax-{BATCH}": lambda tokens: _run(tokens, BATCH),
    "bytewax-item-closure": lambda tokens: _run(tokens, 1, closure=True),
    f"bytewax-{BATCH}-closure": lambda tokens: _run(tokens, BATCH, closure=True),
}
