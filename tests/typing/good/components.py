# pyright: strict
"""One component of each kind that a role allows: plain, generators, coroutines, threads."""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator

import torvyn
from torvyn import PENDING, Element, End, Output, Signal, Verdict
from torvyn.typing import Pending


class Inbox(torvyn.Source):
    unit = "messages"

    def init(self, config: str) -> None:
        self.waiting: list[str] = []

    def put(self, text: str) -> None:
        self.waiting.append(text)
        self.wake()

    def pull(self) -> str | End | Pending:
        if self.waiting:
            return self.waiting.pop()
        return PENDING.after(0.5) if self.config else End("stop")

    def notify_backpressure(self, signal: Signal) -> None:
        print(signal is Signal.PAUSE)


class AsyncPull(torvyn.Source):
    async def init(self, config: str) -> None:
        await asyncio.sleep(0)

    async def pull(self) -> Output | None:
        return Output("a", attributes={"choice": 1}, keep=True)

    async def teardown(self) -> None:
        await asyncio.sleep(0)


class Iterated(torvyn.Source):
    def __iter__(self) -> Generator[str, None, End]:
        yield "a"
        return End("length", usage={"completion_tokens": 1})


class AsyncIterated(torvyn.Source):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"a"


class One(torvyn.Processor):
    def process(self, element: Element) -> str:
        return element.text

    def flush(self) -> list[str]:
        return ["end"]


class Many(torvyn.Processor):
    def process(self, element: Element) -> list[str] | tuple[Output, bytes] | None:
        return [element.text] if element.text else None


class Lazy(torvyn.Processor):
    def process(self, element: Element) -> Iterator[str | Element | None]:
        yield None
        yield element

    def flush(self) -> Iterator[str]:
        yield "end"


class Awaited(torvyn.Processor):
    async def process(self, element: Element) -> str | None:
        await asyncio.sleep(0)
        return element.text

    async def flush(self) -> list[bytes]:
        return [b"end"]


class AsyncLazy(torvyn.Processor):
    async def process(self, element: Element) -> AsyncIterator[str]:
        yield element.text


class Blocking(torvyn.Processor):
    run = "thread"

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def process(self, element: Element) -> str:
        return element.text * self.times


class YesNo(torvyn.Filter):
    def evaluate(self, element: Element) -> bool:
        return element.text != "a"


class Judge(torvyn.Filter):
    def evaluate(self, element: Element) -> bool | Verdict:
        if element.sequence == 0:
            return Verdict.replace("b")
        if element.sequence == 1:
            return Verdict.hold()
        return Verdict.block("enough") if element.sequence == 2 else Verdict.PASS

    def flush(self) -> Verdict:
        return Verdict.DROP


class AsyncJudge(torvyn.Filter):
    async def evaluate(self, element: Element) -> Verdict:
        return Verdict.PASS


class ByLength(torvyn.Router):
    ports = ("short", "long")

    def route(self, element: Element) -> tuple[str, ...]:
        return ("short",) if len(element) < 5 else ("long", "short")


class ByName(torvyn.Router):
    ports = {"a": 1, "b": 2}.keys()

    async def route(self, element: Element) -> str | None:
        return "a" if element.text else None


class Pairs(torvyn.Aggregator):
    def init(self, config: str) -> None:
        self.texts: list[str] = []

    def ingest(self, element: Element) -> str | None:
        self.texts.append(element.text)
        return "".join(self.texts) if len(self.texts) % 2 == 0 else None

    def flush(self) -> list[str]:
        return self.texts


class AsyncPairs(torvyn.Aggregator):
    async def ingest(self, element: Element) -> Output | None:
        return Output(element.text, content_type=element.content_type)


class Printer(torvyn.Sink):
    def push(self, element: Element) -> None:
        print(element.text)

    def complete(self, end: End) -> None:
        print(end.finish_reason)


class Pausing(Printer):
    def push(self, element: Element) -> None:
        super().push(element)


class Signalling(torvyn.Sink):
    async def push(self, element: Element) -> Signal:
        return Signal.READY

    async def complete(self, end: End) -> None:
        print(end.to_dict())


async def main() -> None:
    flow = torvyn.Flow(Inbox, One, Many(), YesNo("config"), Pairs())
    async for element in flow:
        print(element.text, element.attributes.get("choice"))
    await torvyn.Flow(AsyncIterated(), AsyncLazy(), Signalling()).run_async()
