"""An engine in a notebook: cells that print an answer while it is generated."""

# %% An engine. For a model in this process: `torvyn.engine.open("local")`.
import asyncio

import torvyn
from torvyn.components import Redact, Sentence

ANSWER = "Write to jo@example.org for the data. The paper is public. Ask for more."
engine = torvyn.engine.open("scripted", text=ANSWER)

# %% `for` works in a cell although a loop is running there: the engine runs on another loop.
print("for:")
for delta in engine.generate("Where is the data?", max_tokens=7):
    print(delta.text, end="", flush=True)
print()


# %% In a coroutine, `async for`; leaving it ends the engine's request.
async def first_sentence() -> str:
    text = ""
    async for delta in engine.generate("Where is the data?"):
        text += delta.text
        if text.endswith("."):
            break
    return text


async def two_at_once() -> None:
    print("async for:")
    for text in await asyncio.gather(first_sentence(), first_sentence()):
        print(" ", text)
    # A `for` loop inside a running event loop, as in every cell of a notebook.
    print("  for, on a running loop:", engine.complete("Where is the data?", max_tokens=4).text)


asyncio.run(two_at_once())


# %% Through guards: the output of the flow is the answer.
def guards() -> torvyn.Flow:
    return torvyn.Flow(Redact(), Sentence())


print("through guards:")
generation = engine.generate("Where is the data?", through=guards)
for delta in generation:
    if delta.text:
        print(" ", delta.text.strip())

# %% Usage and timing.
print("usage:", generation.usage.completion_tokens, "tokens,", generation.finish_reasons[0])
print("timing:", *sorted(name for name in generation.timing if name.endswith("_s"))[:3])
