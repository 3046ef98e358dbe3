"""Flows in a program, written like a notebook, cell by cell."""

# %% The stages of a flow are iterables, functions and components.
import asyncio
from collections.abc import AsyncIterator

import torvyn

TOKENS = ["The", " quick", " fox", ".", " The", " secret", " is", " out", ".", " Bye"]


class Sentences(torvyn.Aggregator):
    """Joins tokens until one ends a sentence."""

    def init(self, config: str) -> None:
        self.held: list[str] = []

    def ingest(self, element: torvyn.Element) -> str | None:
        self.held.append(element.text)
        return self.take() if element.text.endswith(".") else None

    def flush(self) -> list[str]:
        return [self.take()] if self.held else []

    def take(self) -> str:
        text, self.held = "".join(self.held).strip(), []
        return text


def allowed(element: torvyn.Element) -> bool:
    return "secret" not in element.text


# %% `for` drives the flow on this thread.
print("for:")
for element in torvyn.Flow(TOKENS, torvyn.filter(allowed), Sentences()):
    print(f"  {element.sequence}: {element.text}")


# %% `async for` drives it on the running loop, next to other tasks.
async def model() -> AsyncIterator[str]:
    for token in TOKENS:
        await asyncio.sleep(0)
        yield token


async def main() -> None:
    flow = torvyn.Flow(model, torvyn.filter(allowed), Sentences())
    async for element in flow:
        print(f"  {element.sequence}: {element.text}")


print("async for:")
asyncio.run(main())

# %% You feed a flow that has no source. Each call returns what is ready.
print("feed:")
flow = torvyn.Flow(torvyn.filter(allowed), Sentences())
for token in TOKENS:
    for element in flow.feed(token):
        print(f"  after {token!r}: {element.text}")
for element in flow.finish():
    print(f"  at the end: {element.text}")

# %% Every flow keeps statistics.
print("statistics:")
counts = flow.statistics
print(f"  {flow.state}: {len(TOKENS)} fed, {counts.filtered} filtered, {counts.emitted} out")
print(f"  {counts.allocations} payloads made, {counts.live} still alive")
