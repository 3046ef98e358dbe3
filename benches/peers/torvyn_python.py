"""Torvyn with Python components in all four stages, driven by the caller (`flow.run()`).

Queues, accounting and statistics are on, as they are by default. `torvyn-python-pull` has a source
with `pull` instead of `__iter__`. `torvyn-python-batch` has a source with `pull_batch` and
components that take what waits in one call: at most 64 elements, the
default capacity of a queue, or 1,024.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benches.peers import distribution_version, torvyn_missing
from benches.work import BLOCKED, DEEP_QUEUE, QUEUE_DEPTH, Result

if TYPE_CHECKING:
    import torvyn

NAME = "torvyn-python"


def VERSION() -> str:
    return f"torvyn {distribution_version('torvyn')}"


def available() -> str | None:
    return torvyn_missing()


def _run(source: torvyn.Source) -> Result:
    import torvyn
    from benches.torvyn_components import ContentFilter, SentenceAggregator, TextSink

    guard, sink = ContentFilter(BLOCKED), TextSink()
    torvyn.Flow(source, guard, SentenceAggregator(), sink).run()
    return Result(len(sink.texts), guard.filtered, sink.texts)


def run(tokens: list[str]) -> Result:
    from benches.torvyn_components import TokenSource

    return _run(TokenSource(tokens))


def run_pull(tokens: list[str]) -> Result:
    from benches.torvyn_components import PullSource

    return _run(PullSource(tokens))


def run_batch(tokens: list[str], queue_depth: int = QUEUE_DEPTH) -> Result:
    import torvyn
    from benches.torvyn_components import BatchAggregator, BatchFilter, BatchSink, BatchSource

    guard, sink = BatchFilter(BLOCKED), BatchSink()
    stages = (BatchSource(tokens), guard, BatchAggregator(), sink)
    torvyn.Flow(*stages, queue_depth=queue_depth).run()
    return Result(len(sink.texts), guard.filtered, sink.texts)


VARIANTS = {
    "torvyn-python-pull": run_pull,
    "torvyn-python-batch": run_batch,
    f"torvyn-python-batch-{DEEP_QUEUE}": lambda tokens: run_batch(tokens, DEEP_QUEUE),
}
