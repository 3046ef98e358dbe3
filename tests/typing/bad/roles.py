"""Components whose methods answer what the reactor would refuse."""

from collections.abc import Iterator

import torvyn
from torvyn import Verdict


class TextFilter(torvyn.Filter):
    def evaluate(self, element: torvyn.Element) -> str:  # error: override
        return element.text


class AsyncTextFilter(torvyn.Filter):
    async def evaluate(self, element: torvyn.Element) -> str:  # error: override
        return element.text


class MaybeFilter(torvyn.Filter):
    def evaluate(self, element: torvyn.Element) -> bool | None:  # error: override
        return None


class Length(torvyn.Processor):
    def process(self, element: torvyn.Element) -> int:  # error: override
        return len(element)


class Lengths(torvyn.Processor):
    def process(self, element: torvyn.Element) -> Iterator[int]:  # error: override
        yield len(element)


class AsyncLength(torvyn.Processor):
    async def process(self, element: torvyn.Element) -> int:  # error: override
        return len(element)


class TextProcessor(torvyn.Processor):
    def process(self, element: str) -> str:  # error: override
        return element


class NoElement(torvyn.Processor):
    def process(self) -> str:  # error: override
        return ""


class SetProcessor(torvyn.Processor):
    def process(self, element: torvyn.Element) -> set[str]:  # error: override
        return set()

    def flush(self) -> int:  # error: override
        return 0


class NumberedRouter(torvyn.Router):
    ports = ("even", "odd")

    def route(self, element: torvyn.Element) -> int:  # error: override
        return element.sequence % 2


class LoudSink(torvyn.Sink):
    def push(self, element: torvyn.Element) -> str:  # error: override
        return element.text

    def complete(self) -> None:  # error: override
        pass


class IntSource(torvyn.Source):
    def pull(self) -> int:  # error: override
        return 5


class SetAggregator(torvyn.Aggregator):
    def ingest(self, element: torvyn.Element) -> set[str]:  # error: override
        return set()


class Misspelt(torvyn.Processor):
    run = "thraed"  # error: assignment
    unit = 5  # error: assignment

    def teardown(self, config: int) -> None:  # error: override
        pass


class Verdicts(torvyn.Filter):
    def evaluate(self, element: torvyn.Element) -> Verdict:
        if element.sequence == 0:
            return Verdict.replace(5)  # error: argument
        if element.sequence == 1:
            return Verdict.block()  # error: arguments
        if element.sequence == 2:
            return Verdict.hold  # error: return
        if element.sequence == 3:
            return Verdict("blok")  # error: argument
        if element.sequence == 4:
            return Verdict.PAS  # error: attribute
        return "pass"  # error: return


def label(element: torvyn.Element) -> int:
    return len(element)


torvyn.filter(label)  # error: argument
torvyn.filter(lambda element: element.text)  # error: argument
torvyn.filter(lambda element: element.txt == "a")  # error: attribute
torvyn.processor(label)  # error: argument
torvyn.router(label, ["a"])  # error: argument
torvyn.router(lambda element: ["a"])  # error: arguments
torvyn.aggregator(label)  # error: argument
torvyn.sink(label)  # error: argument
torvyn.sink(lambda element: torvyn.PENDING)  # error: argument
