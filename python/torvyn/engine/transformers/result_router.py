"""Where the library's batching delivers its results: to one function, on its own thread.

The library's own router puts every result into a queue, or wakes an event loop that may be closed.
A second thread that reads the queue competes for the interpreter with the one that computes.

This module imports torch and transformers: import it only when an engine starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from transformers.generation.continuous_batching.continuous_api import OutputRouter


class ResultRouter(OutputRouter):  # type: ignore[misc]
    """Gives all results of a step to `receive`, which must not block."""

    receive: Callable[[Sequence[Any]], object] = staticmethod(lambda results: None)

    def deliver(self, output: Any) -> None:
        self.receive((output,))

    def deliver_batch(self, outputs: Sequence[Any]) -> None:
        self.receive(outputs)
