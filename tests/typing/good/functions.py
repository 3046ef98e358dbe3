# pyright: strict
"""Functions and iterables as stages."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator

import torvyn
from torvyn import Element, Signal, Verdict
from torvyn.typing import Backpressure, ComponentLike


def model() -> Iterator[str]:
    yield "a"


def model_with_end() -> Iterator[str | torvyn.End]:
    yield "a"
    yield torvyn.End("length")


async def async_model() -> AsyncIterator[torvyn.Output]:
    yield torvyn.Output("a")


def numbered(stream: Iterator[Element]) -> Iterator[str]:
    for count, element in enumerate(stream):
        yield f"{count}. {element.text}"


async def async_numbered(stream: AsyncIterator[Element]) -> AsyncIterator[str]:
    async for element in stream:
        yield element.text


def any_iterable(stream: Iterable[Element]) -> Iterable[Element]:
    yield from stream


async def judge(element: Element) -> Verdict:
    await asyncio.sleep(0)
    return Verdict.DROP


async def split(element: Element) -> AsyncIterator[str]:
    for word in element.text.split():
        yield word


async def fetch(element: Element) -> str:
    return element.text


@torvyn.filter
def short(element: Element) -> bool:
    return len(element) < 5


@torvyn.processor
def shout(element: Element) -> str:
    return element.text.upper()


def slow(element: Element) -> Signal:
    return Signal.PAUSE


received: list[Element] = []
stages: list[ComponentLike] = [["a", "b"], short, shout, numbered]
policies: tuple[Backpressure, ...] = ("block", "drop-oldest")

torvyn.Flow(*stages)
torvyn.Flow(model, short, shout, torvyn.sink(received.append))
torvyn.Flow(async_model, torvyn.filter(judge), torvyn.processor(split), async_numbered)
torvyn.Flow(model(), torvyn.stream(numbered), torvyn.stream(async_numbered), any_iterable)
torvyn.Flow(["a", "b"], torvyn.processor(fetch), torvyn.sink(slow))
torvyn.Flow(("a", b"b"), torvyn.filter(lambda element: element.text in "ab"))
torvyn.Flow((f"{n}" for n in range(3)), torvyn.processor(lambda element: [element, element.text]))
torvyn.Flow({"a": 1}, torvyn.router(lambda element: ["even"], ports=("even", "odd")))
torvyn.Flow(torvyn.source(model_with_end), torvyn.source(async_model()), torvyn.source(["a"]))
torvyn.Flow(torvyn.aggregator(lambda element: None, lambda: ["rest"]), torvyn.Sink)
torvyn.Flow(torvyn.aggregator(fetch), torvyn.sink(lambda element: print(element.text)))
for policy in policies:
    torvyn.Flow(["a"], backpressure=policy)
