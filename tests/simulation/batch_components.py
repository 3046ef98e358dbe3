"""The components of a scenario with batch methods, in three kinds.

entries  an exception in the result is the error of its element
raises   the call raises, without having done anything, when one of its elements would fail
only     like `entries` or `raises`, by role, and without the method for one element
"""

from __future__ import annotations

from typing import Any

from scenario import fails, is_fatal, roll
from simulated_components import (
    RecordingSink,
    ScenarioComponent,
    TextJoiner,
    TextProcessor,
    VerdictFilter,
)

import torvyn
from torvyn import Batch, Element, Signal

ONE_BY_ONE = ("generator", "breaks")
"""Styles whose results a batch cannot have: the call raises."""


class BatchActor(ScenarioComponent):
    def refuse(self, elements: Batch) -> None:
        """Raises if the elements must be given one by one."""
        stage = self.stage
        is_bad = any(fails(stage, text) or is_fatal(stage, text) for text in elements.texts)
        if stage.style in ONE_BY_ONE or (is_bad and stage.batches == "raises"):
            raise torvyn.Internal("one by one, please")

    def entry(self, call: Any, element: Element) -> Any:
        try:
            return call(element)
        except Exception as error:
            return error


class BatchFilter(BatchActor, VerdictFilter):
    def evaluate_batch(self, elements: Batch) -> list[Any]:
        self.refuse(elements)
        return [self.entry(self._evaluate, element) for element in elements]

    def _evaluate(self, element: Element) -> Any:
        return VerdictFilter.evaluate(self, element)


class BatchProcessor(BatchActor, TextProcessor):
    def process_batch(self, elements: Batch) -> list[Any]:
        self.refuse(elements)
        return [self.entry(self._process, element) for element in elements]

    def _process(self, element: Element) -> Any:
        return TextProcessor.process(self, element)


class BatchJoiner(BatchActor, TextJoiner):
    def ingest_batch(self, elements: Batch) -> list[Any]:
        stage = self.stage
        if any(fails(stage, text) or is_fatal(stage, text) for text in elements.texts):
            if len(elements) > 1:
                raise torvyn.Internal("one by one, please")
            self.may_fail(elements.texts[0])
        made = [self._gather(element.text) for element in elements]
        return [text for text in made if text is not None]

    def _gather(self, text: str) -> str | None:
        self.gathered.append(text)
        if len(self.gathered) < (2 if self.stage.style == "two" else 3):
            return None
        return self.flush()[0]


class BatchSink(BatchActor, RecordingSink):
    def push_batch(self, elements: Batch) -> Any:
        self.refuse(elements)
        entries: list[Any] = []
        for element in elements:
            entries.append(self.entry(self._accept, element))
            if entries[-1] is not None and self.stage.policy == "fail-fast":
                # The flow fails here: what follows is not accepted.
                entries += [entries[-1]] * (len(elements) - len(entries))
                break
        if any(entry is not None for entry in entries):
            return entries
        if self.stage.style == "pause" and any(self._pauses(text) for text in elements.texts):
            self.world.wait_for(self, "resume")
            return Signal.PAUSE
        return None

    def _accept(self, element: Element) -> None:
        self.may_fail(element.text)
        self.texts.append(element.text)

    def _pauses(self, text: str) -> bool:
        return roll(self.stage, "pause", text, 3) == 0


BATCHED: dict[str, tuple[type[Any], str]] = {
    "filter": (BatchFilter, "evaluate"),
    "processor": (BatchProcessor, "process"),
    "aggregator": (BatchJoiner, "ingest"),
    "sink": (BatchSink, "push"),
}


def batch_class(role: str, kind: str, is_async: bool) -> type[Any]:
    cls, single = BATCHED[role]
    methods: dict[str, Any] = {}
    if is_async:
        methods = {name: _awaiting(getattr(cls, name)) for name in (single, f"{single}_batch")}
    if kind == "only":
        base = next(parent for parent in cls.__mro__ if parent.__module__.startswith("torvyn."))
        methods.setdefault(f"{single}_batch", getattr(cls, f"{single}_batch"))
        methods[single] = getattr(base, single)
    return type(cls.__name__, (cls,), methods) if methods else cls


def _awaiting(method: Any) -> Any:
    async def call(self: Any, argument: Any) -> Any:
        first = argument if isinstance(argument, Element) else argument[0]
        await self.pause(first.text)
        return method(self, argument)

    return call
